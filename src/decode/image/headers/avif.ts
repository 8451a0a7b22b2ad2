/** Headers of AVIF files: item properties of an ISO base media file (ISO/IEC 23008-12, section 6.5; 14496-12, 8.11). */
import { type Box, BoxReader } from "../../iso_boxes.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";

/** What an auxiliary image is for, when it is alpha (MIAF, ISO/IEC 23000-22, and the older HEVC name). */
const ALPHA_PURPOSES = ["urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", "urn:mpeg:hevc:2015:auxid:1"];

/**
 * The largest dimensions and bit depth that any item of the file has, and whether one of them is alpha. The primary item
 * is among them, and is no smaller than its tiles and thumbnails. The decoder makes RGBA of 8 bits of every file, out of
 * planes that have two bytes for each sample of more than 8 bits.
 */
export function readAvifHeader(bytes: Uint8Array): ImageHeader {
  const reader = new BoxReader(bytes);
  const meta = wholeBox(reader.boxes(), "meta");
  // "meta" has four bytes of version and flags in front of its children.
  const itemProperties = wholeBox(reader.boxes(meta.start + 4, meta.end), "iprp");
  const container = wholeBox(reader.boxes(itemProperties.start, itemProperties.end), "ipco");
  let [width, height, bitDepth, hasAlpha] = [0, 0, 8, false];
  for (const property of reader.boxes(container.start, container.end)) {
    if (property.isCut) throw corruptImage("Avif", "a property of its items is cut off");
    const content = property.end - property.start;
    if (property.type === "ispe" && content >= 12) {
      width = Math.max(width, reader.uint32(property, 4));
      height = Math.max(height, reader.uint32(property, 8));
    } else if (property.type === "auxC") {
      const purpose = reader.text(property, 4, Math.min(content - 4, 64));
      hasAlpha ||= ALPHA_PURPOSES.some((name) => purpose.startsWith(name));
    } else {
      bitDepth = Math.max(bitDepth, readBitDepth(reader, property));
    }
  }
  const channels = hasAlpha ? 4 : 3;
  return { width, height, channels, bytesPerPixel: bitDepth > 8 ? 2 * channels : 4 };
}

/** Bits of a sample according to a property; 0 for one that does not say. */
function readBitDepth(reader: BoxReader, property: Box): number {
  if (property.type === "pixi") {
    // A count of channels, then the bits of each (ISO/IEC 23008-12, 6.5.6).
    const channels = Math.min(reader.uint8(property, 4), property.end - property.start - 5);
    return Math.max(0, ...Array.from({ length: channels }, (_, channel) => reader.uint8(property, 5 + channel)));
  }
  // The bit "high_bitdepth" of the codec's configuration (AV1 in ISOBMFF, 2.3.3): 10 or 12.
  return property.type === "av1C" && (reader.uint8(property, 2) & 0x40) !== 0 ? 10 : 0;
}

function wholeBox(boxes: readonly Box[], type: string): Box {
  const box = boxes.find((candidate) => candidate.type === type);
  if (!box) throw corruptImage("Avif", `it has no ${type} box`);
  if (box.isCut) throw corruptImage("Avif", `its ${type} box is cut off`);
  return box;
}
