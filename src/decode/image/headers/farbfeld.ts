import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";

/** Farbfeld (tools.suckless.org/farbfeld): a signature, two sizes, then RGBA of 16 bits; its samples are rounded to 8. */
export function readFarbfeldHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, false);
  return { width: reader.uint32(8), height: reader.uint32(12), channels: 4, bytesPerPixel: 8 };
}
