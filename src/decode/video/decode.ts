/**
 * From the bytes of a clip to a tensor: facts of the container, the timestamps wanted, one ffmpeg process that writes those
 * frames into a private file of exactly their size, a copy into the room, the content hash there.
 */
import { asMediaError, MediaError } from "../../errors.ts";
import { hashContiguous, UINT8, type VideoMetadata, videoHashHeader } from "../../tensor/index.ts";
import type { DecodeContext, DecodedTensor, DecodeRoom } from "../contract.ts";
import { type Demuxer, sniffMedia } from "../sniff.ts";
import {
  type DecodeCommand,
  type DecodePlan,
  decodeArguments,
  decodeFilter,
  type FilterScriptOption,
  needsFilterScript,
} from "./command.ts";
import { type ContainerFacts, readContainerFacts } from "./facts.ts";
import { graphInputs, isOptionUnknown, logExcerpt, programFailure } from "./ffmpeg_log.ts";
import type { VideoSettings } from "./options.ts";
import { probeContainer } from "./probe.ts";
import {
  type PrivateFile,
  type ProcessRunner,
  type ProgramOutcome,
  runProgram,
  writtenBytes,
  writtenText,
} from "./process.ts";
import { sameRational } from "./rational.ts";
import { requestedFrameCount, sourceDuration, sourceFps, timestampSeconds, timestampThresholds } from "./sampling.ts";

/** What a clip's decoding may use of the world around it. */
export interface VideoDecodeContext extends DecodeContext {
  readonly processRunner: ProcessRunner;
}

export interface VideoDecodeOptions {
  readonly settings: VideoSettings;
  /** Whether the clip's content hash is wanted. */
  readonly hashVideo: boolean;
  /** Decoding threads of the ffmpeg process; 1 by default: clips are decoded side by side instead. */
  readonly threads?: number;
  /** Hears why a clip that should have been hashed was not. */
  readonly onDebug?: (message: string, cause: unknown) => void;
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
const BASE_MEMORY_BYTES = 3 * 1024 ** 3;
const THREAD_MEMORY_BYTES = 256 * 1024 ** 2;
const HELD_FRAMES = 64;

/**
 * Decodes the frames of a clip that its settings ask for.
 *
 * @returns `[T,H,W,3]`, RGB, uint8, not rotated; T is what was found, which is less than was asked for when the clip is
 *   damaged, unless `strict`
 * @throws MediaError media_empty, media_unsupported, no_video_stream, media_corrupt, frame_count_invalid, limit_exceeded,
 *   no_frames for the clip's faults; ffmpeg_unavailable, decoder_failed, decoder_timeout, system_failed for the host's; and
 *   what the room's giver throws
 */
export async function decodeVideo(
  encoded: Uint8Array,
  options: VideoDecodeOptions,
  context: VideoDecodeContext,
): Promise<DecodedTensor> {
  const demuxer = sniffContainer(encoded);
  const program = context.ffmpegPath;
  if (program === null)
    throw new MediaError("ffmpeg_unavailable", "no ffmpeg was found: run the setup, or set FFMPEG_BIN");
  const runner = context.processRunner;

  using input = runner.createFile("encoded", encoded.byteLength);
  input.bytes.set(encoded);
  input.sealReadOnly();
  const facts = await readContainerFacts(input.bytes, demuxer, () => probeContainer(runner, program, input, demuxer));

  const count = requestedFrameCount(facts, options.settings);
  const frameBytes = facts.width * facts.height * CHANNELS;
  checkAllocation(count, facts, options.settings);
  const room = await context.room(count * frameBytes, HASH_HEADER_BYTES + count * TIMESTAMP_JSON_BYTES);

  const command: DecodeCommand = {
    ...facts,
    plan: { kind: "linear", thresholds: timestampThresholds(count, facts) } satisfies DecodePlan,
    strict: options.settings.strict,
    threads: options.threads ?? 1,
  };
  using frames = runner.createFile("frames", count * frameBytes);
  const { timestamps, outcome } = await runDecoder(runner, program, command, { input, frames });
  judge(outcome, facts, timestamps.length, options.settings.strict, count);

  const byteLength = timestamps.length * frameBytes;
  room.payload.set(frames.bytes.subarray(0, byteLength));
  const shape = [timestamps.length, facts.height, facts.width, CHANNELS];
  const metadata: VideoMetadata = {
    source_fps: sourceFps(facts),
    source_duration: sourceDuration(facts),
    sampled_timestamps: timestamps.map((pts) => timestampSeconds(pts, facts.timeBase)),
  };
  const contentHash = options.hashVideo ? hashInPlace(room, shape, metadata, byteLength, options) : null;
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

interface DecoderFiles {
  readonly input: PrivateFile;
  readonly frames: PrivateFile;
}

/** Runs ffmpeg; timestamps are those of the frames that lie complete in `files.frames`, in their order. */
async function runDecoder(
  runner: ProcessRunner,
  program: string,
  command: DecodeCommand,
  files: DecoderFiles,
): Promise<{ timestamps: number[]; outcome: ProgramOutcome }> {
  const frameBytes = command.width * command.height * CHANNELS;
  const count = command.plan.thresholds.length;
  using lines = runner.createFile("timestamps", 4096 + count * TIMESTAMP_LINE_BYTES);
  using starts = runner.createFile("graph-starts", GRAPH_STARTS_BYTES);
  const filter = decodeFilter(command);
  using script = needsFilterScript(filter) ? textFile(runner, "filter", filter) : null;
  const run = (option: FilterScriptOption | null): Promise<ProgramOutcome> =>
    runProgram(runner, {
      program,
      args: decodeArguments(command, option),
      files: [files.input, files.frames, lines, starts, ...(script ? [script] : [])],
      memoryLimitBytes: BASE_MEMORY_BYTES + command.threads * THREAD_MEMORY_BYTES + HELD_FRAMES * frameBytes,
    });

  let outcome = await run(script ? "-/filter:v" : null);
  if (script && isOptionUnknown(outcome.log, "-/filter:v")) outcome = await run("-filter_script:v");
  const written = Math.floor(writtenBytes(files.frames) / frameBytes);
  return { timestamps: parseTimestamps(writtenText(lines), writtenText(starts)).slice(0, written), outcome };
}

function textFile(runner: ProcessRunner, name: string, text: string): PrivateFile {
  const bytes = Buffer.from(text);
  const file = runner.createFile(name, bytes.byteLength);
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
    throw new MediaError(
      "no_frames",
      `Failed to decode any frames, the video may be damaged: ${logExcerpt(outcome.log)}`,
    );
  }
}

/** The content hash over header and pixels where they lie; null, and a debug message, when it cannot be taken. */
function hashInPlace(
  room: DecodeRoom,
  shape: readonly number[],
  metadata: VideoMetadata,
  byteLength: number,
  options: VideoDecodeOptions,
): string | null {
  try {
    const header = videoHashHeader(shape, UINT8, metadata, byteLength);
    room.header.set(header, room.header.byteLength - header.byteLength);
    return hashContiguous(room.span(header.byteLength, byteLength));
  } catch (error) {
    options.onDebug?.(
      "the clip gets no content hash",
      asMediaError(error, "invalid_argument", "the clip could not be hashed"),
    );
    return null;
  }
}
