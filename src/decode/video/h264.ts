/** H.264 in MP4: where decoding can begin, and which pictures no other one refers to (ITU-T H.264 7.3, 7.4). */
import { BitReader } from "./bits.ts";
import { type ClipCodec, MOST_REORDERED, NO_BYTES, type Picture } from "./codec_pictures.ts";
import { equalBytes, obeyRules, readSets, splitUnits, unescaped } from "./nal_units.ts";

const UNIT = { slice: 1, idrSlice: 5, sei: 6, sps: 7, pps: 8, delimiter: 9, filler: 12 } as const;
const SETS: ReadonlySet<number> = new Set([UNIT.sps, UNIT.pps]);
/** What a sample may hold besides parameter sets. */
const OTHER_UNITS: ReadonlySet<number> = new Set([UNIT.slice, UNIT.idrSlice, UNIT.sei, UNIT.delimiter, UNIT.filler]);
/** Profiles whose sequence parameter set tells chroma format and scaling lists (7.3.2.1.1). */
const HIGH_PROFILES: ReadonlySet<number> = new Set([100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135]);
const CHROMA_444 = 3;
/** Payload type of unregistered user data (D.1.1). */
const USER_DATA = 5;
const EXTENDED_ASPECT_RATIO = 255;
/** Longest preamble that is carried along. */
const MOST_PREAMBLE_BYTES = 16 * 1024;

interface SequenceParameters {
  readonly separateColourPlanes: boolean;
  readonly frameNumberBits: number;
  /** Bits of the picture order count's low part; null when pictures are shown in the order of decoding. */
  readonly orderBits: number | null;
  readonly framesOnly: boolean;
  readonly reorderedFrames: number;
}

/**
 * The codec by its AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1); null when something in it is not known to be
 * exact: several sequence parameter sets, a picture order count of type 1, gaps in frame numbers, or no word on reordering, in
 * which case a decoder guesses from the pictures it has seen.
 */
export function h264Codec(record: Uint8Array): ClipCodec | null {
  const lengthBytes = ((record[4] ?? 0) & 3) + 1;
  if (record[0] !== 1 || ((record[5] ?? 0) & 31) !== 1) return null;
  const sequenceSets = readSets(record, 6, 1);
  const pictureSets = sequenceSets && readSets(record, sequenceSets.end + 1, record[sequenceSets.end] ?? 0);
  const [sequenceSet] = sequenceSets?.units ?? [];
  if (!pictureSets || !sequenceSet) return null;
  const parameters = readSequenceParameters(new BitReader(unescaped(sequenceSet, 1, true)));
  if (!parameters) return null;
  const knownSets = [sequenceSet, ...pictureSets.units];
  if (!areSound(sequenceSet, pictureSets.units)) return null;
  const rules = { lengthBytes, typeOf: unitType, allowed: OTHER_UNITS, setTypes: SETS, sets: knownSets };
  return {
    isIntraOnly: false,
    orderBitCount: parameters.orderBits ?? 0,
    mostReordered: parameters.reorderedFrames,
    look: (sample) => {
      const units = splitUnits(sample, lengthBytes);
      return units && readPicture(units, parameters, knownSets);
    },
    hasOneSetup: (encoded, index, first, last) => obeyRules(encoded, index, first, last, rules),
    preamble: (firstSample) => readPreamble(firstSample, lengthBytes),
    breakLink: () => {},
  };
}

function unitType(firstByte: number): number {
  return firstByte & 31;
}

/** Whether sets are of the type they should be, and no two have one identifier: of these the decoder would take the last. */
function areSound(sequenceSet: Uint8Array, pictureSets: readonly Uint8Array[]): boolean {
  const identifiers = pictureSets.map((unit) => new BitReader(unescaped(unit, 1)).golomb());
  return (
    unitType(sequenceSet[0] ?? 0) === UNIT.sps &&
    pictureSets.every((unit) => unitType(unit[0] ?? 0) === UNIT.pps) &&
    new Set(identifiers).size === identifiers.length
  );
}

function readPicture(
  units: readonly Uint8Array[],
  parameters: SequenceParameters,
  knownSets: readonly Uint8Array[],
): Picture | null {
  let picture: Picture | null = null;
  let isReferredTo = false;
  for (const unit of units) {
    const type = unitType(unit[0] ?? 0);
    const isSlice = type === UNIT.slice || type === UNIT.idrSlice;
    if (isSlice) {
      isReferredTo ||= ((unit[0] ?? 0) & 0x60) !== 0;
      if (picture && (picture.access !== null) !== (type === UNIT.idrSlice)) return null;
      picture ??= readSlice(unit, type === UNIT.idrSlice, parameters);
      if (!picture) return null;
    } else if (SETS.has(type)) {
      if (!knownSets.some((known) => equalBytes(known, unit))) return null;
    } else if (!OTHER_UNITS.has(type)) {
      return null;
    }
  }
  return picture && { ...picture, isDisposable: !isReferredTo, isOrderAnchor: isReferredTo };
}

