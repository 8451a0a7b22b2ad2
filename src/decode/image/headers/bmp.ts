/** Headers of BMP files and of the pictures in an ICO file. */
import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";
import { readPngHeader } from "./png.ts";

/** A bitmap information header: where it says RGB, what is decoded has three channels, else it may have alpha. */
function readDibHeader(reader: ByteReader, at: number): ImageHeader {
  if (reader.uint32(at) === 12) {
    return { width: reader.uint16(at + 4), height: reader.uint16(at + 6), channels: 3, bytesPerPixel: 3 };
  }
  const width = reader.int32(at + 4);
  // Negative for rows from top to bottom.
  const height = Math.abs(reader.int32(at + 8));
  const compression = reader.uint32(at + 16);
  const hasBitfields = compression === 3 || compression === 6;
  const channels = hasBitfields ? 4 : 3;
  return { width, height, channels, bytesPerPixel: channels };
}

/** BMP: the information header stands behind the 14 bytes of the file header. */
export function readBmpHeader(bytes: Uint8Array): ImageHeader {
  return readDibHeader(new ByteReader(bytes, true), 14);
}

/**
 * ICO: the largest width and height of all the pictures inside. The directory has one byte for each and may lie, so the
 * pictures' own headers are read; a BMP inside states twice its height, for the mask below the colours.
 */
export function readIcoHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, true);
  const count = reader.uint16(4);
  let [width, height] = [0, 0];
  for (let index = 0; index < count; index++) {
    const entry = 6 + 16 * index;
    const offset = reader.uint32(entry + 12);
    if (offset >= reader.length) throw corruptImage("Ico", "a picture lies outside the file");
    const isPng = reader.uint32(offset) === 0x474e5089;
    const picture = isPng ? readPngHeader(bytes.subarray(offset)) : readDibHeader(reader, offset);
    width = Math.max(width, picture.width);
    height = Math.max(height, isPng ? picture.height : Math.floor(picture.height / 2));
  }
  return { width, height, channels: 4, bytesPerPixel: 4 };
}
