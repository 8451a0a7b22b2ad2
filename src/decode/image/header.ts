/**
 * Dimensions and channels out of an image's header, in TypeScript, so that limits are judged before a native decoder
 * sees the bytes. Only the fields that decide the decoded size are read; the decoder checks the rest.
 */

import { HeaderEndsEarly } from "../byte_reader.ts";
import type { SniffedImageFormat } from "../sniff.ts";
import { readAvifHeader } from "./headers/avif.ts";
import { readBmpHeader, readIcoHeader } from "./headers/bmp.ts";
import { readDdsHeader } from "./headers/dds.ts";
import { readFarbfeldHeader } from "./headers/farbfeld.ts";
import { readGifHeader } from "./headers/gif.ts";
import { readJpegHeader } from "./headers/jpeg.ts";
import { readPngHeader } from "./headers/png.ts";
import { readPnmHeader } from "./headers/pnm.ts";
import { readQoiHeader } from "./headers/qoi.ts";
import { readTiffHeader } from "./headers/tiff.ts";
import { readWebpHeader } from "./headers/webp.ts";
import type { ImageHeader } from "./image_header.ts";
import { corruptImage } from "./refusals.ts";

const READERS = {
  Png: readPngHeader,
  Jpeg: readJpegHeader,
  Gif: readGifHeader,
  WebP: readWebpHeader,
  Pnm: readPnmHeader,
  Tiff: readTiffHeader,
  Bmp: readBmpHeader,
  Ico: readIcoHeader,
  Avif: readAvifHeader,
  Qoi: readQoiHeader,
  Farbfeld: readFarbfeldHeader,
  Dds: readDdsHeader,
} as const satisfies Partial<Record<SniffedImageFormat, (bytes: Uint8Array) => ImageHeader>>;

/** Formats that are decoded; the others that carry a signature are recognised and refused by name. */
export type DecodableFormat = keyof typeof READERS;

export function isDecodable(format: SniffedImageFormat): format is DecodableFormat {
  return Object.hasOwn(READERS, format);
}

/**
 * @param bytes a whole encoded image, already sniffed as `format`
 * @throws MediaError `media_corrupt` for a header that is cut short or impossible, `media_unsupported` for one that
 *   asks for something that is not decoded
 */
export function readImageHeader(bytes: Uint8Array, format: DecodableFormat): ImageHeader {
  let header: ImageHeader;
  try {
    header = READERS[format](bytes);
  } catch (error) {
    if (error instanceof HeaderEndsEarly) throw corruptImage(format, "its header ends early", error);
    throw error;
  }
  if (header.width <= 0 || header.height <= 0) throw corruptImage(format, "its header says zero width or height");
  return header;
}
