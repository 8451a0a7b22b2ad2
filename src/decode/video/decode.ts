/**
 * From the bytes of a clip to a tensor: facts of the container, the timestamps wanted, one ffmpeg process that writes those
 * frames into a private file of exactly their size, a copy into the room, the content hash there.
 */
import { createFile, type PrivateFile } from "../../../ffi/process.ts";
import { MediaError } from "../../errors.ts";
import { UINT8, type VideoMetadata, videoHashHeader } from "../../tensor/index.ts";
import { type DecodeContext, type DecodedTensor, type DecodeRoom, hashInRoom } from "../contract.ts";
import { type Demuxer, sniffMedia } from "../sniff.ts";
import {
  type DecodeCommand,
  decodeArguments,
  decodeFilter,
  type FilterScriptOption,
  needsFilterScript,
} from "./command.ts";
import { NOT_TURNED } from "./display_matrix.ts";
import { type ContainerFacts, readContainerFacts } from "./facts.ts";
import { graphInputs, isOptionUnknown, logExcerpt, programFailure } from "./ffmpeg_log.ts";
import { MOST_FRAMES, type VideoSettings } from "./options.ts";
import { probeContainer } from "./probe.ts";
import { type ProgramOutcome, runProgram, writtenBytes, writtenText } from "./process.ts";
import { sameRational } from "./rational.ts";
import { requestedFrameCount, sourceDuration, sourceFps, timestampSeconds, timestampThresholds } from "./sampling.ts";

export interface VideoDecodeOptions {
  readonly settings: VideoSettings;
  /** Whether the clip's content hash is wanted. */
  readonly hashVideo: boolean;
}

const CHANNELS = 3;
/** Bytes of one line about a frame, at most: its number, timestamp, seconds, and the marker that makes ffmpeg print it. */
const TIMESTAMP_LINE_BYTES = 128;
/** Room for lines about filter graphs. There is one unless the pictures change; more than the second do not matter. */
const GRAPH_STARTS_BYTES = 4096;
/** Longest JSON text of a timestamp in single precision, with its comma; and all else in front of a clip's bytes. */
const TIMESTAMP_JSON_BYTES = 26;
const HASH_HEADER_BYTES = 512;
/** Address space that ffmpeg takes for its libraries and threads' arenas, and frames of references and queues to add. */
const BASE_MEMORY_BYTES = 3.25 * 1024 ** 3;
const HELD_FRAMES = 64;

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

  using input = createFile("encoded", encoded.byteLength);
  input.bytes.set(encoded);
  input.sealReadOnly();
  const facts = await readContainerFacts(input.bytes, demuxer, () => probeContainer(program, input, demuxer));

  const { settings } = options;
  const count = requestedFrameCount(facts, settings);
  checkAllocation(count, facts, settings);
  const reachable = reachableFrameCount(count, facts);
  const frameBytes = facts.width * facts.height * CHANNELS;
  const room = await context.room(reachable * frameBytes, HASH_HEADER_BYTES + reachable * TIMESTAMP_JSON_BYTES);

  const turn = settings.auto_rotate ? facts.turn : NOT_TURNED;
  const command: DecodeCommand = {
    ...facts,
    thresholds: timestampThresholds(count, facts, reachable),
    color: settings.color,
    turn: turn.filters,
    strict: settings.strict,
  };
  using frames = createFile("frames", reachable * frameBytes);
  const { timestamps, outcome } = await runDecoder(program, command, { input, frames });
  judge(outcome, facts, timestamps.length, settings.strict, count);

  const byteLength = timestamps.length * frameBytes;
  room.payload.set(frames.bytes.subarray(0, byteLength));
  const [height, width] = turn.swapsSides ? [facts.width, facts.height] : [facts.height, facts.width];
  const shape = [timestamps.length, height, width, CHANNELS];
  const metadata: VideoMetadata = {
    source_fps: sourceFps(facts),
    source_duration: sourceDuration(facts),
    sampled_timestamps: timestamps.map((pts) => timestampSeconds(pts, facts.timeBase)),
  };
  const contentHash = options.hashVideo ? hashInPlace(room, shape, metadata, byteLength) : null;
  return { shape, dtype: UINT8, metadata: { Video: metadata }, byteLength, contentHash };
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

