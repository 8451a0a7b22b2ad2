/** VP9, AV1 and codecs of single pictures in MP4: samples are shown in the order of decoding, and key frames start anew. */
import { BitReader } from "./bits.ts";
import { type ClipCodec, NO_BYTES, type Picture, plainPicture } from "./codec_pictures.ts";

function frameCodec(look: (sample: Uint8Array) => Picture | null, isIntraOnly = false): ClipCodec {
  return {
    isIntraOnly,
    orderBitCount: 0,
    mostReordered: 0,
    look,
    hasOneSetup: () => true,
    preamble: () => NO_BYTES,
    breakLink: () => {},
  };
}

/** Apple ProRes: each frame carries all that its decoding needs (SMPTE RDD 36, 5.1). */
export const PRORES: ClipCodec = frameCodec(() => plainPicture(true, ""), true);
export const VP9: ClipCodec = frameCodec(lookAtVp9);
export const AV1: ClipCodec = frameCodec(lookAtAv1);

const VP9_FRAME_MARKER = 2;
const VP9_SYNC_CODE = 0x498342;
const VP9_RGB = 7;
const VP9_SUPERFRAME_MARKER = 6;
/** Enough for what is read of a frame. */
const VP9_HEAD_BYTES = 32;

/**
 * The uncompressed header of a sample's first frame (VP9 bitstream specification, 6.2). A key frame resets all that is carried
 * from frame to frame: references, probabilities, loop filter deltas, segmentation. Null unless the sample shows one picture.
 */
function lookAtVp9(sample: Uint8Array): Picture | null {
  const frames = splitVp9(sample);
  const [first] = frames ?? [];
  if (!frames || !first || frames.filter((frame) => readVp9Frame(frame)?.isShown).length !== 1) return null;
  const bits = new BitReader(first.subarray(0, VP9_HEAD_BYTES));
  const frame = readVp9Frame(first, bits);
  if (!frame) return null;
  if (!frame.isKeyFrame) return plainPicture(false, "");
  bits.skip(1); // error_resilient_mode
  if (!frame.isShown || bits.unsigned(24) !== VP9_SYNC_CODE) return null;
  const setup = [frame.profile, readVp9Colour(bits, frame.profile), bits.unsigned(32)].join(" ");
  return bits.isPastEnd ? null : plainPicture(true, setup);
}

/** The frames of a sample: one, or those of the index at its end (Annex B). Null when their sizes do not add up. */
function splitVp9(sample: Uint8Array): Uint8Array[] | null {
  const marker = sample.at(-1) ?? 0;
  if (marker >> 5 !== VP9_SUPERFRAME_MARKER) return [sample];
  const [count, sizeBytes] = [(marker & 7) + 1, ((marker >> 3) & 3) + 1];
  const end = sample.byteLength - count * sizeBytes - 2;
  if (end < 0 || sample[end] !== marker) return [sample];
  const frames: Uint8Array[] = [];
  let at = 0;
  for (let frame = 0; frame < count; frame += 1) {
    let size = 0;
    for (let i = 0; i < sizeBytes; i += 1) size += (sample[end + 1 + frame * sizeBytes + i] ?? 0) * 256 ** i;
    if (size === 0 || at + size > end) return null;
    frames.push(sample.subarray(at, at + size));
    at += size;
  }
  return frames;
}

/** The beginning of an uncompressed header, up to whether the frame is shown. */
function readVp9Frame(
  frame: Uint8Array,
  bits = new BitReader(frame.subarray(0, VP9_HEAD_BYTES)),
): { readonly profile: number; readonly isKeyFrame: boolean; readonly isShown: boolean } | null {
  if (bits.unsigned(2) !== VP9_FRAME_MARKER) return null;
  const profile = bits.unsigned(1) + 2 * bits.unsigned(1);
  if (profile === 3) bits.skip(1);
  if (bits.flag()) return { profile, isKeyFrame: false, isShown: true }; // show_existing_frame
  const isKeyFrame = !bits.flag();
  return { profile, isKeyFrame, isShown: bits.flag() };
}

/** Bit depth, colour space, range and subsampling (6.2.2), in front of the size. */
function readVp9Colour(bits: BitReader, profile: number): string {
  const depth = profile >= 2 ? bits.unsigned(1) : 0;
  const space = bits.unsigned(3);
  const hasSubsampling = profile % 2 === 1;
  const isRgb = space === VP9_RGB;
  const rest = (isRgb ? 0 : 1) + (hasSubsampling ? (isRgb ? 1 : 3) : 0);
  return [depth, space, bits.unsigned(rest)].join(" ");
}

const OBU = { sequenceHeader: 1, temporalDelimiter: 2, frameHeader: 3, frame: 6 } as const;
/** Units of a sample: a delimiter, a sequence header, some metadata, frames. */
const MOST_OBUS = 16;
/** Sequence headers have some ten bytes, a few hundred with all that can stand in one. */
const MOST_SEQUENCE_BYTES = 1024;

/**
 * The open bitstream units of a temporal unit (AV1 bitstream specification, 5.3 to 5.9). A key frame that is shown at once
 * resets all references. Its sequence header must be the same at each. Null unless the sample shows one picture.
 */
function lookAtAv1(sample: Uint8Array): Picture | null {
  let sequence: Uint8Array | null = null;
  let picture: Picture | null = null;
  let shown = 0;
  for (let at = 0, count = 0; at < sample.byteLength; count += 1) {
    const header = sample[at] ?? 0;
    const type = (header >> 3) & 15;
    const hasExtension = (header & 4) !== 0;
    if ((header & 0x80) !== 0 || (header & 2) === 0 || hasExtension || count === MOST_OBUS) return null;
    const size = readLeb128(sample, at + 1);
    if (!size || size.end + size.value > sample.byteLength) return null;
    at = size.end + size.value;
    if (type === OBU.sequenceHeader) {
      if (picture || size.value > MOST_SEQUENCE_BYTES) return null;
      sequence = sample.subarray(size.end, at);
    } else if (type === OBU.frame || type === OBU.frameHeader) {
      const frame = readAv1Frame(sample.subarray(size.end, at), sequence);
      if (!frame) return null;
      picture ??= frame.picture;
      if (frame.isShown) shown += 1;
    }
  }
  return shown === 1 ? picture : null;
}

function readAv1Frame(
  payload: Uint8Array,
  sequence: Uint8Array | null,
): { readonly picture: Picture; readonly isShown: boolean } | null {
  // Bits 3 and 4 of a sequence header: still_picture, reduced_still_picture_header, with which frames have a shorter one.
  if (sequence && ((sequence[0] ?? 0) & 0x18) !== 0) return null;
  const bits = new BitReader(payload.subarray(0, 4));
  if (bits.flag()) return { picture: plainPicture(false, ""), isShown: true }; // show_existing_frame
  const isKeyFrame = bits.unsigned(2) === 0;
  const isShown = bits.flag();
  if (!isKeyFrame || !isShown) return { picture: plainPicture(false, ""), isShown };
  return sequence && { picture: plainPicture(true, Buffer.from(sequence).toString("latin1")), isShown };
}

/** Numbers of up to 28 bits: no unit is longer (4.10.5). */
function readLeb128(bytes: Uint8Array, at: number): { value: number; end: number } | null {
  let value = 0;
  for (let i = 0; i < 4; i += 1) {
    const byte = bytes[at + i];
    if (byte === undefined) return null;
    value += (byte & 127) * 2 ** (7 * i);
    if (byte < 128) return { value, end: at + i + 1 };
  }
  return null;
}
