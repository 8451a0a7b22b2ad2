/** Running ffmpeg: what is wanted of the native side, and one run from start to reaped end. */
import { readFileSync } from "node:fs";
import type { PrivateFile, ProcessEnd, SpawnedProcess, SpawnOptions } from "../../../ffi/process.ts";
import { MediaError } from "../../errors.ts";

export type { PrivateFile, ProcessEnd, SpawnedProcess, SpawnOptions };

/** Starts programs and makes the anonymous files that they read and write. */
export interface ProcessRunner {
  /** A private anonymous file of exactly so many bytes, sealed against growing and shrinking. @throws MediaError system_failed */
  createFile(name: string, byteLength: number): PrivateFile;
  /** @throws MediaError ffmpeg_unavailable when the program cannot be started, system_failed */
  spawn(program: string, args: readonly string[], options: SpawnOptions): SpawnedProcess;
}

/** One run of a program, with everything it may use. */
export interface ProgramRun {
  readonly program: string;
  readonly args: readonly string[];
  /** Descriptors of the program from 3 on; 0 and 1 are the null device, 2 is taken care of. */
  readonly files: readonly PrivateFile[];
  readonly memoryLimitBytes: number;
}

/** How a run ended and what the program said. */
export interface ProgramOutcome extends ProcessEnd {
  readonly log: string;
}

/** Room for what a program says. When it is full, the rest is lost; ffmpeg does not mind. */
const LOG_BYTES = 256 * 1024;
/** Processor time that one run may take. The wall clock is watched by whoever started this process. */
const CPU_SECONDS = 600;
/** How long the thread blocks before other work gets a turn. */
const WAIT_SLICE_MILLISECONDS = 5;

/**
 * Runs a program to its end. It is killed and reaped when anything goes wrong here.
 * @throws MediaError ffmpeg_unavailable, system_failed
 */
export async function runProgram(runner: ProcessRunner, run: ProgramRun): Promise<ProgramOutcome> {
  using log = runner.createFile("ffmpeg-log", LOG_BYTES);
  const largest = run.files.reduce((bytes, file) => Math.max(bytes, file.bytes.byteLength), LOG_BYTES);
  const child = runner.spawn(run.program, run.args, {
    descriptors: [null, null, log.fd, ...run.files.map((file) => file.fd)],
    memoryLimitBytes: run.memoryLimitBytes,
    cpuSeconds: CPU_SECONDS,
    fileSizeLimitBytes: largest,
  });
  let end: ProcessEnd | null = null;
  try {
    for (end = child.wait(WAIT_SLICE_MILLISECONDS); end === null; end = child.wait(WAIT_SLICE_MILLISECONDS)) {
      await Bun.sleep(0);
    }
  } finally {
    if (end === null) {
      child.kill();
      while (child.wait(1000) === null);
    }
  }
  return { ...end, log: writtenText(log) };
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

/** What a program wrote to a file, as text. */
export function writtenText(file: PrivateFile): string {
  return Buffer.from(file.bytes.subarray(0, writtenBytes(file))).toString("utf8");
}
