import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage, unsupportedImage } from "../refusals.ts";

/** Channels of block-compressed surfaces by their code. Others are left to graphics processors, and to the decoder unknown. */
const CHANNELS = new Map<string, 3 | 4>([
  ["DXT1", 3],
  ["DXT3", 4],
  ["DXT5", 4],
]);
const HEADER_SIZE = 124;
const FLAG_FOUR_CC = 4;

/** DDS ("Programming Guide for DDS", DDS_HEADER and DDS_PIXELFORMAT): the main surface at its largest size. */
export function readDdsHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, true);
  if (reader.uint32(4) !== HEADER_SIZE) throw corruptImage("Dds", "its header has an impossible size");
  const [height, width] = [reader.uint32(12), reader.uint32(16)];
  const hasCode = (reader.uint32(80) & FLAG_FOUR_CC) !== 0;
  const channels = hasCode ? CHANNELS.get(reader.text(84, 4)) : undefined;
  if (channels === undefined) throw unsupportedImage("Dds", "only DXT1, DXT3 and DXT5 surfaces are decoded");
  return { width, height, channels, bytesPerPixel: channels };
}
