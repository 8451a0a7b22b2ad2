/**
 * Content hashes: the name of a decoded medium, equal wherever in a fleet it was decoded.
 *
 * xxh3-64 with seed 0 over a header and the tensor's bytes, printed as 16 lower-case hex digits. All numbers in headers are
 * unsigned 64-bit little-endian. An image's header is rank, dimensions, element type byte; a clip's and a sound's begin with a
 * tag, so that media of different kinds and equal bytes have different names, and contain the metadata, because timestamps
 * and sample rates decide what a model sees and hears.
 *
 * The hash is one-shot. Whoever owns the bytes in front of the payload can put the header there and hash both in place
 * ({@link hashContiguous}); the other functions copy header and payload together first. Hashing runs at memory speed, but
 * synchronously: more than 256 KiB belongs where the medium is decoded, never on an event loop that serves requests.
 */
import { z } from "zod";
import { asMediaError, MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import { type DataType, dataTypeHashByte } from "./data_type.ts";
import {
  type AudioMetadata,
  audioMetadataJson,
  type DescriptorMetadata,
  isAudioMetadata,
  isImageMetadata,
  isVideoMetadata,
  requireVideoMetadata,
  type TensorInfo,
  type VideoMetadata,
  videoMetadataJson,
} from "./metadata.ts";
import { assertTensorByteLength, elementCount } from "./shape.ts";

/** What a content hash looks like: 16 lower-case hex digits, zero-padded. */
export const contentHashPattern: RegExp = /^[0-9a-f]{16}$/;

const textEncoder = new TextEncoder();

export const contentHashOptionsSchema = z
  .strictObject({
    hashVideo: z.boolean().describe("Whether clips are hashed too: the caller's word that the request is eligible."),
    onDebug: z
      .custom<(message: string, cause: unknown) => void>((value) => typeof value === "function", {
        error: "expected a function",
      })
      .optional()
      .describe("Receives why a clip that should have been hashed was not."),
  })
  .meta({ title: "ContentHashOptions", description: "Which media get a content hash." });
export type ContentHashOptions = z.input<typeof contentHashOptionsSchema>;

/** Whether a value is the text of a content hash. */
export function isContentHash(value: unknown): value is string {
  return typeof value === "string" && contentHashPattern.test(value);
}

/**
 * Everything that stands in front of an image's bytes when it is hashed: rank, dimensions, element type byte.
 * @throws MediaError invalid_argument for a shape that is none
 */
export function imageHashHeader(shape: readonly number[], dtype: DataType): Uint8Array {
  return concatenate(tensorHeader(shape, dtype));
}

/**
 * Everything that stands in front of a clip's bytes when it is hashed: the tag, rank, dimensions, element type byte, the
 * metadata's canonical JSON, the number of bytes. Tag, JSON and bytes are each preceded by their length.
 *
 * @param byteLength of the payload that follows, more than 0
 * @throws MediaError payload_empty; shape_mismatch when `byteLength` is not what shape and dtype make; invalid_argument for
 *   a shape that is none or a number in the metadata that is not finite
 */
export function videoHashHeader(
  shape: readonly number[],
  dtype: DataType,
  metadata: VideoMetadata,
  byteLength: number,
): Uint8Array {
  if (byteLength === 0) throw new MediaError("payload_empty", "a clip without bytes has no content hash");
  return taggedHashHeader("video", shape, dtype, videoMetadataJson(metadata), byteLength);
}

/**
 * Everything that stands in front of a sound's bytes when it is hashed: as {@link videoHashHeader}, with a tag of its own.
 * The fleet's reference has no sound; this is this module's own definition.
 * @throws MediaError as {@link videoHashHeader}
 */
export function audioHashHeader(
  shape: readonly number[],
  dtype: DataType,
  metadata: AudioMetadata,
  byteLength: number,
): Uint8Array {
  if (byteLength === 0) throw new MediaError("payload_empty", "a sound without bytes has no content hash");
  return taggedHashHeader("audio", shape, dtype, audioMetadataJson(metadata), byteLength);
}

function taggedHashHeader(
  kind: "video" | "audio",
  shape: readonly number[],
  dtype: DataType,
  metadataText: string,
  byteLength: number,
): Uint8Array {
  assertTensorByteLength(shape, dtype, byteLength);
  const tag = textEncoder.encode(kind);
  const json = textEncoder.encode(metadataText);
  return concatenate([
    u64le(tag.byteLength),
    tag,
    ...tensorHeader(shape, dtype),
    u64le(json.byteLength),
    json,
    u64le(byteLength),
  ]);
}

/**
 * Hashes bytes that already lie one after the other: a header of {@link imageHashHeader}, {@link videoHashHeader} or
 * {@link audioHashHeader} and the payload right behind it. Copies nothing.
 * @returns 16 lower-case hex digits
 */
export function hashContiguous(headerAndPayload: Uint8Array): string {
  return Bun.hash.xxHash3(headerAndPayload).toString(16).padStart(16, "0");
}

/**
 * Content hash of an image, or of any tensor without metadata of its own.
 *
 * @param shape dimensions, outermost first
 * @param bytes the contiguous tensor; may be empty if the shape has a zero
 * @returns 16 lower-case hex digits: `canonicalContentHash([1, 2, 3], "UINT8", new Uint8Array([0, 1, 2, 3, 4, 5]))` is
 *   `7a9bbcb11a898630`
 * @throws MediaError shape_mismatch when there are not as many bytes as shape and dtype make (such a name would be wrong
 *   without anybody noticing); invalid_argument for a shape that is none
 */
export function canonicalContentHash(shape: readonly number[], dtype: DataType, bytes: Uint8Array): string {
  assertTensorByteLength(shape, dtype, bytes.byteLength);
  return hashContiguous(concatenate([imageHashHeader(shape, dtype), bytes]));
}

/**
 * Content hash of a clip.
 *
 * @param shape `[T,H,W,3]`
 * @param metadata the tensor's metadata, externally tagged; they must be a clip's
 * @param bytes the contiguous frames
 * @returns 16 lower-case hex digits
 * @throws MediaError payload_empty, metadata_missing, metadata_kind_mismatch, shape_mismatch; invalid_argument for a shape
 *   that is none or a number in the metadata that is not finite
 */
export function hashVideoContent(
  shape: readonly number[],
  dtype: DataType,
  metadata: DescriptorMetadata | null,
  bytes: Uint8Array,
): string {
  if (bytes.byteLength === 0) throw new MediaError("payload_empty", "a clip without bytes has no content hash");
  const header = videoHashHeader(shape, dtype, requireVideoMetadata(metadata), bytes.byteLength);
  return hashContiguous(concatenate([header, bytes]));
}

/**
 * The content hash that a decoded medium gets, or null when it gets none: images and sounds always have one; clips only with
 * `hashVideo`; nothing without bytes or without metadata. A clip that cannot be hashed is still a good clip: the reason goes
 * to `onDebug` and there is no hash.
 *
 * @throws MediaError invalid_options for misspelt options; for an image or a sound shape_mismatch and invalid_argument
 */
export function contentHashForStorage(bytes: Uint8Array, info: TensorInfo, options: ContentHashOptions): string | null {
  const { hashVideo, onDebug } = parseOptions(contentHashOptionsSchema, options);
  const { shape, dtype, metadata } = info;
  if (bytes.byteLength === 0 || metadata === null) return null;
  if (isImageMetadata(metadata)) return canonicalContentHash(shape, dtype, bytes);
  if (isAudioMetadata(metadata)) {
    const header = audioHashHeader(shape, dtype, metadata.Audio, bytes.byteLength);
    return hashContiguous(concatenate([header, bytes]));
  }
  if (!hashVideo || !isVideoMetadata(metadata)) return null;
  try {
    return hashVideoContent(shape, dtype, metadata, bytes);
  } catch (error) {
    onDebug?.("the clip gets no content hash", asMediaError(error, "invalid_argument", "the clip could not be hashed"));
    return null;
  }
}

function tensorHeader(shape: readonly number[], dtype: DataType): Uint8Array[] {
  elementCount(shape);
  return [u64le(shape.length), ...shape.map(u64le), Uint8Array.of(dataTypeHashByte(dtype))];
}

function u64le(value: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true);
  return bytes;
}

function concatenate(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.byteLength, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.byteLength;
  }
  return whole;
}
