/**
 * Opens the C shim, and nothing else does. Every native call goes through {@link check}.
 *
 * The shim is compiled by Bun's built-in C compiler in a few milliseconds. That needs executable memory; where it is
 * forbidden, `npm run build:shim` builds a shared library ahead and that is opened instead.
 */

import { cc, dlopen, type Pointer, ptr, toArrayBuffer } from "bun:ffi";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MediaError } from "../src/errors.ts";
import { type EnvironmentName, readEnvironment } from "./environment.ts";
import { locateNixl, projectNativeFolder } from "./locate.ts";
import { SYMBOLS } from "./symbols.ts";

/** Must equal SHIM_ABI_VERSION in shim.c: a library that was built ahead may be older than this file. */
const ABI_VERSION = 5;
/** Statuses at and below this are refused system calls: −1000 − errno. */
const SYSTEM_STATUS = -1000;

/** The shim's own status: libnixl is not open. */
const NOT_OPEN_STATUS = -100;
const IN_PROGRESS_STATUS = 1;

const SOURCE = fileURLToPath(new URL("./shim.c", import.meta.url));

const NIXL_STATUS_NAMES: Record<number, string> = {
  [-1]: "NIXL_ERR_INVALID_PARAM",
  [-2]: "NIXL_ERR_BACKEND",
  [-3]: "NIXL_ERR_INVALID_STATE",
  [-4]: "NIXL_ERR_EXCEPTION",
  [-5]: "NIXL_ERR_NO_TELEMETRY",
  [-6]: "NIXL_ERR_NOT_FOUND",
  [NOT_OPEN_STATUS]: "SHIM_NOT_OPEN",
};

type Shim = ReturnType<typeof compile>;
let opened: Shim | undefined;

/** How the shim came to be, for `doctor`. */
export function shimOrigin(): string {
  const prebuilt = prebuiltPath();
  return prebuilt === null ? "compiled at start by Bun" : `built ahead: ${prebuilt}`;
}

function prebuiltPath(): string | null {
  const named = readEnvironment("NIXL_MEDIA_SHIM_PATH");
  if (named) {
    if (!existsSync(named))
      throw new MediaError("native_missing", `NIXL_MEDIA_SHIM_PATH names ${named}, which is not there`);
    return named;
  }
  const built = `${projectNativeFolder()}/libnixl_media_shim.so`;
  return existsSync(built) ? built : null;
}

function compile() {
  return cc({ source: SOURCE, symbols: SYMBOLS }).symbols;
}

/** The shim's functions; opened at the first use. @throws MediaError system_failed with the remedy */
export function shim(): Shim {
  if (opened) return opened;
  const prebuilt = prebuiltPath();
  try {
    const symbols = prebuilt === null ? compile() : dlopen(prebuilt, SYMBOLS).symbols;
    if (symbols.shim_abi_version() !== ABI_VERSION) {
      throw new MediaError("system_failed", `${prebuilt} is of another version: run "npm run build:shim" again`);
    }
    opened = symbols;
    return symbols;
  } catch (cause) {
    if (cause instanceof MediaError) throw cause;
    throw new MediaError(
      "system_failed",
      'The native shim could not be compiled or opened: where memory must not be executable, run "npm run build:shim" once',
      { cause },
    );
  }
}

/** A native status that is not success; the cause of the MediaError that callers see. */
export class NativeStatus extends Error {
  override readonly name = "NativeStatus";
  constructor(
    /** The number as the call returned it. */
    readonly status: number,
    /** `NIXL_ERR_…`, or `errno N` for a refused system call. */
    readonly statusName: string,
    /** The native call that was attempted, with details when there are any. */
    readonly attempted: string,
  ) {
    super(`${attempted}: ${statusName}`);
  }
}

/**
 * Turns a status that is not success into an error; every native call goes through here or {@link checkProgress}.
 * @throws MediaError nixl_failed or system_failed, with the NativeStatus as its cause
 */
