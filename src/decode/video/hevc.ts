/** H.265 in MP4: where decoding can begin (ITU-T H.265 7.3, 7.4.2.2). */
import { BitReader } from "./bits.ts";
import { type ClipCodec, MOST_REORDERED, NO_BYTES, type Picture } from "./codec_pictures.ts";
import { equalBytes, obeyRules, readSets, splitUnits, unescaped } from "./nal_units.ts";

/** Table 7-1. Leading pictures are {@link UNIT.firstLeading} to {@link UNIT.lastLeading}. */
const UNIT = {
  firstLeading: 6,
  lastLeading: 9,
  lastOrdinary: 9,
  brokenLink: 17,
  idrWithLeading: 19,
  idr: 20,
  cleanRandomAccess: 21,
  vps: 32,
  sps: 33,
  pps: 34,
  delimiter: 35,
  filler: 38,
  seiBefore: 39,
  seiBehind: 40,
} as const;
const SETS: ReadonlySet<number> = new Set([UNIT.vps, UNIT.sps, UNIT.pps]);
/** What neither is a picture nor decides how one is decoded. */
const ACCOMPANYING: ReadonlySet<number> = new Set([UNIT.delimiter, UNIT.filler, UNIT.seiBefore, UNIT.seiBehind]);
const RANDOM_ACCESS: ReadonlySet<number> = new Set([UNIT.idrWithLeading, UNIT.idr, UNIT.cleanRandomAccess]);
const ORDINARY = Array.from({ length: UNIT.lastOrdinary + 1 }, (_, type) => type);
/** What a sample may hold besides parameter sets. An end of sequence or bitstream changes what the next picture is. */
const OTHER_UNITS: ReadonlySet<number> = new Set([...ORDINARY, ...RANDOM_ACCESS, ...ACCOMPANYING]);
const CHROMA_444 = 3;

interface SequenceParameters {
  readonly separateColourPlanes: boolean;
  readonly orderBits: number;
  readonly reorderedFrames: number;
}

/** What of a picture parameter set decides how a slice header is read. */
interface PictureParameters {
  readonly hasOutputFlag: boolean;
  readonly extraBits: number;
}

interface Setup {
  readonly sequence: SequenceParameters;
  readonly pictures: ReadonlyMap<number, PictureParameters>;
  readonly knownSets: readonly Uint8Array[];
}

/**
 * The codec by its HEVCDecoderConfigurationRecord (ISO/IEC 14496-15, 8.3.3.1); null when something in it is not known to be
 * exact.
 */
export function hevcCodec(record: Uint8Array): ClipCodec | null {
  const lengthBytes = ((record[21] ?? 0) & 3) + 1;
  const knownSets = readAllSets(record);
  const sequenceSets = knownSets?.filter((unit) => unitType(unit[0] ?? 0) === UNIT.sps);
  const [sequenceSet] = sequenceSets ?? [];
  const videoSets = knownSets?.filter((unit) => unitType(unit[0] ?? 0) === UNIT.vps);
  if (record[0] !== 1 || !knownSets || sequenceSets?.length !== 1 || !sequenceSet || videoSets?.length !== 1)
    return null;
  const sequence = readSequenceParameters(new BitReader(unescaped(sequenceSet, 2, true)));
  if (!sequence) return null;
  const pictures = new Map<number, PictureParameters>();
  for (const unit of knownSets.filter((one) => unitType(one[0] ?? 0) === UNIT.pps)) {
    const bits = new BitReader(unescaped(unit, 2));
    const identifier = bits.golomb();
    bits.golomb(); // pps_seq_parameter_set_id
    bits.skip(1); // dependent_slice_segments_enabled_flag
    // Of two with one identifier the decoder would take the last.
    if (pictures.has(identifier)) return null;
    pictures.set(identifier, { hasOutputFlag: bits.flag(), extraBits: bits.unsigned(3) });
  }
  const rules = { lengthBytes, typeOf: unitType, allowed: OTHER_UNITS, setTypes: SETS, sets: knownSets };
  return {
    isIntraOnly: false,
    orderBitCount: sequence.orderBits,
    mostReordered: sequence.reorderedFrames,
    look: (sample) => {
      const units = splitUnits(sample, lengthBytes);
      return units && readPicture(units, { sequence, pictures, knownSets });
    },
    hasOneSetup: (encoded, index, first, last) => obeyRules(encoded, index, first, last, rules),
    preamble: () => NO_BYTES,
    breakLink: (sample) => breakLink(splitUnits(sample, lengthBytes) ?? []),
  };
}

function unitType(firstByte: number): number {
  return (firstByte >> 1) & 63;
}

/** Null for a unit that is neither a set nor supplemental information, or not of the type that its array says. */
function readAllSets(record: Uint8Array): Uint8Array[] | null {
  const all: Uint8Array[] = [];
  let at = 23;
  for (let array = 0; array < (record[22] ?? 0); array += 1) {
    const sets = readSets(record, at + 3, (record[at + 1] ?? 0) * 256 + (record[at + 2] ?? 0));
    const type = (record[at] ?? 0) & 63;
    const isKnown = SETS.has(type) || type === UNIT.seiBefore || type === UNIT.seiBehind;
    if (!sets || !isKnown || sets.units.some((unit) => unitType(unit[0] ?? 0) !== type)) return null;
    all.push(...sets.units);
    at = sets.end;
  }
  return all;
}

