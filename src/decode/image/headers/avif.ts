/** Headers of AVIF files: item properties of an ISO base media file (ISO/IEC 23008-12, section 6.5; 14496-12, 8.11). */
import { ByteReader, corruptImage } from "../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";

interface Box {
  readonly type: string;
  /** Where the box's content begins and ends. */
  readonly start: number;
  readonly end: number;
}

/** What an auxiliary image is for, when it is alpha (MIAF, ISO/IEC 23000-22, and the older HEVC name). */
const ALPHA_PURPOSES = ["urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", "urn:mpeg:hevc:2015:auxid:1"];

/**
 * The largest dimensions that any item of the file has, and whether one of them is alpha. The primary item is among
 * them, and is no smaller than its tiles and thumbnails.
 */
export function readAvifHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, false);
  const inside = (boxes: Box[], type: string, skip: number): Box[] => {
    const box = boxes.find((candidate) => candidate.type === type);
    if (!box) throw corruptImage("Avif", `it has no ${type} box`);
    return listBoxes(reader, box.start + skip, box.end);
  };
  // "meta" has four bytes of version and flags in front of its children.
  const meta = inside(listBoxes(reader, 0, reader.length), "meta", 4);
  const properties = inside(inside(meta, "iprp", 0), "ipco", 0);
  let [width, height, hasAlpha] = [0, 0, false];
  for (const { type, start, end } of properties) {
    if (type === "ispe") {
      width = Math.max(width, reader.uint32(start + 4));
      height = Math.max(height, reader.uint32(start + 8));
    } else if (type === "auxC") {
      const purpose = reader.text(start + 4, Math.min(end - start - 4, 64));
      hasAlpha ||= ALPHA_PURPOSES.some((name) => purpose.startsWith(name));
    }
  }
  return { width, height, channels: hasAlpha ? 4 : 3, bytesPerSample: 1 };
}

function listBoxes(reader: ByteReader, start: number, end: number): Box[] {
  const boxes: Box[] = [];
  for (let at = start; at + 8 <= end; ) {
    const size = reader.uint32(at);
    const isLong = size === 1;
    const length = isLong ? reader.uint64(at + 8) : size === 0 ? end - at : size;
    if (length < (isLong ? 16 : 8)) throw corruptImage("Avif", "a box has an impossible size");
    boxes.push({ type: reader.text(at + 4, 4), start: at + (isLong ? 16 : 8), end: Math.min(at + length, end) });
    at += length;
  }
  return boxes;
}
