/** From a source to an encoded medium: the one entry point for whatever is loaded. */
import { ABORTED, unlessAborted } from "../abort.ts";
import { type EncodedMedium, isEncodedFile } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import { decodeDataUrl, isDataUrl } from "./data_url.ts";
import { readLocalFile } from "./local_file.ts";

/** What can be loaded: encoded bytes, a file named by the program, or a URL. A bare string is a URL, never a path. */
export type MediaSource = Uint8Array | ArrayBuffer | { readonly path: string } | string | URL;

/** How many encoded bytes are taken. */
export interface FetchLimits {
  /** Bytes of a file or buffer. */
  readonly maxEncodedBytes: number;
  /** Decoded bytes of a data URL. */
  readonly maxDataUrlBytes: number;
}

/**
 * The encoded bytes of a source, or the open file, of which the caller disposes.
 * @param signal settles it at once, though a read that hangs may go on in the background
 * @throws MediaError url_refused, data_url_invalid, file_unreadable, media_too_large, media_empty, invalid_argument, aborted
 */
export async function fetchMedia(
  source: MediaSource,
  limits: FetchLimits,
  signal?: AbortSignal,
): Promise<EncodedMedium> {
  const reading = mediumOf(source, limits);
  const encoded = await unlessAborted(reading, signal);
  if (encoded === ABORTED) {
    // What comes of it, an error included, is nobody's any more.
    reading.then(disposeOfLate, () => {});
    throw new MediaError("aborted", "The caller gave up before the medium was read");
  }
  if (encoded.byteLength === 0) throw new MediaError("media_empty", "There are no bytes to decode");
  if (!isEncodedFile(encoded) && encoded.byteLength > limits.maxEncodedBytes) {
    throw new MediaError("media_too_large", `The medium is larger than the limit of ${limits.maxEncodedBytes} bytes`);
  }
  return encoded;
}

function disposeOfLate(encoded: EncodedMedium): void {
  if (isEncodedFile(encoded)) encoded.dispose();
}

async function mediumOf(source: MediaSource, limits: FetchLimits): Promise<EncodedMedium> {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (typeof source === "string" || source instanceof URL) {
    const url = String(source);
    if (isDataUrl(url)) return decodeDataUrl(url, limits.maxDataUrlBytes);
    throw new MediaError("url_refused", "Only data URLs are loaded; a file of this machine is named as {path}");
  }
  if (typeof source === "object" && source !== null && typeof source.path === "string") {
    return readLocalFile(source.path, limits.maxEncodedBytes);
  }
  throw new MediaError("invalid_argument", "A medium is given as bytes, as {path}, or as a URL");
}