interface DecoderFiles {
  readonly input: PrivateFile;
  readonly frames: PrivateFile;
}

/** Runs ffmpeg; timestamps are those of the frames that lie complete in `files.frames`, in their order. */
async function runDecoder(
  program: string,
  command: DecodeCommand,
  files: DecoderFiles,
): Promise<{ timestamps: number[]; outcome: ProgramOutcome }> {
  const frameBytes = command.width * command.height * CHANNELS;
  const count = command.thresholds.length;
  using lines = createFile("timestamps", 4096 + count * TIMESTAMP_LINE_BYTES);
  using starts = createFile("graph-starts", GRAPH_STARTS_BYTES);
  const filter = decodeFilter(command);
  using script = needsFilterScript(filter) ? textFile("filter", filter) : null;
  const run = (option: FilterScriptOption | null): Promise<ProgramOutcome> =>
    runProgram({
      program,
      args: decodeArguments(command, option),
      files: [files.input, files.frames, lines, starts, ...(script ? [script] : [])],
      memoryLimitBytes: BASE_MEMORY_BYTES + HELD_FRAMES * frameBytes,
    });

  let outcome = await run(script ? "-/filter:v" : null);
  if (script && isOptionUnknown(outcome.log, "-/filter:v")) outcome = await run("-filter_script:v");
  const written = Math.floor(writtenBytes(files.frames) / frameBytes);
  return { timestamps: parseTimestamps(writtenText(lines), writtenText(starts)).slice(0, written), outcome };
}

function textFile(name: string, text: string): PrivateFile {
  const bytes = Buffer.from(text);
  const file = createFile(name, bytes.byteLength);
  file.bytes.set(bytes);
  file.sealReadOnly();
  return file;
}

const FRAME_LINE = /^frame:(\d+) +pts:(-?\d+|NOPTS) /gm;

/**
 * Timestamps of the frames taken, up to where the pictures changed: from there on conversion fails in the fleet's reference.
 * @param taken lines about the frames taken; their numbers start again with each filter graph
 * @param graphStarts lines about the first frame of each filter graph
 */
export function parseTimestamps(taken: string, graphStarts: string): number[] {
  const change =
    Array.from(graphStarts.matchAll(FRAME_LINE), (match) => Number(match[2]))[1] ?? Number.POSITIVE_INFINITY;
  const timestamps: number[] = [];
  for (const [, number, pts] of taken.matchAll(FRAME_LINE)) {
    if (Number(number) !== timestamps.length || Number(pts) >= change) break;
    timestamps.push(Number(pts));
  }
  return timestamps;
}

/**
 * Whether the frames may be used.
 * @throws MediaError otherwise
 */
function judge(outcome: ProgramOutcome, facts: ContainerFacts, found: number, strict: boolean, wanted: number): void {
  const [graph] = graphInputs(outcome.log);
  if (graph && (graph.width !== facts.width || graph.height !== facts.height)) {
    const said = `${facts.width}x${facts.height}`;
    throw new MediaError(
      "media_corrupt",
      `the container says that pictures are ${said}, they are ${graph.width}x${graph.height}`,
    );
  }
  if (graph && !sameRational(graph.timeBase, facts.timeBase)) {
    throw new MediaError("media_corrupt", "the container's time base is not the one it is decoded with");
  }
  const isFailed = outcome.signal !== null || outcome.exitCode !== 0;
  const failure = isFailed ? programFailure(outcome) : null;
  if (failure && (found === 0 || failure.status !== 400)) throw failure;
  if (strict && (isFailed || found < wanted)) {
    throw new MediaError("media_corrupt", `${found} of ${wanted} frames could be decoded: ${logExcerpt(outcome.log)}`);
  }
  if (found === 0) {
    // At the log level it is run with, ffmpeg always says something.
    if (outcome.log.trim() === "") throw new MediaError("ffmpeg_unavailable", "the ffmpeg program is no ffmpeg");
    throw new MediaError(
      "no_frames",
      `Failed to decode any frames, the video may be damaged: ${logExcerpt(outcome.log)}`,
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
