/** What an AVI file's headers say that its packets do not: how many frames there are, and how long the file is. */
import { UNKNOWN_SIZE } from "../unknown_size.ts";

/** What ffmpeg declares where it cannot go back to the header in the end. */
const PIPED_FRAME_COUNT = 2 ** 30;

/** Frames that the header of the first video stream declares; 0 when there is none. */
export function aviFrameCount(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (const list of chunks(view, 12, bytes.byteLength)) {
    if (list.id !== "LIST" || list.form !== "hdrl") continue;
    for (const stream of chunks(view, list.start + 4, list.end)) {
      if (stream.id !== "LIST" || stream.form !== "strl") continue;
      const header = chunks(view, stream.start + 4, stream.end).find(
        ({ id, form }) => id === "strh" && form === "vids",
      );
      // AVISTREAMHEADER: dwLength stands 32 bytes in, behind dwScale, dwRate and dwStart.
      if (!header || header.start + 36 > bytes.byteLength) continue;
      const count = view.getUint32(header.start + 32, true);
      return count < PIPED_FRAME_COUNT ? count : 0;
    }
  }
  return 0;
}

/**
 * Whether the file ends before its outermost chunk does, if that says where. Odd chunks may lack their pad byte at the end of a
 * file.
 */
export function isAviCut(bytes: Uint8Array): boolean {
  if (bytes.byteLength < 8) return false;
  const size = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(4, true);
  return size < UNKNOWN_SIZE && 8 + size > bytes.byteLength + 1;
}

interface Chunk {
  readonly id: string;
  readonly start: number;
  readonly end: number;
  /** The first four characters of the content: a list's form, a stream header's type. */
  readonly form: string;
}

function* chunks(view: DataView, start: number, end: number): Generator<Chunk> {
  const limit = Math.min(end, view.byteLength);
  for (let at = start; at + 12 <= limit; ) {
    const size = view.getUint32(at + 4, true);
    const content = { start: at + 8, end: Math.min(at + 8 + size, limit) };
    yield { id: fourCharacters(view, at), form: fourCharacters(view, at + 8), ...content };
    at += 8 + size + (size % 2);
  }
}

function fourCharacters(view: DataView, at: number): string {
  return String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));
}
