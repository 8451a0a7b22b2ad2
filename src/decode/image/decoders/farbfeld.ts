/** Farbfeld: 16-bit samples, most significant byte first, without compression; no library needed. */
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";
import type { DecodedPicture } from "./picture.ts";
import { roundTo8Bits } from "./samples.ts";

const HEADER_LENGTH = 16;

/** @throws MediaError `media_corrupt` when there are fewer or more samples than the header says */
export function decodeFarbfeld(encoded: Uint8Array, { width, height }: ImageHeader): DecodedPicture {
  const samples = width * height * 4;
  if (encoded.length !== HEADER_LENGTH + 2 * samples)
    throw corruptImage("Farbfeld", "its length is not what its header says");
  return {
    width,
    height,
    channels: 4,
    writeTo(payload) {
      for (let at = 0, from = HEADER_LENGTH; at < payload.length; at++, from += 2) {
        payload[at] = roundTo8Bits((encoded[from] ?? 0) * 256 + (encoded[from + 1] ?? 0));
      }
    },
  };
}
