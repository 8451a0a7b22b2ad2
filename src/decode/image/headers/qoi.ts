import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";

/** QOI (qoiformat.org, version 1.0): a header of 14 bytes. */
export function readQoiHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, false);
  const channels = reader.uint8(12);
  if (channels !== 3 && channels !== 4) throw corruptImage("Qoi", "its header says neither 3 nor 4 channels");
  return { width: reader.uint32(4), height: reader.uint32(8), channels, bytesPerPixel: channels };
}
