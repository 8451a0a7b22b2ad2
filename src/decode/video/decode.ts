/**
 * From the bytes of a clip to a tensor: facts of the container, the timestamps wanted, ffmpeg processes that write those frames
 * into private files of exactly their size, a copy into the room, the content hash there.
 */
import { MediaError } from "../../errors.ts";
import { UINT8, type VideoMetadata, videoHashHeader } from "../../tensor/index.ts";
import { type DecodeContext, type DecodedTensor, type DecodeRoom, hashInRoom } from "../contract.ts";
import { foundFfmpeg } from "../ffmpeg/process.ts";
import { type PixelSize, scaledSize } from "../scaled_size.ts";
import { sniffedName, sniffMedia } from "../sniff.ts";
import type { ClipSource, WantedFrames } from "./clip_source.ts";
import { CHANNELS } from "./command.ts";
import { NOT_TURNED, type Turn } from "./display_matrix.ts";
import type { ClipFacts } from "./facts.ts";
import { openFfmpegClip } from "./ffmpeg_clip.ts";
import { frameWalk, needsPictures } from "./frame_walk.ts";
import type { VideoSettings } from "./options.ts";
import type { Picture } from "./packets.ts";
import { sourceDuration, sourceFps, timestampSeconds } from "./sampling.ts";
import { openWebpClip } from "./webp_clip.ts";

export interface VideoDecodeOptions {
  readonly settings: VideoSettings;
  /** Whether the clip's content hash is wanted. */
  readonly hashVideo: boolean;
}

/** Longest JSON text of a timestamp in single precision, with its comma; and all else in front of a clip's bytes. */
const TIMESTAMP_JSON_BYTES = 26;
const HASH_HEADER_BYTES = 512;

/**
 * Decodes the frames of a clip that its settings ask for.
 *
 * @returns `[T,H,W,3]`, RGB, uint8, with `auto_rotate` as frames are shown, else as they are stored; T is what was found, which
 *   is less than was asked for when the clip is damaged, unless `strict`
 * @throws MediaError media_empty, media_unsupported, no_video_stream, media_corrupt, frame_count_invalid, limit_exceeded,
 *   no_frames for the clip's faults; ffmpeg_unavailable, decoder_failed, decoder_timeout, system_failed for the host's; and
 *   what the room's giver throws
 */
export async function decodeVideo(
  encoded: Uint8Array,
  options: VideoDecodeOptions,
  context: DecodeContext,
): Promise<DecodedTensor> {
  using source = await openClip(encoded, context.ffmpegPath);
  const { facts } = source;
  const { settings } = options;
  const wanted = wantedFrames(facts, settings, await neededPictures(source, settings));
  const reachable = wanted.thresholds.length;
  const { output } = wanted;
  const frameBytes = output.width * output.height * CHANNELS;
  const room = await context.room(reachable * frameBytes, HASH_HEADER_BYTES + reachable * TIMESTAMP_JSON_BYTES);
  const timestamps = await source.decode(wanted, context.threads, room.payload);

  const byteLength = timestamps.length * frameBytes;
  const [height, width] = turnOf(facts, options.settings).swapsSides
    ? [output.width, output.height]
    : [output.height, output.width];
  const shape = [timestamps.length, height, width, CHANNELS];
  const metadata: VideoMetadata = {
    source_fps: sourceFps(facts),
    source_duration: sourceDuration(facts),
    sampled_timestamps: timestamps.map((pts) => timestampSeconds(pts, facts.timeBase)),
  };
  const contentHash = options.hashVideo ? hashInPlace(room, shape, metadata, byteLength) : null;
  return { shape, dtype: UINT8, metadata: { Video: metadata }, byteLength, contentHash };
}

/** All pictures of a clip, or null where {@link frameWalk} does without. @throws MediaError what is wrong with the clip */
export async function neededPictures(source: ClipSource, settings: VideoSettings): Promise<readonly Picture[] | null> {
  return needsPictures(settings) ? source.pictures(settings.sampling === "keyframes") : null;
}

/**
 * What has to be decoded.
 * @param pictures as in {@link frameWalk}
 * @throws MediaError frame_count_invalid, limit_exceeded, no_frames, media_corrupt
 */
export function wantedFrames(
  facts: ClipFacts,
  settings: VideoSettings,
  pictures: readonly Picture[] | null = null,
): WantedFrames {
  const { width, height, timeBase } = facts;
  const output = scaledSize({ width, height }, settings.max_pixels ?? Number.POSITIVE_INFINITY);
  // A request may have frames scaled down, but they are decoded as large as they are.
  checkAllocation(1, { width, height }, settings);
  const { walk, count } = frameWalk(facts, settings, pictures, (frames) => checkAllocation(frames, output, settings));
  return {
    ...{ width, height, timeBase, output },
    ...walk,
    color: settings.color,
    turn: turnOf(facts, settings).filters,
    strict: settings.strict,
    wanted: count,
  };
}

function turnOf(facts: ClipFacts, settings: VideoSettings): Turn {
  return settings.auto_rotate ? facts.turn : NOT_TURNED;
}

function openClip(encoded: Uint8Array, program: string | null): Promise<ClipSource> {
  if (encoded.byteLength === 0) throw new MediaError("media_empty", "there are no bytes to decode");
  const sniffed = sniffMedia(encoded);
  if (sniffed.kind === "image" && sniffed.format === "WebP") return openWebpClip(encoded);
  const isGif = sniffed.kind === "image" && sniffed.format === "Gif";
  if (sniffed.kind !== "container" && !isGif) {
    throw new MediaError("media_unsupported", `not a video container that is decoded: ${sniffedName(sniffed)}`);
  }
  return openFfmpegClip(encoded, sniffed.kind === "container" ? sniffed.demuxer : "gif", foundFfmpeg(program));
}

function checkAllocation(count: number, { width, height }: PixelSize, { limits }: VideoSettings): void {
  const limit = limits?.max_alloc ?? null;
  const byteLength = count * width * height * CHANNELS;
  if (limit !== null && byteLength > limit) {
    const dimensions = `dimensions ${count}x${height}x${width}x${CHANNELS}`;
    throw new MediaError(
      "limit_exceeded",
      `a clip of ${dimensions} takes ${byteLength} bytes, over the limit of ${limit}`,
    );
  }
}

/**
 * The content hash over header and pixels where they lie. Null when it cannot be taken: that is no reason to refuse a sound
 * clip. Why is said on stderr, which the parent process keeps and does not print.
 */
function hashInPlace(
  room: DecodeRoom,
  shape: readonly number[],
  metadata: VideoMetadata,
  byteLength: number,
): string | null {
  try {
    return hashInRoom(room, videoHashHeader(shape, UINT8, metadata, byteLength), byteLength);
  } catch (error) {
    console.warn(`nixl-media: the clip gets no content hash: ${error}`);
    return null;
  }
}
