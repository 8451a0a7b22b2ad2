/** What kind of text some bytes are: nothing here is decoded from text, but a refusal may say what it refuses. */
import { constants, gunzipSync } from "node:zlib";
import { latin1 } from "./byte_reader.ts";

/** Kinds of text that are named in a refusal; matched in lower case behind a byte order mark and white space. */
const TEXT_KINDS: readonly (readonly [prefix: string, name: string])[] = [
  ["<svg", "SVG"],
  ["<!doctype svg", "SVG"],
  ["<!doctype html", "HTML"],
  ["<html", "HTML"],
  ["<head", "HTML"],
  ["<mpd", "DASH manifest"],
  ["#extm3u", "playlist"],
  ["[playlist]", "playlist"],
  ["ffconcat", "concat script"],
];

/** Bytes of gzip data that are inflated for a name: to some half a megabyte at the most. */
const GZIP_WINDOW = 512;

/** How many bytes decide whether something is text, and how far an XML prologue is searched for its root element. */
const TEXT_WINDOW = 1024;

/** @returns what kind of text it is, "text" when no more can be said, null when it is none */
export function textKind(bytes: Uint8Array): string | null {
  const head = latin1(bytes, 0, TEXT_WINDOW);
  // Control characters other than white space do not occur in text.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\0-\x08\x0e-\x1a\x1c-\x1f]/.test(head)) return null;
  const text = head
    .replace(/^\xef\xbb\xbf/, "")
    .trimStart()
    .toLowerCase();
  for (const [prefix, name] of TEXT_KINDS) {
    if (text.startsWith(prefix)) return name;
  }
  if (text.startsWith("<?xml") || text.startsWith("<!--")) {
    const inner = TEXT_KINDS.find(([prefix]) => prefix.startsWith("<") && text.includes(prefix));
    return inner?.[1] ?? "XML";
  }
  return "text";
}

/** Text of two bytes for each character, behind its byte order mark. */
export function wideTextKind(bytes: Uint8Array): string | null {
  const isLittle = bytes[0] === 0xff && bytes[1] === 0xfe;
  if (!isLittle && !(bytes[0] === 0xfe && bytes[1] === 0xff)) return null;
  const units = bytes.subarray(2, 2 + 2 * TEXT_WINDOW);
  // Names that are looked for are ASCII, so that the other byte of each character does not matter.
  return textKind(units.filter((_, index) => index % 2 === (isLittle ? 0 : 1)));
}

/** The beginning of what is compressed, for the name only: SVG is often sent so ("svgz"). No more is inflated than is looked at. */
export function gzipKind(bytes: Uint8Array): string | null {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return null;
  try {
    const start = gunzipSync(bytes.subarray(0, GZIP_WINDOW), { finishFlush: constants.Z_SYNC_FLUSH });
    if (textKind(start.subarray(0, TEXT_WINDOW)) === "SVG") return "SVG (gzip)";
  } catch {
    // damaged, or cut in its header
  }
  return "gzip data";
}