export function check(status: number): void {
  if (status === 0) return;
  const attempted = String(shim().shim_last_error());
  const name =
    status <= SYSTEM_STATUS ? `errno ${SYSTEM_STATUS - status}` : (NIXL_STATUS_NAMES[status] ?? `status ${status}`);
  const cause = new NativeStatus(status, name, attempted);
  if (status <= SYSTEM_STATUS) {
    throw new MediaError("system_failed", `The system refused ${attempted} (${name})`, { cause });
  }
  if (status === NOT_OPEN_STATUS) {
    throw new MediaError("nixl_unavailable", `libnixl cannot be used: ${attempted}`, { cause });
  }
  throw new MediaError("nixl_failed", `NIXL refused ${attempted} (${name})`, { cause });
}

/** As {@link check}, for what may take its time. @returns whether it is done */
export function checkProgress(status: number): boolean {
  if (status === IN_PROGRESS_STATUS) return false;
  check(status);
  return true;
}

/** Text as C wants it. */
export function cString(text: string): Uint8Array {
  if (text.includes("\0")) throw new MediaError("invalid_argument", "a NUL character cannot be passed to native code");
  return Buffer.from(`${text}\0`);
}

/**
 * A view on native memory; no copy, and nothing is freed when it is collected.
 * @param address of mapped memory that outlives the view
 */
export function viewOf(address: number, byteLength: number): Uint8Array {
  return new Uint8Array(toArrayBuffer(address as Pointer, 0, byteLength));
}

/** Where the bytes of a view on native memory lie. A view on memory of JavaScript may move: not for those. */
export function addressOf(view: Uint8Array): number {
  return Number(ptr(view));
}

/** The text before the first NUL at an address inside `bytes`. */
export function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return Buffer.from(bytes.subarray(0, end < 0 ? bytes.length : end)).toString("utf8");
}

/** An address or size that a native call wrote, as a number. @throws MediaError system_failed when it is 2^53 or more */
export function numberOf(value: bigint | undefined): number {
  const number = Number(value);
  if (value === undefined || !Number.isSafeInteger(number)) {
    throw new MediaError("system_failed", "a native address does not fit into a JavaScript number");
  }
  return number;
}

/** A pointer-typed argument out of a number. */
export function pointerOf(address: number): Pointer {
  return address as Pointer;
}

/** Sets a variable for native code, which process.env does not reach. */
export function setNativeEnvironment(name: string, value: string): void {
  check(shim().shim_set_environment(cString(name), cString(value)));
}

/** What libnixl and UCX read of the environment, and what holds for them where it is silent. */
const NATIVE_VARIABLES = [
  "NIXL_LOG_LEVEL",
  "UCX_LOG_LEVEL",
  "UCX_DEBUG_SIGNO",
  "UCX_HANDLE_ERRORS",
] as const satisfies readonly EnvironmentName[];

let nixlPath: string | undefined;

/**
 * Opens libnixl once. Where the environment is silent it is kept quiet, since libnixl and UCX write to stdout, and UCX away
 * from signals, which are the program's.
 * @returns the path that was opened
 * @throws MediaError nixl_unavailable with the remedy, native_missing
 */
export function openNixl(): string {
  if (nixlPath !== undefined) return nixlPath;
  const found = locateNixl();
  if (found.path === null) throw new MediaError("nixl_unavailable", found.remedy);
  for (const name of NATIVE_VARIABLES) setNativeEnvironment(name, readEnvironment(name) ?? "");
  try {
    check(shim().shim_open_nixl(cString(found.path)));
  } catch (error) {
    const cause = error instanceof MediaError ? error.cause : error;
    throw new MediaError(
      "nixl_unavailable",
      `libnixl at ${found.path} cannot be opened: install the wheel nixl-cu12 (npm run setup)`,
      { cause },
    );
  }
  nixlPath = found.path;
  return nixlPath;
}
