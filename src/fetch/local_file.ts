/** Files that the program itself names; never a path out of a request. */
import { type FileHandle, open, stat } from "node:fs/promises";
import type { EncodedFile, EncodedMedium } from "../encoded.ts";
import { MediaError } from "../errors.ts";

/** Larger files are read by their decoder, which of a long clip needs a part only. */
const READ_HERE_BYTES = 16 * 1024 * 1024;
/** What of a larger file is read here: enough to tell what it is, and to name it when decoding fails. */
const START_BYTES = 64 * 1024;

/**
 * A regular file: small ones as bytes, larger ones open, to be disposed of by the caller. What is changed in the file until it
 * is decoded is decoded as changed; one that is made shorter costs the decoder.
 * @throws MediaError file_unreadable for one that is missing, no file or not readable; media_too_large
 */
export async function readLocalFile(path: string, maximumBytes: number): Promise<EncodedMedium> {
  let handle: FileHandle | undefined;
  try {
    // Before it is opened: opening a pipe waits for whoever writes to it.
    if (!(await stat(path)).isFile()) throw notRegular(path);
    handle = await open(path);
    const entry = await handle.stat();
    if (!entry.isFile()) throw notRegular(path);
    if (entry.size > maximumBytes) throw tooLarge(path, maximumBytes);
    if (entry.size <= READ_HERE_BYTES) return await readStart(handle, entry.size);
    const file = encodedFile(handle, entry.size, await readStart(handle, START_BYTES));
    handle = undefined; // its owner closes it
    return file;
  } catch (cause) {
    if (cause instanceof MediaError) throw cause;
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown error";
    throw new MediaError("file_unreadable", `${path} cannot be read (${code})`, { cause });
  } finally {
    await handle?.close();
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

function notRegular(path: string): MediaError {
  return new MediaError("file_unreadable", `${path} is not a regular file`);
}

function tooLarge(path: string, maximumBytes: number): MediaError {
  return new MediaError("media_too_large", `${path} is larger than the limit of ${maximumBytes} bytes`);
}