/** The slice header up to the picture order count (7.3.3); null for a field, which may be half of a frame. */
function readSlice(unit: Uint8Array, isIdr: boolean, parameters: SequenceParameters): Picture | null {
  const bits = new BitReader(unescaped(unit, 1));
  bits.golomb(); // first_mb_in_slice
  bits.golomb(); // slice_type
  bits.golomb(); // pic_parameter_set_id
  if (parameters.separateColourPlanes) bits.skip(2);
  bits.skip(parameters.frameNumberBits);
  if (!parameters.framesOnly && bits.flag()) return null;
  if (isIdr) bits.golomb(); // idr_pic_id
  const orderBits = parameters.orderBits === null ? null : bits.unsigned(parameters.orderBits);
  if (bits.isPastEnd) return null;
  return {
    access: isIdr ? "closed" : null,
    isDisposable: false,
    isLeading: false,
    orderBits,
    isOrderAnchor: false,
    setup: "",
  };
}

/**
 * Supplemental information at the clip's beginning, where an encoder says which one it is: libavcodec decodes 4:4:4 pictures of
 * old x264 otherwise than the standard says. It stands in user data (D.1.6), which is looked for where it is the first message of
 * its unit, as x264 writes it; units are carried whole.
 */
function readPreamble(firstSample: Uint8Array, lengthBytes: number): Uint8Array | null {
  const units = splitUnits(firstSample, lengthBytes);
  if (!units) return null;
  const carried = units.filter((unit) => unitType(unit[0] ?? 0) === UNIT.sei && unit[1] === USER_DATA);
  const byteLength = carried.reduce((sum, unit) => sum + lengthBytes + unit.byteLength, 0);
  if (byteLength === 0) return NO_BYTES;
  if (byteLength > MOST_PREAMBLE_BYTES) return null;
  const preamble = new Uint8Array(byteLength);
  let at = 0;
  for (const unit of carried) {
    for (let i = 0; i < lengthBytes; i += 1) preamble[at + i] = (unit.byteLength >>> (8 * (lengthBytes - 1 - i))) & 255;
    preamble.set(unit, at + lengthBytes);
    at += lengthBytes + unit.byteLength;
  }
  return preamble;
}

function readSequenceParameters(bits: BitReader): SequenceParameters | null {
  const profile = bits.unsigned(8);
  bits.skip(16); // constraints and level
  bits.golomb(); // seq_parameter_set_id
  const separateColourPlanes = HIGH_PROFILES.has(profile) && readChromaFormat(bits);
  const frameNumberBits = bits.golomb() + 4;
  const orderType = bits.golomb();
  if (orderType === 1 || orderType > 2) return null;
  const orderBits = orderType === 0 ? bits.golomb() + 4 : null;
  bits.golomb(); // max_num_ref_frames
  const hasGaps = bits.flag();
  bits.golomb(); // width
  bits.golomb(); // height
  const framesOnly = bits.flag();
  bits.skip(framesOnly ? 1 : 2);
  if (bits.flag()) for (let side = 0; side < 4; side += 1) bits.golomb(); // cropping
  const restriction = bits.flag() ? readReorderedFrames(bits) : null;
  const reorderedFrames = orderType === 2 ? 0 : restriction;
  if (bits.isPastEnd || hasGaps || reorderedFrames === null) return null;
  if (frameNumberBits > 16 || (orderBits ?? 0) > 16 || reorderedFrames > MOST_REORDERED) return null;
  return { separateColourPlanes, frameNumberBits, orderBits, framesOnly, reorderedFrames };
}

/** @returns whether colour planes are coded separately */
function readChromaFormat(bits: BitReader): boolean {
  const format = bits.golomb();
  const separate = format === CHROMA_444 && bits.flag();
  bits.golomb(); // bit depths
  bits.golomb();
  bits.skip(1); // qpprime_y_zero_transform_bypass_flag
  if (!bits.flag()) return separate;
  const lists = format === CHROMA_444 ? 12 : 8;
  for (let list = 0; list < lists; list += 1) {
    if (bits.flag()) skipScalingList(bits, list < 6 ? 16 : 64);
  }
  return separate;
}

function skipScalingList(bits: BitReader, size: number): void {
  let [last, next] = [8, 8];
  for (let i = 0; i < size; i += 1) {
    if (next !== 0) next = (last + bits.signedGolomb() + 256) & 255;
    last = next === 0 ? last : next;
  }
}

/** `max_num_reorder_frames` of the usability information (E.1.1); null when it does not say. */
function readReorderedFrames(bits: BitReader): number | null {
  if (bits.flag() && bits.unsigned(8) === EXTENDED_ASPECT_RATIO) bits.skip(32);
  if (bits.flag()) bits.skip(1); // overscan
  if (bits.flag()) {
    bits.skip(4); // video format and range
    if (bits.flag()) bits.skip(24);
  }
  if (bits.flag()) {
    bits.golomb(); // chroma location
    bits.golomb();
  }
  if (bits.flag()) bits.skip(65); // timing
  const hasNalDecoderModel = bits.flag();
  if (hasNalDecoderModel) skipDecoderModel(bits);
  const hasVclDecoderModel = bits.flag();
  if (hasVclDecoderModel) skipDecoderModel(bits);
  if (hasNalDecoderModel || hasVclDecoderModel) bits.skip(1);
  bits.skip(1); // pic_struct_present_flag
  if (!bits.flag()) return null;
  bits.skip(1); // motion vectors over picture boundaries
  for (let i = 0; i < 4; i += 1) bits.golomb();
  return bits.golomb();
}

function skipDecoderModel(bits: BitReader): void {
  const count = Math.min(32, bits.golomb() + 1);
  bits.skip(8);
  for (let i = 0; i < count; i += 1) {
    bits.golomb();
    bits.golomb();
    bits.skip(1);
  }
  bits.skip(20);
}
