/** Files of this machine: those that the program itself names, and those of `file:` URLs below one allowed folder. */
import { constants } from "node:fs";
import { type FileHandle, open, readlink, realpath, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { type EncodedFile, type EncodedMedium, FILE_START_BYTES, MOST_BYTES_IN_MEMORY } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import { codeOf, isSystemCode, systemFailed } from "./system_failure.ts";
import { schemeRefused } from "./url_policy.ts";

/**
 * O_PATH of Linux, which node's constants lack: a place in the file system, not what is there. No pipe waits, no device notices,
 * nothing can be read through it, and whether the file may be read does not matter yet.
 */
const O_PATH = 0o10000000;

/** What messages show of a path, characters; text that is longer may well be no path but somebody's payload. */
const MOST_PATH_CHARACTERS = 200;

/** A path as messages name it. */
export function shownPath(path: string): string {
  return path.length <= MOST_PATH_CHARACTERS ? path : `${path.slice(0, MOST_PATH_CHARACTERS / 4)}…`;
}

/**
 * A regular file: small ones as bytes, larger ones open, to be disposed of by the caller. What is changed in the file until it
 * is decoded is decoded as changed; one that is made shorter costs the decoder. The path is never one out of a request.
 * @throws MediaError file_unreadable for one that is missing, no file or not readable; media_too_large, system_failed
 */
export async function readLocalFile(path: string, maximumBytes: number): Promise<EncodedMedium> {
  try {
    // Before it is opened: opening a pipe waits for whoever writes to it.
    if (!(await stat(path)).isFile()) throw notRegular(shownPath(path));
    return await readOpened(await open(path), maximumBytes, shownPath(path));
  } catch (cause) {
    if (cause instanceof MediaError) throw cause;
    const message = `${shownPath(path)} cannot be read (${codeOf(cause)})`;
    throw systemFailure(cause) ?? new MediaError("file_unreadable", message, { cause });
  }
}

/**
 * The file of a `file:` URL, as {@link readLocalFile} gives it. It has to be below the folder once all symbolic links are resolved,
 * and is judged after it was opened, so that nothing that moves meanwhile makes a difference: what was judged is what is read.
 * A path that is not below the folder as it is written, by the folder's own name or its real one, is not even looked up;
 * for all others, what is missing, outside, no regular file or not readable looks the same, so that a stranger learns nothing about
 * what exists outside. Hard links and mounts that lead out of the folder are not noticed: whoever can make them is trusted.
 * @param allowedFolder null: no file is read
 * @throws MediaError url_refused, url_invalid, file_unreadable, media_too_large, system_failed; messages name no path
 */
export async function readFileUrl(
  url: URL,
  allowedFolder: string | null,
  maximumBytes: number,
): Promise<EncodedMedium> {
  if (allowedFolder === null || url.protocol !== "file:") throw schemeRefused();
  const path = pathOfUrl(url);
  const folder = resolve(allowedFolder);
  const realFolder = await realPathOf(folder);
  if (!isBelow(path, folder) && !isBelow(path, realFolder)) throw notBelow();
  try {
    return await readOpened(await openBelow(path, realFolder), maximumBytes, "The file");
  } catch (cause) {
    if (cause instanceof MediaError) throw cause;
    const message = "The URL names no readable file below the allowed folder";
    throw systemFailure(cause) ?? new MediaError("file_unreadable", message, { cause });
  }
}

/**
 * Judges a `file:` URL as far as its text goes: it names a path of this machine below the folder.
 * @throws MediaError url_refused, url_invalid
 */
export function checkFileUrl(url: URL, allowedFolder: string | null): void {
  if (allowedFolder === null) throw schemeRefused();
  if (!isBelow(pathOfUrl(url), resolve(allowedFolder))) throw notBelow();
}

function notBelow(): MediaError {
  return new MediaError("url_refused", "file: URLs are read below the allowed folder only");
}

/** The path that a `file:` URL names on this machine. @throws MediaError url_refused, url_invalid */
function pathOfUrl(url: URL): string {
  // The parser turns "localhost" into no host at all.
  if (url.hostname !== "") throw new MediaError("url_refused", "file: URLs of other machines are not read");
  if (/%2f|%00/i.test(url.pathname)) {
    throw new MediaError("url_refused", "file: URLs with encoded slashes or NUL are not read");
  }
  try {
    return decodeURIComponent(url.pathname);
  } catch (cause) {
    throw new MediaError("url_invalid", "The URL's percent escapes are invalid", { cause });
  }
}

/** @throws MediaError system_failed: that there is no such folder is the fault of whoever allowed it */
async function realPathOf(folder: string): Promise<string> {
  try {
    return await realpath(folder);
  } catch (cause) {
    const message = `The folder that file: URLs may name cannot be opened (${codeOf(cause)})`;
    throw new MediaError("system_failed", message, { cause });
  }
}

/** Whether a path without `..` is below a folder. */
function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}

/** Opens a regular file that really is below the folder. @throws Error for anything else */
async function openBelow(path: string, realFolder: string): Promise<FileHandle> {
  const place = await open(path, O_PATH);
  try {
    // The kernel's own name for what was opened. What is opened by it is the same again, wherever the path leads by now.
    const opened = `/proc/self/fd/${place.fd}`;
    if (!isBelow(await readlink(opened), realFolder)) throw new Error("it leads out of the allowed folder");
    if (!(await place.stat()).isFile()) throw new Error("it is not a regular file");
    return await open(opened, constants.O_RDONLY);
  } finally {
    await place.close();
  }
}

/** @param handle closed here, unless it goes to the caller @param name what messages call it */
async function readOpened(handle: FileHandle, maximumBytes: number, name: string): Promise<EncodedMedium> {
  let owned: FileHandle | undefined = handle;
  try {
    const entry = await handle.stat();
    if (!entry.isFile()) throw notRegular(name);
    if (entry.size > maximumBytes) throw tooLarge(name, maximumBytes);
    if (entry.size <= MOST_BYTES_IN_MEMORY) return await readStart(handle, entry.size);
    const file = encodedFile(handle, entry.size, await readStart(handle, FILE_START_BYTES));
    owned = undefined; // its owner closes it
    return file;
  } finally {
    await owned?.close();
  }
}

/** The first `byteLength` bytes, or as many as there are. */
async function readStart(handle: FileHandle, byteLength: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(byteLength);
  let filled = 0;
  while (filled < byteLength) {
    const { bytesRead } = await handle.read(bytes, filled, byteLength - filled, filled);
    if (bytesRead === 0) break; // it became shorter
    filled += bytesRead;
  }
  return bytes.subarray(0, filled);
}

function encodedFile(handle: FileHandle, byteLength: number, start: Uint8Array): EncodedFile {
  let open = true;
  const dispose = (): void => {
    if (open) handle.close().catch(() => {}); // it was read from only
    open = false;
  };
  return { fd: handle.fd, byteLength, start, dispose, [Symbol.dispose]: dispose };
}

function notRegular(name: string): MediaError {
  return new MediaError("file_unreadable", `${name} is not a regular file`);
}

function tooLarge(name: string, maximumBytes: number): MediaError {
  return new MediaError("media_too_large", `${name} is larger than the limit of ${maximumBytes} bytes`);
}

/** An error that is this machine's and not the file's; else null. */
function systemFailure(cause: unknown): MediaError | null {
  const code = codeOf(cause);
  return isSystemCode(code) ? systemFailed("The system cannot read files now", code, cause) : null;
}
