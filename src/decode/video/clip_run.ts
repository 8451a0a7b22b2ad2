/** One run of ffmpeg over a clip: frames into a private file of exactly their size, and what was said about them. */
import { createFile, type PrivateFile } from "../../../ffi/process.ts";
import { isOptionUnknown } from "../ffmpeg/log.ts";
import {
  BASE_MEMORY_BYTES,
  CPU_SECONDS,
  type ProgramOutcome,
  runProgram,
  writtenBytes,
  writtenText,
} from "../ffmpeg/process.ts";
import {
  CHANNELS,
  type DecodeCommand,
  decodeArguments,
  decodeFilter,
  type FilterScriptOption,
  needsFilterScript,
} from "./command.ts";

/** What a run gave. */
export interface RunFrames {
  /** Presentation timestamps of the frames that lie complete in their place, in their order. */
  readonly timestamps: readonly number[];
  readonly outcome: ProgramOutcome;
}

/** Bytes of one line about a frame, at most: its number, timestamp, seconds, and the marker that makes ffmpeg print it. */
const TIMESTAMP_LINE_BYTES = 128;
/** Room for lines about filter graphs. There is one unless the pictures change; more than the second do not matter. */
const GRAPH_STARTS_BYTES = 4096;
/** Frames of references and queues that ffmpeg holds. */
const HELD_FRAMES = 64;
/** Addresses for one more thread: its stack, and the heap that the C library gives it. */
const THREAD_MEMORY_BYTES = 128 * 1024 ** 2;

/**
 * Runs ffmpeg to its end, however that may be. Frames are copied while later ones are decoded.
 * @param input sealed
 * @param place where the frames go, back to back: room for all that are wanted
 * @param signal ends the run early
 * @throws MediaError ffmpeg_unavailable, system_failed; the signal's reason
 */
export async function runClip(
  program: string,
  command: DecodeCommand,
  input: PrivateFile,
  place: Uint8Array,
  signal?: AbortSignal,
): Promise<RunFrames> {
  const frameBytes = command.output.width * command.output.height * CHANNELS;
  const heldBytes = HELD_FRAMES * Math.max(frameBytes, command.width * command.height * CHANNELS);
  const count = command.thresholds.length;
  using frames = createFile("frames", count * frameBytes);
  using lines = createFile("timestamps", 4096 + count * TIMESTAMP_LINE_BYTES);
  using starts = createFile("graph-starts", GRAPH_STARTS_BYTES);
  const filter = decodeFilter(command);
  using script = needsFilterScript(filter) ? textFile("filter", filter) : null;
  let copied = 0;
  const copyFrames = (): void => {
    const complete = Math.floor(writtenBytes(frames) / frameBytes) * frameBytes;
    if (complete > copied) place.set(frames.bytes.subarray(copied, complete), copied);
    copied = complete;
  };
  const run = (option: FilterScriptOption | null): Promise<ProgramOutcome> =>
    runProgram({
      program,
      args: decodeArguments(command, option),
      files: [input, frames, lines, starts, ...(script ? [script] : [])],
      memoryLimitBytes: BASE_MEMORY_BYTES + (command.threads - 1) * THREAD_MEMORY_BYTES + heldBytes,
      cpuSeconds: CPU_SECONDS * command.threads,
      whileRunning: () => {
        signal?.throwIfAborted();
        copyFrames();
      },
    });

  let outcome = await run(script ? "-/filter:v" : null);
  if (script && isOptionUnknown(outcome.log, "-/filter:v")) outcome = await run("-filter_script:v");
  copyFrames();
  const timestamps = parseTimestamps(writtenText(lines), writtenText(starts)).slice(0, copied / frameBytes);
  return { timestamps, outcome };
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
