/**
 * How large a room an image will ask for, told from the first bytes in the parent process, so that the job goes out with its
 * room and the decoder need not ask: one round trip less. Only a guess for speed: the decoder child reads the header itself,
 * judges the limits, and asks when the guess does not fit.
 */

import { readJpegHeader } from "./image/headers/jpeg.ts";
import { readPngHeader } from "./image/headers/png.ts";
import { readWebpFirstChunk } from "./image/headers/webp.ts";
import type { ImageHeader } from "./image/image_header.ts";
import { judgeImageLimits } from "./image/limits.ts";
import type { ImageOptions } from "./image/options.ts";
import { channelsFor } from "./image/transforms/channels.ts";
import type { DecodeRequest } from "./protocol.ts";
import { scaledSize } from "./scaled_size.ts";
import { type SniffedImageFormat, sniffMedia } from "./sniff.ts";

/** Bytes that are looked at, and how often: a hostile header may be as long as the file, and this is the server's event loop. */
const LOOKED_AT = 64 * 1024;
const MOST_READS = 1000;
/** Larger rooms are worth the wait for a header that was read to its end. */
const LARGEST_BYTES = 64 * 1024 * 1024;

/** Formats whose headers stand in front and are read in microseconds. */
const READERS: Partial<Record<SniffedImageFormat, (start: Uint8Array) => ImageHeader | undefined>> = {
  Jpeg: (start) => readJpegHeader(start, MOST_READS),
  Png: (start) => readPngHeader(start, MOST_READS),
  WebP: readWebpFirstChunk,
};

/** @returns payload bytes, or null when there is no telling */
export function roomAhead(request: DecodeRequest, encoded: Uint8Array): number | null {
  if (request.kind !== "image") return null;
  const options = request.settings as ImageOptions;
  const start = encoded.subarray(0, LOOKED_AT);
  const sniffed = sniffMedia(start);
  if (sniffed.kind !== "image") return null;
  try {
    const header = READERS[sniffed.format]?.(start);
    if (!header || !(header.width > 0 && header.height > 0)) return null;
    judgeImageLimits(sniffed.format, header, options.limits);
    const { width, height } = scaledSize(header, options.max_pixels ?? Number.POSITIVE_INFINITY);
    const byteLength = width * height * channelsFor(options.channels, header.channels);
    return byteLength <= LARGEST_BYTES ? byteLength : null;
  } catch {
    return null; // the decoder says what is wrong
  }
}
