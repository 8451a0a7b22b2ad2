/** Programs that die with this process, hold only the descriptors they were given, and are limited by the kernel. */
import { MediaError } from "../src/errors.ts";
import { AddressRange, closeDescriptor, createMemoryFile, roundToPages, sealReadOnly } from "./memory.ts";
import { check, cString, NativeStatus, shim } from "./native.ts";

/** A private anonymous file, mapped here. */
export interface PrivateFile extends Disposable {
  readonly fd: number;
  /** The file's bytes, shared with whoever has the descriptor. Not to be used after `dispose()`. */
  readonly bytes: Uint8Array;
  /** Nobody can write to it any more, except through `bytes`. */
  sealReadOnly(): void;
  /** Unmaps and closes it. */
  dispose(): void;
}

/** How a program ended: one of the two is null. */
export interface ProcessEnd {
  readonly exitCode: number | null;
  readonly signal: number | null;
}

/** A started program; `wait` reaps it. */
export interface SpawnedProcess {
  readonly pid: number;
  /** Waits up to so many milliseconds, blocking this thread; null while it still runs. */
  wait(milliseconds: number): ProcessEnd | null;
  /** SIGKILL; `wait` still has to reap it. A program that has been reaped is left alone. */
  kill(): void;
}

/** Limits that the kernel enforces on a program; 0 is none. */
export interface SpawnOptions {
  /** `descriptors[i]` becomes descriptor i of the program, null the null device; all others are closed. At most 16. */
  readonly descriptors: readonly (number | null)[];
  readonly memoryLimitBytes: number;
  readonly cpuSeconds: number;
  readonly fileSizeLimitBytes: number;
}

/** Variables that a program started here inherits; nothing else of the environment does. */
const INHERITED_VARIABLES = ["PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL"];

/** errno ENOENT, EACCES, ENOEXEC: the program itself is the trouble, not the machine. */
const PROGRAM_ERRORS = new Set([-1002, -1013, -1008]);

/** @param byteLength exact size; @throws MediaError system_failed */
export function createFile(name: string, byteLength: number): PrivateFile {
  const fd = createMemoryFile(name, byteLength);
  let range: AddressRange | undefined;
  try {
    range = new AddressRange(roundToPages(Math.max(byteLength, 1)));
    range.mapFile(fd, 0, range.byteLength);
  } catch (error) {
    range?.release();
    closeDescriptor(fd);
    throw error;
  }
  const mapped = range;
  let open = true;
  const dispose = (): void => {
    if (!open) return;
    open = false;
    mapped.release();
    closeDescriptor(fd);
  };
  return {
    fd,
    bytes: mapped.view(0, byteLength),
    sealReadOnly: () => sealReadOnly(fd),
    dispose,
    [Symbol.dispose]: dispose,
  };
}

/**
 * Starts a program.
 * @throws MediaError ffmpeg_unavailable when the program is missing or not executable, system_failed otherwise
 */
export function spawn(program: string, args: readonly string[], options: SpawnOptions): SpawnedProcess {
  const argv = [program, ...args];
  const environment = INHERITED_VARIABLES.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [`${name}=${value}`];
  });
  const pidOut = new Int32Array(1);
  const status = shim().process_spawn(
    cString(program),
    concatenated(argv),
    argv.length,
    concatenated(environment),
    environment.length,
    Int32Array.from(options.descriptors, (fd) => fd ?? -1),
    options.descriptors.length,
    options.memoryLimitBytes,
    options.cpuSeconds,
    options.fileSizeLimitBytes,
    pidOut,
  );
  if (PROGRAM_ERRORS.has(status)) {
    const cause = new NativeStatus(status, `errno ${-1000 - status}`, "execve");
    throw new MediaError("ffmpeg_unavailable", "the ffmpeg program cannot be started", { cause });
  }
  check(status);
  return startedProcess(pidOut[0] ?? -1);
}

/** The two halves of what a decode program needs, as one object. */
export const processRunner = { createFile, spawn };

function startedProcess(pid: number): SpawnedProcess {
  let end: ProcessEnd | null = null;
  return {
    pid,
    wait(milliseconds) {
      if (end) return end;
      const code = new Int32Array(1);
      const signal = new Int32Array(1);
      if (check(shim().process_wait(pid, milliseconds, code, signal)) === 1) return null;
      const killedBy = signal[0] ?? 0;
      end = killedBy === 0 ? { exitCode: code[0] ?? -1, signal: null } : { exitCode: null, signal: killedBy };
      return end;
    },
    kill() {
      if (!end) check(shim().process_kill(pid));
    },
  };
}

/** This process is killed when its parent ends. @throws MediaError system_failed when the parent is gone already */
export function dieWithParent(parentPid: number): void {
  check(shim().process_die_with_parent(parentPid));
}

/** Strings as NUL-terminated bytes one after another; never empty, so that there is always an address to pass. */
function concatenated(strings: readonly string[]): Uint8Array {
  return Buffer.concat([...strings.map(cString), Buffer.alloc(1)]);
}
