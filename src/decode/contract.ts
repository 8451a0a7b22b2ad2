/**
 * What a decode program (image, video, audio) is given and what it answers. Decode programs run in a decoder child only; the
 * parent process never calls them.
 */
import { type DataType, hashContiguous, type MediaMetadata } from "../tensor/index.ts";

/**
 * Registered memory for one tensor, mapped in the decoder child. Freed by the parent, never here.
 *
 * `payload` starts on a page (4096) boundary; `header` are the bytes right in front of it, so that the content hash can be
 * taken in one pass over `header‖payload` (the hash is one-shot and its header comes first).
 */
export interface DecodeRoom {
  /** The tensor's bytes; exactly the length that was asked for. */
  readonly payload: Uint8Array;
  /** Scratch bytes that end where `payload` begins. */
  readonly header: Uint8Array;
  /** How long tensors in it have been hashed, ms; {@link hashInRoom} counts. */
  hashMs: number;
  /** The last `headerLength` bytes of `header` and the first `payloadLength` of `payload`, as one view. */
  span(headerLength: number, payloadLength: number): Uint8Array;
}

/** Paths of the native parts that decoders use; null where one was not found. */
export interface NativeDecoders {
  /** The ffmpeg program: without it there are neither clips nor sound. */
  readonly ffmpegPath: string | null;
  /** libturbojpeg: without it JPEG is decoded with a copy. */
  readonly turboJpegPath: string | null;
  /** libwebp: likewise for WebP. */
  readonly webpPath: string | null;
}

/** What a decode program may use of the world around it. */
export interface DecodeContext extends NativeDecoders {
  /**
   * Asks the parent for registered memory.
   * @param payloadLength bytes of the tensor, more than 0
   * @param headerLength bytes wanted in front of it for the hash header (default one page)
   * @throws MediaError no_room, medium_exceeds_pool
   */
  room(payloadLength: number, headerLength?: number): Promise<DecodeRoom>;
  /** How many threads may work on the medium; more than one when other decoders have nothing to do. */
  readonly threads: number;
}

/** Where a job's time went in the decoder child, ms; waiting for a room is in neither. */
export interface DecodeTimings {
  readonly decodeMs: number;
  readonly hashMs: number;
}

/** A decoded tensor, lying in the room that was given last. */
export interface DecodedTensor {
  readonly shape: readonly number[];
  readonly dtype: DataType;
  readonly metadata: MediaMetadata;
  /** Bytes used of the room: the product of shape and the dtype's size. */
  readonly byteLength: number;
  /** 16 lower-case hex digits, or null when none was asked for. */
  readonly contentHash: string | null;
}

/**
 * The content hash of a tensor where it lies: the hash header goes right in front of it.
 * @param header all that the hash covers in front of the tensor's bytes
 * @param byteLength bytes of the tensor
 * @returns 16 lower-case hex digits
 * @throws MediaError decoder_failed when the room was asked for with less space than the header takes
 */
export function hashInRoom(room: DecodeRoom, header: Uint8Array, byteLength: number): string {
  const started = performance.now();
  const span = room.span(header.byteLength, byteLength);
  span.set(header);
  const hash = hashContiguous(span);
  room.hashMs += performance.now() - started;
  return hash;
}
