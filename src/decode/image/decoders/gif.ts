/**
 * The first frame of a GIF, in TypeScript: the libraries at hand lose the colours under transparent pixels, second-guess
 * the size of the screen, and fill up a frame whose data end early.
 */
import { corruptImage } from "../byte_reader.ts";
import { type GifFrame, readGifFrame } from "../headers/gif.ts";
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

/** LZW with codes of growing length, least significant bit first. One palette index per pixel, in the file's order. */
function decodeIndices(data: Uint8Array, minCodeSize: number, frame: GifFrame): Uint8Array {
  if (minCodeSize < 1 || minCodeSize > 8) throw corruptImage("Gif", "an impossible code size");
  const clearCode = 1 << minCodeSize;
  const endCode = clearCode + 1;
  const prefix = new Uint16Array(MAX_CODES);
  const suffix = new Uint8Array(MAX_CODES);
  const length = new Uint16Array(MAX_CODES);
  for (let code = 0; code < clearCode; code++) {
    suffix[code] = code;
    length[code] = 1;
  }
  const indices = new Uint8Array(frame.width * frame.height);
  let written = 0;
  let codeSize = minCodeSize + 1;
  let nextCode = endCode + 1;
  let previous = -1;
  let [buffered, bits, at] = [0, 0, 0];

  while (written < indices.length) {
    while (bits < codeSize) {
      if (at >= data.length) throw corruptImage("Gif", "its data end early");
      buffered |= (data[at++] ?? 0) << bits;
      bits += 8;
    }
    const code = buffered & ((1 << codeSize) - 1);
    buffered >>>= codeSize;
    bits -= codeSize;

    if (code === clearCode) {
      codeSize = minCodeSize + 1;
      nextCode = endCode + 1;
      previous = -1;
      continue;
    }
    if (code === endCode) throw corruptImage("Gif", "its data end early");
    const isNew = code === nextCode && previous >= 0;
    if (!isNew && (code >= nextCode || (previous < 0 && code > endCode)))
      throw corruptImage("Gif", "an impossible code");

    // The string is found from its end. A code that is not in the table yet is the previous string and its first index.
    const known = isNew ? previous : code;
    const stringLength = length[known] ?? 0;
    let walk = known;
    for (let position = written + stringLength - 1; position >= written; position--) {
      // A write beyond the frame's last pixel falls outside of the array, and is nothing.
      indices[position] = suffix[walk] ?? 0;
      walk = prefix[walk] ?? 0;
    }
    const first = indices[written] ?? 0;
    written += stringLength;
    if (isNew && written < indices.length) indices[written] = first;
    if (isNew) written++;

    if (previous >= 0 && nextCode < MAX_CODES) {
      prefix[nextCode] = previous;
      suffix[nextCode] = first;
      length[nextCode] = (length[previous] ?? 0) + 1;
      nextCode++;
      if (nextCode === 1 << codeSize && codeSize < 12) codeSize++;
    }
    previous = code;
  }
  return indices;
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
