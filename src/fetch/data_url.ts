/** Data URLs: the whole medium in the URL itself (RFC 2397), base64 only. */
import { MediaError } from "../errors.ts";

/** Media type and parameters are short; whatever has no comma within so many characters is not a data URL. */
const MAXIMUM_PREFIX_LENGTH = 1024;
/** Characters that are worked on at once: about a millisecond for the most awkward text, 30 µs for the usual one. */
const PIECE_LENGTH = 64 * 1024;
/** How far a piece is made longer so that it does not end within an escaped character, which in UTF-8 has up to four bytes. */
const MOST_CONTINUATIONS = 3;
/** The escape of a byte that is not the first one of its character (UTF-8). */
const CONTINUATION = /^%[89AB]/i;

/** Whether a URL's scheme is `data:`, in any case. */
export function isDataUrl(url: string): boolean {
  return /^data:/i.test(url);
}

/**
 * The bytes of a data URL. Any media type and parameters, any case, line breaks, missing padding and the URL-safe alphabet
 * are accepted; the media type is ignored, since formats are told from the bytes. The event loop goes on meanwhile: however
 * many are decoded at the same time, together they take it for a short piece of text at a time.
 * @param maximumBytes judged from the length of the text, before anything is decoded
 * @throws MediaError data_url_invalid, media_too_large, aborted; the message never repeats the data
 */
export async function decodeDataUrl(url: string, maximumBytes: number, signal?: AbortSignal): Promise<Uint8Array> {
  const begin = beginOfData(url);
  // Four characters are three bytes. Percent escapes make three characters of one, and line breaks add some: text that is
  // longer than that cannot hold an allowed medium, and is not even looked at.
  if (url.length - begin > (Math.ceil(maximumBytes / 3) + 1) * 4 * 3) throw tooLarge(maximumBytes);
  const pieces: string[] = [];
  let length = 0;
  for (let start = begin; start < url.length; ) {
    await nextTurn(signal);
    const end = endOfPiece(url, start);
    const piece = stripped(url.slice(start, end));
    pieces.push(piece);
    length += piece.length;
    start = end;
  }
  length -= removePadding(pieces);
  if (bytesOf(length) > maximumBytes) throw tooLarge(maximumBytes);
  // A single character left over holds six bits: no byte ends there.
  if (length % 4 === 1) throw invalid();
  return decodePieces(pieces, length, signal);
}

/** Where the data begin. @throws MediaError data_url_invalid */
function beginOfData(url: string): number {
  const comma = url.slice(0, MAXIMUM_PREFIX_LENGTH).indexOf(",");
  if (comma < 0) throw new MediaError("data_url_invalid", "The data URL has no comma in front of its data");
  const parameters = url.slice("data:".length, comma).split(";");
  if (parameters.at(-1)?.trim().toLowerCase() !== "base64") {
    throw new MediaError("data_url_invalid", "The data URL is not base64: only data:…;base64,… is decoded");
  }
  return comma + 1;
}

/** Where the piece that begins at `start` ends: never within an escape, nor within the escapes of one character. */
function endOfPiece(url: string, start: number): number {
  let end = start + PIECE_LENGTH;
  const cut = url.slice(end - 2, end).lastIndexOf("%");
  if (cut >= 0) end += cut + 1;
  for (let i = 0; i < MOST_CONTINUATIONS && CONTINUATION.test(url.slice(end, end + 2)); i++) end += 3;
  return Math.min(end, url.length);
}

/** Base64 text without percent escapes and white space. */
function stripped(text: string): string {
  let plain = text;
  if (plain.includes("%")) {
    try {
      plain = decodeURIComponent(plain);
    } catch (cause) {
      throw new MediaError("data_url_invalid", "The data URL's percent escapes are invalid", { cause });
    }
  }
  return /\s/.test(plain) ? plain.replace(/\s+/g, "") : plain;
}

/** Takes up to two `=` off the end of the text. @returns how many */
function removePadding(pieces: string[]): number {
  let removed = 0;
  for (let i = pieces.length - 1; i >= 0 && removed < 2; i--) {
    const piece = pieces[i] ?? "";
    const padding = Math.min(/=*$/.exec(piece.slice(-2))?.[0].length ?? 0, 2 - removed);
    pieces[i] = piece.slice(0, piece.length - padding);
    removed += padding;
    if (pieces[i] !== "") break;
  }
  return removed;
}

/** @param length characters of all pieces together, without padding */
async function decodePieces(pieces: string[], length: number, signal?: AbortSignal): Promise<Uint8Array> {
  const bytes = new Uint8Array(bytesOf(length));
  let filled = 0;
  let text = "";
  for (const [index, piece] of pieces.entries()) {
    await nextTurn(signal);
    text += piece;
    // Four characters are one quantum; what is left over belongs to the next piece.
    const whole = index === pieces.length - 1 ? text.length : text.length - (text.length % 4);
    decodeInto(bytes.subarray(filled, filled + bytesOf(whole)), text.slice(0, whole));
    filled += bytesOf(whole);
    text = text.slice(whole);
  }
  return bytes;
}

/**
 * Decodes text that has neither white space nor padding into a room of exactly its size. `Buffer.from` would not do: it skips
 * what is invalid, and takes characters above U+00FF for those that they share the low byte with.
 */
function decodeInto(room: Uint8Array, text: string): void {
  const urlSafe = /[-_]/.test(text);
  const mixed = urlSafe && /[+/]/.test(text);
  const plain = mixed ? text.replaceAll("-", "+").replaceAll("_", "/") : text;
  let written: number;
  try {
    written = room.setFromBase64(plain, { alphabet: urlSafe && !mixed ? "base64url" : "base64" }).written;
  } catch {
    throw invalid(); // without the cause, which is free to quote the text
  }
  // Padding that stands where no text ends was taken for an end here.
  if (written !== room.byteLength) throw invalid();
}

/** Whole bytes in so many characters of base64. */
function bytesOf(characters: number): number {
  return Math.floor((characters * 3) / 4);
}

let lastTurn: Promise<void> = Promise.resolve();

/**
 * Waits until the event loop has come round once for everyone who asked before: of all the data URLs that are decoded at the
 * same time, one piece is worked on between two looks at what else there is to do.
 * @throws MediaError aborted
 */
async function nextTurn(signal: AbortSignal | undefined): Promise<void> {
  lastTurn = lastTurn.then(() => new Promise((resolve) => void setImmediate(resolve)));
  await lastTurn;
  if (signal?.aborted) throw new MediaError("aborted", "The caller gave up before the data URL was decoded");
}

function invalid(): MediaError {
  return new MediaError("data_url_invalid", "The data URL's base64 is invalid");
}

function tooLarge(maximumBytes: number): MediaError {
  return new MediaError("media_too_large", `The data URL holds more than the limit of ${maximumBytes} bytes`);
}
