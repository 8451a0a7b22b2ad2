/**
 * What parent and decoder child say to one another. Memory is named by offsets, never by pointers. Everything that a child
 * says is checked against these schemas: it has met hostile bytes, so the parent trusts nothing of it.
 */
import { z } from "zod";
import type { ErrorCode } from "../errors.ts";
import { dataTypeSchema, isContentHash, mediaMetadataSchema } from "../tensor/index.ts";
import type { NativeDecoders } from "./contract.ts";

/** Bytes of the memfd in which a child finds small media; larger ones come in a memfd of their own. */
export const INBOX_BYTES = 16 * 1024 * 1024;

/** Descriptors travel over a socket that the child has as this descriptor. */
export const CHANNEL_DESCRIPTOR = 3;

/** Tags on the descriptor channel: the inbox, a medium in a file of its own; a slab has its offset + 1. */
export const INBOX_TAG = 0;
export const FILE_TAG = 2 ** 52;

/** What is decoded, and how. */
export interface DecodeRequest {
  readonly kind: "image" | "video" | "audio";
  /** Settings of that kind, as the schemas in image/options.ts, video/options.ts and audio/options.ts take them. */
  readonly settings: unknown;
  /** Whether a clip gets a content hash. Images and sounds always do. */
  readonly hashVideo: boolean;
}

/** Where a room lies in the pool. */
export interface RoomPlace {
  readonly offset: number;
  readonly headerBytes: number;
  readonly payloadBytes: number;
}

/** Parent to child. Each message that announces a descriptor is sent after the descriptor itself. */
export type ParentMessage =
  | {
      readonly type: "start";
      readonly poolBytes: number;
      readonly memoryLimitBytes: number;
      readonly native: NativeDecoders;
    }
  /** A slab descriptor waits on the channel. */
  | { readonly type: "slab"; readonly offset: number; readonly byteLength: number; readonly prefault: boolean }
  /** The encoded bytes lie in the inbox, or in a file whose descriptor waits on the channel. */
  | {
      readonly type: "job";
      readonly id: number;
      readonly request: DecodeRequest;
      readonly byteLength: number;
      readonly source: "inbox" | "file";
      readonly threads: number;
      /** The room that it will probably ask for, or null. */
      readonly room: RoomPlace | null;
    }
  | { readonly type: "room"; readonly id: number; readonly room: RoomPlace }
  | { readonly type: "refused"; readonly id: number; readonly code: ErrorCode; readonly message: string };

const byteCount = z.int().nonnegative();

/** What a child may say of a medium or of itself. Whatever else failed is the parent's to say. */
const CHILD_CODES = [
  "media_empty",
  "media_unsupported",
  "media_corrupt",
  "limit_exceeded",
  "no_video_stream",
  "no_frames",
  "no_audio_stream",
  "no_samples",
  "frame_count_invalid",
  "no_room",
  "medium_exceeds_pool",
  "decoder_failed",
  "decoder_crashed",
  "decoder_timeout",
  "ffmpeg_unavailable",
  "system_failed",
  "file_unreadable",
] as const satisfies readonly ErrorCode[];
type ChildCode = (typeof CHILD_CODES)[number];

/** A code as a child may report it: any other failure is a failure of the decoder. */
export function childCode(code: ErrorCode): ChildCode {
  return CHILD_CODES.find((known) => known === code) ?? "decoder_failed";
}

/** Child to parent. */
export const childMessageSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("ready") }),
  /** Something that whoever runs the server should know, and that no job fails of. */
  z.strictObject({ type: z.literal("warning"), message: z.string().max(500) }),
  /** Private memory that it holds, now and then. */
  z.strictObject({ type: z.literal("memory"), privateBytes: byteCount }),
  /** The job has begun: if the child dies before it says so, the medium is not to blame. */
  z.strictObject({ type: z.literal("taken"), id: z.int() }),
  z.strictObject({ type: z.literal("need"), id: z.int(), payloadBytes: byteCount, headerBytes: byteCount }),
  z.strictObject({
    type: z.literal("done"),
    id: z.int(),
    tensor: z.strictObject({
      shape: z.array(byteCount).min(1).max(8),
      dtype: dataTypeSchema,
      metadata: mediaMetadataSchema,
      byteLength: byteCount.positive(),
      contentHash: z.custom<string>(isContentHash).nullable(),
    }),
    timings: z.strictObject({ decodeMs: z.number().nonnegative(), hashMs: z.number().nonnegative() }),
  }),
  z.strictObject({
    type: z.literal("failed"),
    id: z.int(),
    code: z.enum(CHILD_CODES),
    message: z.string().max(500),
    cause: z.string().max(1000).nullable(),
  }),
]);
export type ChildMessage = z.infer<typeof childMessageSchema>;
