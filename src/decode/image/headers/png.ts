import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";

/**
 * PNG (W3C, third edition, 5.6 and 11.2.1): IHDR, and whether a tRNS chunk adds alpha.
 * @param mostReads as for {@link ByteReader}
 */
export function readPngHeader(bytes: Uint8Array, mostReads?: number): ImageHeader {
  const reader = new ByteReader(bytes, false, mostReads);
  if (reader.text(12, 4) !== "IHDR") throw corruptImage("Png", "it does not begin with IHDR");
  const width = reader.uint32(16);
  const height = reader.uint32(20);
  if (width > 0x7fffffff || height > 0x7fffffff) throw corruptImage("Png", "its header says more than 2^31-1 pixels");
  const bitDepth = reader.uint8(24);
  const colorType = reader.uint8(25);
  const isColor = (colorType & 2) !== 0;
  const hasAlpha = (colorType & 4) !== 0 || hasTransparencyChunk(reader);
  const channels = isColor ? (hasAlpha ? 4 : 3) : hasAlpha ? 2 : 1;
  return { width, height, channels, bytesPerPixel: bitDepth === 16 ? 2 * channels : channels };
}

function hasTransparencyChunk(reader: ByteReader): boolean {
  for (let at = 8; at + 8 <= reader.length; at += 12 + reader.uint32(at)) {
    const type = reader.text(at + 4, 4);
    if (type === "tRNS") return true;
    if (type === "IDAT") return false;
  }
  return false;
}
