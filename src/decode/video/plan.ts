/**
 * Which samples of a clip have to be decoded for the frames wanted, and which of them side by side. Nothing is decoded here.
 *
 * A plan is to give what decoding everything up to the last frame gives. For that is checked
 * - of the container: all samples have timestamps of their own, in an order that a decoder can bring about;
 * - of every sample up to the last one wanted: it brings no other parameter sets and does not end a sequence;
 * - of the sync samples among them: their headers say that decoding can begin there, with one setup throughout;
 * - of those that are kept, and of what is left out between them: the headers say that pictures come out in the order of
 *   timestamps, and that none refers to what is left out.
 *
 * Nothing else of what is left out is looked at: damage in pictures there, and pictures of another size, have no say. Damage in
 * what is kept makes a decoder complain, upon which the clip is decoded linearly; of the little that libavcodec's H.265 decoder
 * does not notice, it leaves a part of the picture as it finds its buffer, which hangs on what was decoded before.
 */
import { type ClipCodec, NO_BYTES, type Picture } from "./codec_pictures.ts";
import { type FrameWalk, framesTaken } from "./frame_walk.ts";
import { isOrderedByTime, type OutputOrder, outputOrder } from "./output_order.ts";
import { distribute, LEAST_PART_COST, type PlanPart, type WantedStretch } from "./plan_parts.ts";
import type { SampleIndex } from "./sample_index.ts";

export interface Plan {
  /** In the order of their frames; at least one. */
  readonly parts: readonly PlanPart[];
  /** What decoding takes with the plan and without, in bytes of samples and pixels for {@link PIXELS_PER_BYTE} each. */
  readonly cost: number;
  readonly linearCost: number;
}

/**
 * Reconstructing so many pixels takes about as long as reading a byte of coded data: some 20 ns, measured with H.264 and VP9
 * of 360 and 720 lines.
 */
const PIXELS_PER_BYTE = 32;
/** A plan that costs more than this part of linear decoding is not worth its way. */
const WORTHWHILE = 0.95;
/** More samples than this are not looked at: more than two hours of film. */
const MOST_READ = 2 ** 18;

/**
 * @param encoded the file
 * @param walk which frames are wanted
 * @param mostParts how many decoders may run side by side
 * @param leastPartCost what is worth a decoder of its own
 * @returns null when the clip has to be decoded linearly, or may as well be
 */
export function planClip(
  encoded: Uint8Array,
  index: SampleIndex,
  codec: ClipCodec,
  walk: FrameWalk,
  mostParts: number,
  leastPartCost = LEAST_PART_COST,
): Plan | null {
  const order = outputOrder(index, codec.mostReordered);
  if (!order) return null;
  const targets = wantedSamples(index, order, walk);
  const last = targets.reduce((latest, sample) => Math.max(latest, sample), -1);
  if (last < 0 || last - index.first >= MOST_READ) return null;
  const linearCost = costOf(index, range(index.first, last));
  // Where nearly all samples are wanted, headers need not be read.
  if (mostParts === 1 && costOf(index, targets) > WORTHWHILE * linearCost) return null;
  const reader = new PictureReader(encoded, index, codec);
  if (!codec.hasOneSetup(encoded, index, index.first, last)) return null;
  const accessPoints = findAccessPoints(reader, order, last);
  const stretches = accessPoints && findStretches(reader, accessPoints, targets);
  const preamble = codec.preamble(reader.bytes(index.first));
  if (!stretches || !preamble) return null;
  const parts = distribute(stretches, mostParts, leastPartCost).map((part, number) => ({
    ...part,
    preamble: number === 0 && part.stretches[0]?.kept[0] === index.first ? NO_BYTES : preamble,
  }));
  const cost = parts.reduce((sum, part) => sum + part.cost, 0);
  // How many decoders there are must not decide what is left out: of a damaged clip it decides the frames.
  const isWorthwhile = cost <= WORTHWHILE * linearCost || (parts.length > 1 && cost === linearCost);
  return isWorthwhile ? { parts, cost, linearCost } : null;
}

/** The walk over frames in presentation order: the first one not below the current threshold is wanted. */
function wantedSamples(index: SampleIndex, order: OutputOrder, walk: FrameWalk): number[] {
  const timeOf = (sample: number): number => index.pts[sample] ?? 0;
  const shown = [...order.samples].filter((sample) => sample >= index.first && timeOf(sample) >= index.firstTime);
  return framesTaken(shown.map(timeOf), walk).map((frame) => shown[frame] ?? 0);
}

function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, offset) => first + offset);
}

function costOf(index: SampleIndex, samples: readonly number[]): number {
  const picture = (index.width * index.height) / PIXELS_PER_BYTE;
  return samples.reduce((sum, sample) => sum + picture + (index.sizes[sample] ?? 0), 0);
}

/** Reads pictures once each. */
class PictureReader {
  readonly index: SampleIndex;
  readonly codec: ClipCodec;
  readonly #encoded: Uint8Array;
  readonly #pictures = new Map<number, Picture | null>();
  readonly #setup: string | undefined;

