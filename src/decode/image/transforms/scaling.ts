/** How far a picture is scaled down, and how much of that a JPEG decoder does by itself. */
import { ByteReader, HeaderEndsEarly } from "../../byte_reader.ts";
import type { ImageHeader, PixelSize } from "../image_header.ts";

/** Factors by which libvips lets libjpeg scale down in the DCT, largest first. */
const DCT_FACTORS = [8, 4, 2] as const;

/**
 * What a JPEG decoder makes of the picture when it has to become `target`: the picture scaled by a DCT factor. A JPEG of
 * several scans gains nothing, because the decoder keeps the coefficients of the whole picture.
 */
export function dctScaledSize(encoded: Uint8Array, header: ImageHeader, target: PixelSize): PixelSize {
  const ratio = Math.min(header.width / target.width, header.height / target.height);
  const most = DCT_FACTORS.find((candidate) => ratio >= candidate) ?? 1;
  // sharp leaves more than a factor's fraction to the resampling behind it (its pipeline.cc, "known libjpeg rounding errors").
  const factor = Math.floor(ratio) === most ? most / 2 : most;
  if (factor <= 1 || !hasSingleScan(encoded)) return header;
  return { width: Math.ceil(header.width / factor), height: Math.ceil(header.height / factor) };
}

function hasSingleScan(encoded: Uint8Array): boolean {
  try {
    return hasAllInFirstScan(encoded);
  } catch (error) {
    if (error instanceof HeaderEndsEarly) return false; // the decoder has the verdict
    throw error;
  }
}

/** Whether the frame is a sequential one (T.81, B.2.2) whose first scan has all of its components. */
function hasAllInFirstScan(encoded: Uint8Array): boolean {
  const reader = new ByteReader(encoded, false);
  let components: number | null = null;
  for (let at = 2; ; ) {
    while (reader.uint8(at) !== 0xff) at++;
    while (reader.uint8(at) === 0xff) at++;
    const marker = reader.uint8(at++);
    if (marker === 0xc0 || marker === 0xc1) components = reader.uint8(at + 7);
    else if (marker === 0xda) return components === reader.uint8(at + 2);
    else if (marker === 0xc2 || (marker > 0xc4 && marker <= 0xcf && marker !== 0xc8 && marker !== 0xcc)) return false;
    const isAlone = marker === 0 || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (!isAlone) at += Math.max(2, reader.uint16(at));
  }
}
