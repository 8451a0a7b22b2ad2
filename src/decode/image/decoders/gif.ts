/**
 * The first frame of a GIF, in TypeScript: the libraries at hand lose the colours under transparent pixels, second-guess
 * the size of the screen, and fill up a frame whose data end early.
 */

import { type GifFrame, readGifFrame } from "../headers/gif.ts";
import { corruptImage } from "../refusals.ts";
import type { DecodedPicture } from "./picture.ts";

/** Codes have at most 12 bits (GIF89a specification, appendix F). */
const MAX_CODES = 4096;
/** First row and distance of the rows of each pass of an interlaced frame (appendix E). */
const INTERLACE_PASSES = [
  { first: 0, step: 8 },
  { first: 4, step: 8 },
  { first: 2, step: 4 },
  { first: 1, step: 2 },
] as const;

/**
 * Always RGBA and of the screen's size. Outside of the frame and where an index has no colour: (0, 0, 0, 0).
 * @throws MediaError `media_corrupt` when the frame's data are invalid or end early
 */
export function decodeGif(encoded: Uint8Array): DecodedPicture {
  const frame = readGifFrame(encoded);
  if (frame.width === 0 || frame.height === 0) throw corruptImage("Gif", "its first frame is empty");
  if (frame.palette.length === 0) throw corruptImage("Gif", "its first frame has no colours");
  const indices = decodeIndices(joinSubBlocks(encoded, frame.dataOffset + 1), encoded[frame.dataOffset] ?? 0, frame);
  return {
    width: frame.screenWidth,
    height: frame.screenHeight,
    channels: 4,
    writeTo: (payload) => writeFrame(frame, indices, payload),
  };
}

/** The data behind `at`, without the length bytes of the blocks; where the file ends early, what there is of them. */
function joinSubBlocks(encoded: Uint8Array, at: number): Uint8Array {
  const joined = new Uint8Array(Math.max(0, encoded.length - at));
  let length = 0;
  for (let size = encoded[at] ?? 0; size > 0; size = encoded[at] ?? 0) {
    const block = encoded.subarray(at + 1, at + 1 + size);
    joined.set(block, length);
    length += block.length;
    at += 1 + size;
  }
  return joined.subarray(0, length);
}

/** LZW (appendix F). One palette index per pixel, in the file's order. */
function decodeIndices(data: Uint8Array, minCodeSize: number, frame: GifFrame): Uint8Array {
  if (minCodeSize < 1 || minCodeSize > 8) throw corruptImage("Gif", "an impossible code size");
  const clearCode = 1 << minCodeSize;
  const codes = new CodeReader(data);
  const strings = new StringTable(minCodeSize);
  const indices = new Uint8Array(frame.width * frame.height);
  let written = 0;
  let previous = -1;
  while (written < indices.length) {
    const code = codes.read(strings.codeSize);
    if (code === clearCode) {
      strings.clear();
      previous = -1;
      continue;
    }
    if (code === clearCode + 1) throw corruptImage("Gif", "its data end early");
    // A code that is not in the table yet is the previous string and its first index.
    const isNew = code === strings.nextCode && previous >= 0;
    if (!isNew && code >= strings.nextCode) throw corruptImage("Gif", "an impossible code");
    const length = strings.write(isNew ? previous : code, indices, written);
    const first = indices[written] ?? 0;
    written += length;
    if (isNew) {
      if (written < indices.length) indices[written] = first;
      written++;
    }
    if (previous >= 0) strings.add(previous, first);
    previous = code;
  }
  return indices;
}

/** Codes of growing length, least significant bit first. */
class CodeReader {
  readonly #data: Uint8Array;
  #at = 0;
  #buffered = 0;
  #bits = 0;

  constructor(data: Uint8Array) {
    this.#data = data;
  }

  /** @throws MediaError `media_corrupt` when the data end early */
  read(codeSize: number): number {
    while (this.#bits < codeSize) {
      if (this.#at >= this.#data.length) throw corruptImage("Gif", "its data end early");
      this.#buffered |= (this.#data[this.#at++] ?? 0) << this.#bits;
      this.#bits += 8;
    }
    const code = this.#buffered & ((1 << codeSize) - 1);
    this.#buffered >>>= codeSize;
    this.#bits -= codeSize;
    return code;
  }
}

/** The strings that codes stand for: each is the string of another code and one index more. */
class StringTable {
  /** Bits of the code that is read next. */
  codeSize = 0;
  /** The code that the next string is given. */
  nextCode = 0;
  readonly #minCodeSize: number;
  readonly #prefix = new Uint16Array(MAX_CODES);
  readonly #suffix = new Uint8Array(MAX_CODES);
  readonly #length = new Uint16Array(MAX_CODES);

  constructor(minCodeSize: number) {
    this.#minCodeSize = minCodeSize;
    for (let code = 0; code < 1 << minCodeSize; code++) {
      this.#suffix[code] = code;
      this.#length[code] = 1;
    }
    this.clear();
  }

  /** Forgets all strings of more than one index. Two codes are kept for "clear" and "end". */
  clear(): void {
    this.codeSize = this.#minCodeSize + 1;
    this.nextCode = (1 << this.#minCodeSize) + 2;
  }

  /** A full table stays as it is. */
  add(prefix: number, suffix: number): void {
    if (this.nextCode === MAX_CODES) return;
    this.#prefix[this.nextCode] = prefix;
    this.#suffix[this.nextCode] = suffix;
    this.#length[this.nextCode] = (this.#length[prefix] ?? 0) + 1;
    this.nextCode++;
    if (this.nextCode === 1 << this.codeSize && this.codeSize < 12) this.codeSize++;
  }

  /** Writes a string, from its end on, and gives its length. What lies beyond the frame's last pixel is dropped. */
  write(code: number, indices: Uint8Array, at: number): number {
    const length = this.#length[code] ?? 0;
    for (let position = at + length - 1; position >= at; position--) {
      indices[position] = this.#suffix[code] ?? 0;
      code = this.#prefix[code] ?? 0;
    }
    return length;
  }
}

function writeFrame(frame: GifFrame, indices: Uint8Array, payload: Uint8Array): void {
  payload.fill(0);
  const { palette, transparentIndex } = frame;
  const rows = rowOrder(frame);
  const columns = Math.min(frame.width, frame.screenWidth - frame.left);
  for (let row = 0; row < frame.height; row++) {
    const y = frame.top + (rows[row] ?? 0);
    if (y >= frame.screenHeight) continue;
    let to = (y * frame.screenWidth + frame.left) * 4;
    for (let x = 0; x < columns; x++, to += 4) {
      const index = indices[row * frame.width + x] ?? 0;
      if (3 * index >= palette.length) continue;
      payload[to] = palette[3 * index] ?? 0;
      payload[to + 1] = palette[3 * index + 1] ?? 0;
      payload[to + 2] = palette[3 * index + 2] ?? 0;
      payload[to + 3] = index === transparentIndex ? 0 : 255;
    }
  }
}

/** Where each row of the data belongs. */
function rowOrder(frame: GifFrame): number[] {
  const passes = frame.isInterlaced ? INTERLACE_PASSES : [{ first: 0, step: 1 }];
  const rows: number[] = [];
  for (const { first, step } of passes) for (let row = first; row < frame.height; row += step) rows.push(row);
  return rows;
}
