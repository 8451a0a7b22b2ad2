/**
 * From the bytes of a clip to a tensor: facts of the container, the timestamps wanted, ffmpeg processes that write those frames
 * into private files of exactly their size, a copy into the room, the content hash there.
 */
import { MediaError } from "../../errors.ts";
import { UINT8, type VideoMetadata, videoHashHeader } from "../../tensor/index.ts";
import { type DecodeContext, type DecodedTensor, type DecodeRoom, hashInRoom } from "../contract.ts";
import { SealedInput } from "../ffmpeg/sealed_input.ts";
import { type Demuxer, sniffMedia } from "../sniff.ts";
import { type ClipRequest, decodeFrames } from "./clip_decoding.ts";
import { CHANNELS } from "./command.ts";
import { NOT_TURNED, type Turn } from "./display_matrix.ts";
import { type ContainerFacts, readContainerFacts } from "./facts.ts";
import { MOST_FRAMES, type VideoSettings } from "./options.ts";
import { probeContainer } from "./probe.ts";
import { requestedFrameCount, sourceDuration, sourceFps, timestampSeconds, timestampThresholds } from "./sampling.ts";

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
  const demuxer = sniffContainer(encoded);
  const program = context.ffmpegPath;
  if (program === null)
    throw new MediaError("ffmpeg_unavailable", "no ffmpeg was found: run the setup, or set FFMPEG_BIN");

  using input = new SealedInput(encoded);
  const facts = await readContainerFacts(encoded, demuxer, () => probeContainer(program, input.file, demuxer));

  const request = clipRequest(facts, options.settings);
  const reachable = request.thresholds.length;
  const frameBytes = facts.width * facts.height * CHANNELS;
  const room = await context.room(reachable * frameBytes, HASH_HEADER_BYTES + reachable * TIMESTAMP_JSON_BYTES);
  const timestamps = await decodeFrames(program, input, request, context.threads, room.payload);

  const byteLength = timestamps.length * frameBytes;
  const [height, width] = turnOf(facts, options.settings).swapsSides
    ? [facts.width, facts.height]
    : [facts.height, facts.width];
  const shape = [timestamps.length, height, width, CHANNELS];
  const metadata: VideoMetadata = {
    source_fps: sourceFps(facts),
    source_duration: sourceDuration(facts),
    sampled_timestamps: timestamps.map((pts) => timestampSeconds(pts, facts.timeBase)),
  };
  const contentHash = options.hashVideo ? hashInPlace(room, shape, metadata, byteLength) : null;
  return { shape, dtype: UINT8, metadata: { Video: metadata }, byteLength, contentHash };
}

/**
 * What has to be decoded.
 * @throws MediaError frame_count_invalid, limit_exceeded, no_frames, media_corrupt
 */
export function clipRequest(facts: ContainerFacts, settings: VideoSettings): ClipRequest {
  const count = requestedFrameCount(facts, settings);
  checkAllocation(count, facts, settings);
  const { demuxer, streamIndex, width, height, timeBase } = facts;
  return {
    ...{ demuxer, streamIndex, width, height, timeBase },
    thresholds: timestampThresholds(count, facts, reachableFrameCount(count, facts)),
    color: settings.color,
    turn: turnOf(facts, settings).filters,
    strict: settings.strict,
    wanted: count,
  };
}

function turnOf(facts: ContainerFacts, settings: VideoSettings): Turn {
  return settings.auto_rotate ? facts.turn : NOT_TURNED;
}

function sniffContainer(encoded: Uint8Array): Demuxer {
  if (encoded.byteLength === 0) throw new MediaError("media_empty", "there are no bytes to decode");
  const sniffed = sniffMedia(encoded);
  if (sniffed.kind === "container") return sniffed.demuxer;
  const name = sniffed.kind === "image" ? `a ${sniffed.format} image` : sniffed.name;
  throw new MediaError("media_unsupported", `not a video container that is decoded: ${name}`);
}

function checkAllocation(count: number, { width, height }: ContainerFacts, { limits }: VideoSettings): void {
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
 * How many of the frames wanted can be found at all, which is what memory is asked for: a packet gives one frame at most, so a
 * frame count that the file's packets do not back costs nothing.
 */
function reachableFrameCount(count: number, { packetCount }: ContainerFacts): number {
  const reachable = Math.min(count, packetCount);
  if (reachable === 0) throw new MediaError("no_frames", "Failed to decode any frames, the video has no packets");
  if (reachable > MOST_FRAMES) {
    throw new MediaError("limit_exceeded", `a clip of ${reachable} frames is over the limit of ${MOST_FRAMES} frames`);
  }
  return reachable;
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
