/** The "Quite OK Image" format (qoiformat.org, version 1.0): one page of specification, no library needed. */
import { corruptImage } from "../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import type { DecodedPicture } from "./picture.ts";

const HEADER_LENGTH = 14;
/** Seven zero bytes and a one close the stream. */
const END_MARKER_LENGTH = 8;

export function decodeQoi(encoded: Uint8Array, header: ImageHeader): DecodedPicture {
  const channels = header.channels === 4 ? 4 : 3;
  return {
    width: header.width,
    height: header.height,
    channels,
    writeTo: (payload) => writePixels(encoded, channels, payload),
  };
}

/** @throws MediaError `media_corrupt` when the stream ends before the picture or without its end marker */
function writePixels(encoded: Uint8Array, channels: 3 | 4, payload: Uint8Array): void {
  const end = encoded.length - END_MARKER_LENGTH;
  const byte = (at: number) => encoded[at] ?? 0;
  // Colours seen, packed as four bytes each, at the place that their hash names.
  const seen = new Uint8Array(64 * 4);
  let [red, green, blue, alpha, run] = [0, 0, 0, 255, 0];
  let at = HEADER_LENGTH;

  for (let to = 0; to < payload.length; to += channels) {
    if (run > 0) {
      run--;
    } else {
      if (at >= end) throw corruptImage("Qoi", "its data end early");
      const tag = byte(at++);
      if (tag === 0xfe || tag === 0xff) {
        [red, green, blue] = [byte(at), byte(at + 1), byte(at + 2)];
        at += 3;
        if (tag === 0xff) alpha = byte(at++);
      } else if (tag < 0x40) {
        const place = tag * 4;
        [red, green, blue, alpha] = [
          seen[place] ?? 0,
          seen[place + 1] ?? 0,
          seen[place + 2] ?? 0,
          seen[place + 3] ?? 0,
        ];
      } else if (tag < 0x80) {
        red = (red + ((tag >> 4) & 3) - 2) & 255;
        green = (green + ((tag >> 2) & 3) - 2) & 255;
        blue = (blue + (tag & 3) - 2) & 255;
      } else if (tag < 0xc0) {
        const greenStep = (tag & 0x3f) - 32;
        const steps = byte(at++);
        red = (red + greenStep + (steps >> 4) - 8) & 255;
        green = (green + greenStep) & 255;
        blue = (blue + greenStep + (steps & 15) - 8) & 255;
      } else {
        run = tag & 0x3f;
      }
      const place = ((red * 3 + green * 5 + blue * 7 + alpha * 11) % 64) * 4;
      seen[place] = red;
      seen[place + 1] = green;
      seen[place + 2] = blue;
      seen[place + 3] = alpha;
    }
    payload[to] = red;
    payload[to + 1] = green;
    payload[to + 2] = blue;
    if (channels === 4) payload[to + 3] = alpha;
  }
  const isClosed = at === end && byte(end + 7) === 1 && encoded.subarray(end, end + 7).every((value) => value === 0);
  if (run > 0 || !isClosed) throw corruptImage("Qoi", "its end marker is not where the picture ends");
}
