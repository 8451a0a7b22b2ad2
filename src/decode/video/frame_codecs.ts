/** VP9, AV1 and codecs of single pictures in MP4: samples are shown in the order of decoding, and key frames start anew. */
import { BitReader } from "./bits.ts";
import { type ClipCodec, NO_BYTES, type Picture, plainPicture } from "./codec_pictures.ts";

function frameCodec(look: (sample: Uint8Array) => Picture | null, isIntraOnly = false): ClipCodec {
  return { isIntraOnly, orderBitCount: 0, mostReordered: 0, look, preamble: () => NO_BYTES, breakLink: () => {} };
}

/** Apple ProRes: each frame carries all that its decoding needs (SMPTE RDD 36, 5.1). */
export const PRORES: ClipCodec = frameCodec(() => plainPicture(true, ""), true);
/** Motion JPEG. */
export const MOTION_JPEG: ClipCodec = frameCodec(lookAtJpeg, true);
export const VP9: ClipCodec = frameCodec(lookAtVp9);
export const AV1: ClipCodec = frameCodec(lookAtAv1);

const VP9_FRAME_MARKER = 2;
const VP9_SYNC_CODE = 0x498342;
const VP9_RGB = 7;

/**
 * The uncompressed header of a sample's first frame (VP9 bitstream specification, 6.2). A key frame resets all that is carried
 * from frame to frame: references, probabilities, loop filter deltas, segmentation.
 */
function lookAtVp9(sample: Uint8Array): Picture | null {
  const bits = new BitReader(sample.subarray(0, 32));
  if (bits.unsigned(2) !== VP9_FRAME_MARKER) return null;
  const profile = bits.unsigned(1) + 2 * bits.unsigned(1);
  if (profile === 3) bits.skip(1);
  const showsExisting = bits.flag();
  if (showsExisting) return plainPicture(false, "");
  const isKeyFrame = !bits.flag();
  if (!isKeyFrame) return plainPicture(false, "");
  const isShown = bits.flag();
  bits.skip(1); // error_resilient_mode
  if (!isShown || bits.unsigned(24) !== VP9_SYNC_CODE) return null;
  const setup = [profile, readVp9Colour(bits, profile), bits.unsigned(32)].join(" ");
  return bits.isPastEnd ? null : plainPicture(true, setup);
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
const MOST_OBUS = 64;

/**
 * The open bitstream units of a temporal unit up to its first frame header (AV1 bitstream specification, 5.3 to 5.9). A key
 * frame that is shown at once resets all references. Its sequence header must be the same at each.
 */
function lookAtAv1(sample: Uint8Array): Picture | null {
  let sequence: Uint8Array | null = null;
  for (let at = 0, count = 0; at < sample.byteLength && count < MOST_OBUS; count += 1) {
    const header = sample[at] ?? 0;
    const type = (header >> 3) & 15;
    const hasExtension = (header & 4) !== 0;
    if ((header & 0x80) !== 0 || (header & 2) === 0 || hasExtension) return null;
    const size = readLeb128(sample, at + 1);
    if (!size || size.end + size.value > sample.byteLength) return null;
    const payload = sample.subarray(size.end, size.end + size.value);
    if (type === OBU.sequenceHeader) sequence = payload;
    if (type === OBU.frame || type === OBU.frameHeader) return readAv1Frame(payload, sequence);
    at = size.end + size.value;
  }
  return null;
}

function readAv1Frame(payload: Uint8Array, sequence: Uint8Array | null): Picture | null {
  // Bits 3 and 4 of a sequence header: still_picture, reduced_still_picture_header, with which frames have a shorter one.
  if (sequence && ((sequence[0] ?? 0) & 0x18) !== 0) return null;
  const bits = new BitReader(payload.subarray(0, 4));
  if (bits.flag()) return plainPicture(false, ""); // show_existing_frame
  const isKeyFrame = bits.unsigned(2) === 0;
  const isShown = bits.flag();
  if (!isKeyFrame || !isShown) return plainPicture(false, "");
  return sequence ? plainPicture(true, Buffer.from(sequence).toString("latin1")) : null;
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

const JPEG = { start: 0xd8, startOfScan: 0xda, huffman: 0xc4, quantization: 0xdb, frames: [0xc0, 0xc1, 0xc2] } as const;

/**
 * The segments in front of a JPEG's first scan (ITU-T T.81, B.2). A picture without tables of its own takes those of the one
 * before it.
 */
function lookAtJpeg(sample: Uint8Array): Picture | null {
  const seen = new Set<number>();
  let setup = "";
  if (sample[0] !== 0xff || sample[1] !== JPEG.start) return null;
  for (let at = 2; at + 4 <= sample.byteLength; ) {
    const marker = sample[at + 1] ?? 0;
    if (sample[at] !== 0xff) return null;
    const length = (sample[at + 2] ?? 0) * 256 + (sample[at + 3] ?? 0);
    if (marker === JPEG.startOfScan) {
      const isComplete = seen.has(JPEG.huffman) && seen.has(JPEG.quantization) && setup !== "";
      return isComplete ? plainPicture(true, setup) : null;
    }
    seen.add(marker);
    if (JPEG.frames.some((frame) => frame === marker)) {
      setup = Buffer.from(sample.subarray(at, at + 2 + length)).toString("latin1");
    }
    at += 2 + length;
  }
  return null;
}
