/** Files that the program itself names; never a path out of a request. */
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { MediaError } from "../errors.ts";

/**
 * The bytes of a regular file.
 * @throws MediaError file_unreadable for one that is missing, no file or not readable; media_too_large
 */
export async function readLocalFile(path: string, maximumBytes: number): Promise<Uint8Array> {
  let bytes: Uint8Array;
  try {
    const entry = await stat(path);
    if (!entry.isFile()) throw new MediaError("file_unreadable", `${path} is not a regular file`);
    if (entry.size > maximumBytes) throw tooLarge(path, maximumBytes);
    // One byte more than allowed tells a file that grew meanwhile.
    // Resolved, since Bun takes a name like s3://… for something else than a file.
    bytes = await Bun.file(resolve(path))
      .slice(0, maximumBytes + 1)
      .bytes();
  } catch (cause) {
    if (cause instanceof MediaError) throw cause;
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown error";
    throw new MediaError("file_unreadable", `${path} cannot be read (${code})`, { cause });
  }
  if (bytes.byteLength > maximumBytes) throw tooLarge(path, maximumBytes);
  return bytes;
}

function tooLarge(path: string, maximumBytes: number): MediaError {
  return new MediaError("media_too_large", `${path} is larger than the limit of ${maximumBytes} bytes`);
}
