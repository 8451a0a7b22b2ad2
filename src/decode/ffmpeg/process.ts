/** Running ffmpeg: one run from start to reaped end, and what it wrote. */
import { readFileSync } from "node:fs";
import {
  createFile,
  isProgramUnusable,
  type PrivateFile,
  type ProcessEnd,
  type SpawnedProcess,
  type SpawnOptions,
  spawn,
} from "../../../ffi/process.ts";
import { MediaError } from "../../errors.ts";

/** One run of a program, with everything it may use. */
export interface ProgramRun {
  readonly program: string;
  readonly args: readonly string[];
  /** Descriptors of the program from 3 on; 0 and 1 are the null device, 2 is taken care of. */
  readonly files: readonly PrivateFile[];
  readonly memoryLimitBytes: number;
  /** Processor time that it may take, {@link CPU_SECONDS} by default. */
  readonly cpuSeconds?: number;
  /** Room for what the program says, {@link LOG_BYTES} by default. */
  readonly logBytes?: number;
  /** Called every few milliseconds. @param log what the program said so far */
  readonly whileRunning?: (log: PrivateFile) => void;
}

/** How a run ended and what the program said. */
export interface ProgramOutcome extends ProcessEnd {
  readonly log: string;
  /** There was no more room for what the program said; some of it may be missing. */
  readonly isLogFull: boolean;
}

/** Room for what a program says. When it is full, the rest is lost; ffmpeg does not mind. */
const LOG_BYTES = 256 * 1024;
/**
 * Processor time that one run may take with each of its threads. Less than the 120 s that a job may take by default: of a clip that
 * keeps ffmpeg busy for ever, ffmpeg is ended, and the decoder process that waits for it lives on. What stands still takes no
 * processor time, and a clip may take more than one run; the wall clock is watched by the parent process.
 */
export const CPU_SECONDS = 100;
/** Address space that ffmpeg takes for its libraries and threads' arenas. */
export const BASE_MEMORY_BYTES = 3.25 * 1024 ** 3;
/** How long the thread blocks before other work gets a turn. */
const WAIT_SLICE_MILLISECONDS = 5;

/** The program, where there is one. @throws MediaError ffmpeg_unavailable */
export function foundFfmpeg(path: string | null): string {
  if (path !== null) return path;
  throw new MediaError("ffmpeg_unavailable", "no ffmpeg was found: run the setup, or set FFMPEG_BIN");
}

/**
 * Runs a program to its end. It is killed and reaped when anything goes wrong here.
 * @throws MediaError ffmpeg_unavailable, system_failed
 */
export async function runProgram(run: ProgramRun): Promise<ProgramOutcome> {
  const logBytes = run.logBytes ?? LOG_BYTES;
  using log = createFile("ffmpeg-log", logBytes);
  const largest = run.files.reduce((bytes, file) => Math.max(bytes, file.bytes.byteLength), logBytes);
  const child = started(run, {
    descriptors: [null, null, log.fd, ...run.files.map((file) => file.fd)],
    memoryLimitBytes: run.memoryLimitBytes,
    cpuSeconds: run.cpuSeconds ?? CPU_SECONDS,
    fileSizeLimitBytes: largest,
  });
  let end: ProcessEnd | null = null;
  try {
    // What else is to be started is started first.
    for (end = child.wait(0); end === null; end = child.wait(WAIT_SLICE_MILLISECONDS)) {
      run.whileRunning?.(log);
      await Bun.sleep(0);
    }
  } finally {
    if (end === null) {
      child.kill();
      while (child.wait(1000) === null);
    }
  }
  return { ...end, log: writtenText(log), isLogFull: writtenBytes(log) === logBytes };
}

function started({ program, args }: ProgramRun, options: SpawnOptions): SpawnedProcess {
  try {
    return spawn(program, args, options);
  } catch (error) {
    if (!isProgramUnusable(error)) throw error;
    throw new MediaError("ffmpeg_unavailable", "the ffmpeg program cannot be started", { cause: error });
  }
}

/**
 * How many bytes a program wrote to a file it was given: the position of the open file, which the two share.
 * @throws MediaError system_failed
 */
export function writtenBytes(file: PrivateFile): number {
  const position = /^pos:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${file.fd}`, "utf8"))?.[1];
  if (position === undefined) throw new MediaError("system_failed", "the position of an open file cannot be read");
  return Math.min(Number(position), file.bytes.byteLength);
}

/** What a program wrote to a file, as text. @param mostBytes of its beginning */
export function writtenText(file: PrivateFile, mostBytes = Number.POSITIVE_INFINITY): string {
  return Buffer.from(file.bytes.subarray(0, Math.min(writtenBytes(file), mostBytes))).toString("utf8");
}