  constructor(encoded: Uint8Array, index: SampleIndex, codec: ClipCodec) {
    this.#encoded = encoded;
    this.index = index;
    this.codec = codec;
    this.#setup = codec.look(this.bytes(index.first))?.setup;
  }

  bytes(sample: number): Uint8Array {
    const offset = this.index.offsets[sample] ?? 0;
    return this.#encoded.subarray(offset, offset + (this.index.sizes[sample] ?? 0));
  }

  /** Null for a picture that is not understood, and for an access point that sets decoders up otherwise than the first. */
  picture(sample: number): Picture | null {
    const known = this.#pictures.get(sample);
    if (known !== undefined) return known;
    const seen = this.codec.look(this.bytes(sample));
    const isUsable = seen && (seen.access === null || seen.setup === this.#setup);
    // Of what may be long, one copy is kept.
    const picture = isUsable ? { ...seen, setup: "" } : null;
    this.#pictures.set(sample, picture);
    return picture;
  }
}

/**
 * Samples up to the last one wanted at which decoding can begin; all that are shown before one are decoded before it, but for
 * those that lead it. Null when that does not hold.
 */
function findAccessPoints(reader: PictureReader, order: OutputOrder, last: number): number[] | null {
  const { index, codec } = reader;
  const found: number[] = [];
  for (let sample = index.first; sample <= last; sample += 1) {
    if (index.sync[sample] !== 1) continue;
    // Samples of single pictures are read where they are wanted.
    const picture = codec.isIntraOnly ? null : reader.picture(sample);
    if (!codec.isIntraOnly && !picture) return null;
    if (picture?.access === null) continue;
    if (!isBoundary(sample, order, reader)) return null;
    found.push(sample);
  }
  return found[0] === index.first ? found : null;
}

/** Whether the pictures shown before a closed access point are those decoded before it, or lead it. */
function isBoundary(sample: number, order: OutputOrder, reader: PictureReader): boolean {
  const place = order.places[sample] ?? 0;
  if (reader.codec.mostReordered === 0 || place === sample) return place === sample;
  for (let shown = sample; shown < place; shown += 1) {
    const leading = order.samples[shown] ?? 0;
    if (leading < sample || !reader.picture(leading)?.isLeading) return false;
  }
  return place > sample;
}

/** From each access point that is needed to the last sample wanted of those behind it. Null when a header cannot be read. */
function findStretches(
  reader: PictureReader,
  accessPoints: readonly number[],
  targets: readonly number[],
): WantedStretch[] | null {
  const { index } = reader;
  const spans: { first: number; last: number; targets: number[] }[] = [];
  for (const target of targets.toSorted((a, b) => a - b)) {
    const first = accessPointOf(reader, accessPoints, target);
    if (first === undefined) return null;
    let span = { first, last: target, targets: [target] };
    // A picture that leads an access point brings what precedes that back in.
    for (let before = spans.at(-1); before && span.first <= before.last; before = spans.at(-1)) {
      before.targets.push(...span.targets);
      span = { first: Math.min(before.first, span.first), last: span.last, targets: before.targets };
      spans.pop();
    }
    spans.push(span);
  }
  const stretches: WantedStretch[] = [];
  for (const span of spans) {
    const isBroken = span.first > index.first && reader.picture(span.first)?.access === "open";
    const kept = keptSamples(reader, span, isBroken);
    if (!kept) return null;
    const times = span.targets.map((target) => index.pts[target] ?? 0).sort((a, b) => a - b);
    stretches.push({ isBroken, kept, targets: times, cost: costOf(index, kept) });
  }
  return stretches;
}

/** The last access point from which on a sample can be decoded. */
function accessPointOf(reader: PictureReader, accessPoints: readonly number[], target: number): number | undefined {
  const { pts } = reader.index;
  let [from, to] = [0, accessPoints.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((accessPoints[middle] ?? 0) <= target) from = middle + 1;
    else to = middle;
  }
  for (let number = from - 1; number >= 0; number -= 1) {
    const point = accessPoints[number] ?? 0;
    const isShownBefore = (pts[target] ?? 0) < (pts[point] ?? 0);
    if (!isShownBefore || reader.picture(point)?.access === "closed") return point;
  }
  return undefined;
}

/**
 * The samples of a stretch without those that nothing wanted depends on; null unless all of them can be read and their order
 * of output is that of their timestamps.
 */
function keptSamples(
  reader: PictureReader,
  span: { readonly first: number; readonly last: number; readonly targets: readonly number[] },
  isBroken: boolean,
): number[] | null {
  const { index, codec } = reader;
  const samples = range(span.first, span.last);
  const pictures = samples.map((sample) => reader.picture(sample));
  const read = pictures.filter((picture) => picture !== null);
  if (read.length < pictures.length) return null;
  if (codec.orderBitCount > 0 && !isOrderedByTime(index, samples, read, codec.orderBitCount)) return null;
  const wanted = new Set(span.targets);
  return samples.filter((sample, position) => {
    const picture = read[position];
    // What leads a broken link is shown before it and may refer to what is cut off.
    const isCutOff = isBroken && (index.pts[sample] ?? 0) < (index.pts[span.first] ?? 0);
    return wanted.has(sample) || !(isCutOff || (picture?.isDisposable && picture.access === null));
  });
}
