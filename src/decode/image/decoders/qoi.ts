/** The "Quite OK Image" format (qoiformat.org, version 1.0): one page of specification, no library needed. */

import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";
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
  const pixels = new PixelReader(encoded.subarray(0, Math.max(0, end)));
  let run = 0;
  for (let to = 0; to < payload.length; to += channels) {
    if (run > 0) run--;
    else run = pixels.read();
    payload[to] = pixels.red;
    payload[to + 1] = pixels.green;
    payload[to + 2] = pixels.blue;
    if (channels === 4) payload[to + 3] = pixels.alpha;
  }
  const marker = encoded.subarray(end);
  const isClosed = pixels.at === end && marker[7] === 1 && marker.subarray(0, 7).every((value) => value === 0);
  if (run > 0 || !isClosed) throw corruptImage("Qoi", "its end marker is not where the picture ends");
}

/** The colour of one pixel after another. */
class PixelReader {
  red = 0;
  green = 0;
  blue = 0;
  alpha = 255;
  /** Offset of what is read next. */
  at = HEADER_LENGTH;
  readonly #encoded: Uint8Array;
  /** Colours seen, four bytes each, at the place that their hash names. */
  readonly #seen = new Uint8Array(64 * 4);

  /** @param encoded the file without its end marker */
  constructor(encoded: Uint8Array) {
    this.#encoded = encoded;
  }

  /**
   * Reads the next pixel's colour.
   * @returns how many pixels more have it
   * @throws MediaError `media_corrupt` when there is no more
   */
  read(): number {
    const tag = this.#byte();
    if (tag >= 0xc0 && tag < 0xfe) {
      this.#remember();
      return tag & 0x3f;
    }
    if (tag >= 0xfe) {
      this.red = this.#byte();
      this.green = this.#byte();
      this.blue = this.#byte();
      if (tag === 0xff) this.alpha = this.#byte();
    } else if (tag < 0x40) {
      const place = tag * 4;
      this.red = this.#seen[place] ?? 0;
      this.green = this.#seen[place + 1] ?? 0;
      this.blue = this.#seen[place + 2] ?? 0;
      this.alpha = this.#seen[place + 3] ?? 0;
    } else if (tag < 0x80) {
      this.#step(((tag >> 4) & 3) - 2, ((tag >> 2) & 3) - 2, (tag & 3) - 2);
    } else {
      const green = (tag & 0x3f) - 32;
      const others = this.#byte();
      this.#step(green + (others >> 4) - 8, green, green + (others & 15) - 8);
    }
    this.#remember();
    return 0;
  }

  #byte(): number {
    const byte = this.#encoded[this.at++];
    if (byte === undefined) throw corruptImage("Qoi", "its data end early");
    return byte;
  }

  #step(red: number, green: number, blue: number): void {
    this.red = (this.red + red) & 255;
    this.green = (this.green + green) & 255;
    this.blue = (this.blue + blue) & 255;
  }

  #remember(): void {
    const place = ((this.red * 3 + this.green * 5 + this.blue * 7 + this.alpha * 11) % 64) * 4;
    this.#seen[place] = this.red;
    this.#seen[place + 1] = this.green;
    this.#seen[place + 2] = this.blue;
    this.#seen[place + 3] = this.alpha;
  }
}