function readPicture(units: readonly Uint8Array[], setup: Setup): Picture | null {
  let picture: Picture | null = null;
  let pictureType = 0;
  for (const unit of units) {
    const type = unitType(unit[0] ?? 0);
    const layer = (((unit[0] ?? 0) & 1) << 5) | ((unit[1] ?? 0) >> 3);
    if (layer > 0) return null;
    const isRandomAccess = RANDOM_ACCESS.has(type);
    if (isRandomAccess || type <= UNIT.lastOrdinary) {
      if (picture && type !== pictureType) return null;
      picture ??= readSlice(unit, type, isRandomAccess, setup);
      if (!picture) return null;
      pictureType = type;
    } else if (SETS.has(type)) {
      if (!setup.knownSets.some((known) => equalBytes(known, unit))) return null;
    } else if (!ACCOMPANYING.has(type)) {
      return null;
    }
  }
  return picture;
}

/**
 * The slice segment header up to the picture order count (7.3.6.1); null for a picture that is not shown, or one that keeps
 * those before it from being shown.
 */
function readSlice(unit: Uint8Array, type: number, isRandomAccess: boolean, setup: Setup): Picture | null {
  const bits = new BitReader(unescaped(unit, 2));
  if (!bits.flag()) return null; // first_slice_segment_in_pic_flag
  if (isRandomAccess && bits.flag()) return null; // no_output_of_prior_pics_flag
  const parameters = setup.pictures.get(bits.golomb());
  if (!parameters) return null;
  bits.skip(parameters.extraBits);
  bits.golomb(); // slice_type
  if (parameters.hasOutputFlag && !bits.flag()) return null;
  if (setup.sequence.separateColourPlanes) bits.skip(2);
  const isIdr = type === UNIT.idr || type === UNIT.idrWithLeading;
  const orderBits = isIdr ? 0 : bits.unsigned(setup.sequence.orderBits);
  if (bits.isPastEnd) return null;
  const isLeading = type >= UNIT.firstLeading && type <= UNIT.lastLeading;
  const isLowestLayer = ((unit[1] ?? 0) & 7) === 1;
  // Of the ordinary types, even numbers are those that their own sub-layer does not refer to.
  const isReferredTo = isRandomAccess || type % 2 === 1;
  return {
    access: isIdr ? "closed" : type === UNIT.cleanRandomAccess ? "open" : null,
    isDisposable: false,
    isLeading,
    orderBits,
    isOrderAnchor: isLowestLayer && !isLeading && isReferredTo,
    setup: "",
  };
}

/**
 * Makes a clean random access picture a broken link, which is how the standard begins decoding at one (8.1.3,
 * HandleCraAsBlaFlag): its order count starts anew and nothing before it is referred to. Both are coded alike but for the type.
 */
function breakLink(units: readonly Uint8Array[]): void {
  for (const unit of units) {
    if (unitType(unit[0] ?? 0) === UNIT.cleanRandomAccess) unit[0] = ((unit[0] ?? 0) & 0x81) | (UNIT.brokenLink << 1);
  }
}

function readSequenceParameters(bits: BitReader): SequenceParameters | null {
  bits.skip(4); // sps_video_parameter_set_id
  const subLayers = bits.unsigned(3);
  bits.skip(1);
  skipProfile(bits, subLayers);
  bits.golomb(); // sps_seq_parameter_set_id
  const separateColourPlanes = bits.golomb() === CHROMA_444 && bits.flag();
  bits.golomb(); // width
  bits.golomb(); // height
  if (bits.flag()) for (let side = 0; side < 4; side += 1) bits.golomb(); // conformance window
  bits.golomb(); // bit depths
  bits.golomb();
  const orderBits = bits.golomb() + 4;
  const isForEachLayer = bits.flag();
  let reorderedFrames = 0;
  for (let layer = isForEachLayer ? 0 : subLayers; layer <= subLayers; layer += 1) {
    bits.golomb(); // sps_max_dec_pic_buffering_minus1
    reorderedFrames = bits.golomb();
    bits.golomb(); // sps_max_latency_increase_plus1
  }
  if (bits.isPastEnd || orderBits > 16 || reorderedFrames > MOST_REORDERED) return null;
  return { separateColourPlanes, orderBits, reorderedFrames };
}

/** profile_tier_level (7.3.3). */
function skipProfile(bits: BitReader, subLayers: number): void {
  const [profileBits, levelBits] = [88, 8];
  bits.skip(profileBits + levelBits);
  const present = Array.from({ length: subLayers }, () => ({ profile: bits.flag(), level: bits.flag() }));
  if (subLayers > 0) bits.skip((8 - subLayers) * 2);
  for (const { profile, level } of present) bits.skip((profile ? profileBits : 0) + (level ? levelBits : 0));
}
