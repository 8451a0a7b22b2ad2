/** Programs that die with this process, hold only the descriptors they were given, and are limited by the kernel. */
import { readFileSync } from "node:fs";
import { MediaError } from "../src/errors.ts";
import { AddressRange, closeDescriptor, createMemoryFile, PAGE_BYTES, roundToPages, sealReadOnly } from "./memory.ts";
import { check, checkProgress, cString, NativeStatus, shim } from "./native.ts";

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

/** What a program needs of the environment to run at all; the rest may hold secrets. */
const INHERITED_VARIABLES = ["PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL"];

/** Statuses of a refused execve(2) that blame the program: ENOENT, EACCES, ENOEXEC. */
const PROGRAM_STATUSES: ReadonlySet<number> = new Set([-1002, -1013, -1008]);

/** The part of this process's environment that a program which it starts gets. @param extra names of further variables */
export function inheritedEnvironment(extra: readonly string[] = []): Record<string, string> {
  return Object.fromEntries(
    [...INHERITED_VARIABLES, ...extra].flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** @param byteLength exact size; @throws MediaError system_failed */
export function createFile(name: string, byteLength: number): PrivateFile {
  const fd = createMemoryFile(name, byteLength, { sealable: true });
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
 * Starts a program with {@link inheritedEnvironment} for its environment.
 * @throws MediaError system_failed; {@link isProgramUnusable} tells whether the program is to blame
 */
export function spawn(program: string, args: readonly string[], options: SpawnOptions): SpawnedProcess {
  const argv = [program, ...args];
  const environment = Object.entries(inheritedEnvironment()).map(([name, value]) => `${name}=${value}`);
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
  check(status);
  return startedProcess(pidOut[0] ?? -1);
}

/** Whether {@link spawn} failed because the program is missing, may not be executed or is none; else the system is short. */
export function isProgramUnusable(error: unknown): boolean {
  const cause = error instanceof MediaError ? error.cause : null;
  return cause instanceof NativeStatus && cause.attempted === "execve" && PROGRAM_STATUSES.has(cause.status);
}

function startedProcess(pid: number): SpawnedProcess {
  let end: ProcessEnd | null = null;
  return {
    pid,
    wait(milliseconds) {
      if (end) return end;
      const code = new Int32Array(1);
      const signal = new Int32Array(1);
      if (!checkProgress(shim().process_wait(pid, milliseconds, code, signal))) return null;
      const killedBy = signal[0] ?? 0;
      end = killedBy === 0 ? { exitCode: code[0] ?? -1, signal: null } : { exitCode: null, signal: killedBy };
      return end;
    },
    kill() {
      if (!end) check(shim().process_kill(pid));
    },
  };
}

/**
 * Limits this process's private writable memory to what it has now and so much more; then allocations fail, which ends most
 * programs. Shared mappings do not count, and it cannot be raised again.
 * @param bytes on top of what the runtime has reserved by now (proc(5), VmData)
 */
export function limitMemoryGrowth(bytes: number): void {
  const reserved = /^VmData:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  if (reserved === undefined) throw new MediaError("system_failed", "the memory of this process cannot be told");
  check(shim().process_limit_data(Number(reserved) * 1024 + bytes));
}

/** Memory of this process that nobody shares, resident, bytes (proc(5), statm). */
export function privateMemory(): number {
  const [, resident = 0, shared = 0] = readFileSync("/proc/self/statm", "utf8").split(" ").map(Number);
  return (resident - shared) * PAGE_BYTES;
}

/** This process is killed when its parent ends. @throws MediaError system_failed when the parent is gone already */
export function dieWithParent(parentPid: number): void {
  check(shim().process_die_with_parent(parentPid));
}

/** Strings as NUL-terminated bytes one after another; never empty, so that there is always an address to pass. */
function concatenated(strings: readonly string[]): Uint8Array {
  return Buffer.concat([...strings.map(cString), Buffer.alloc(1)]);
}
