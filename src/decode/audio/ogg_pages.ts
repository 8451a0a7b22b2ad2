/** Pages of Ogg files (RFC 3533, section 6): whether the last one is complete, and whether all streams of a chain are alike. */
import { latin1 } from "../byte_reader.ts";

const CAPTURE_PATTERN = "OggS";
const HEADER_BYTES = 27;
const BEGINS_STREAM = 2;

export interface OggPages {
  /** Whether the file ends within a page. A file that ends with a page may be whole: not all writers mark the last one. */
  readonly isCut: boolean;
  /** Whether one behind the other there are streams of sound that ffmpeg cannot read as one: of different codecs, rates or channels. */
  readonly changesFormat: boolean;
}

/** Goes through all pages, and past damage to the next one. Pure; reads only inside the array. */
export function readOggPages(bytes: Uint8Array): OggPages {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let format: string | null = null;
  let isBeginning = true;
  let hasFormat = false;
  let changesFormat = false;
  let at = 0;
  for (;;) {
    const page = view.indexOf(CAPTURE_PATTERN, at, "latin1");
    if (page < 0) return { isCut: false, changesFormat };
    const end = pageEnd(bytes, page);
    if (end > bytes.byteLength) {
      // Where others follow, it is no page, or a damaged one.
      const isLast = view.indexOf(CAPTURE_PATTERN, page + 4, "latin1") < 0;
      if (isLast) return { isCut: page === at, changesFormat };
      at = page + 4;
      continue;
    }
    at = end;
    const beginsStream = ((bytes[page + 5] ?? 0) & BEGINS_STREAM) !== 0;
    // Streams that belong together begin together, one page each.
    if (beginsStream && !isBeginning) hasFormat = false;
    isBeginning = beginsStream;
    const begun = beginsStream && !hasFormat ? soundFormat(bytes, page) : null;
    if (begun === null) continue;
    hasFormat = true;
    changesFormat ||= format !== null && format !== begun;
    format = begun;
  }
}

function pageEnd(bytes: Uint8Array, page: number): number {
  const segments = bytes[page + 26];
  if (segments === undefined) return Number.POSITIVE_INFINITY;
  const sizes = bytes.subarray(page + HEADER_BYTES, page + HEADER_BYTES + segments);
  if (sizes.byteLength < segments) return Number.POSITIVE_INFINITY;
  return page + HEADER_BYTES + segments + sizes.reduce((sum, size) => sum + size, 0);
}

/**
 * What must not change within a chain, since ffmpeg 9.0 reads no further then: the codec, and of Vorbis and Opus what ffmpeg
 * takes from their first header (Vorbis I, section 4.2.2: version, channels, rate; RFC 7845, section 5.1: channels).
 */
function soundFormat(bytes: Uint8Array, page: number): string | null {
  const packet = page + HEADER_BYTES + (bytes[page + 26] ?? 0);
  const header = latin1(bytes, packet, 16);
  if (header.startsWith("\x01vorbis")) return header;
  if (header.startsWith("OpusHead")) return `OpusHead${header[9]}`;
  return ["\x7fFLAC", "Speex   "].find((name) => header.startsWith(name)) ?? null;
}
