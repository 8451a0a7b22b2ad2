/**
 * An MP4 file with only some samples of one: what describes the track is copied as it stands, tables are written anew (ISO/IEC
 * 14496-12, 8.5 to 8.7), and of the media only those samples are read.
 *
 * Its clock begins with its first sample. Tables of decoding times cannot begin anywhere but at 0, an edit list that says
 * otherwise is rounded and interpreted, and composition offsets are limited; a clock that is told separately is exact.
 */
import { createFile, type PrivateFile } from "../../../ffi/process.ts";
import type { Box } from "../iso_boxes.ts";
import { type ClipCodec, NO_BYTES } from "./codec_pictures.ts";
import type { PlanPart } from "./plan_parts.ts";
import type { SampleIndex } from "./sample_index.ts";

export interface CompactFile extends Disposable {
  /** Sealed. */
  readonly file: PrivateFile;
  /** What its timestamps are less than the clip's, ticks. */
  readonly origin: number;
}

/**
 * More bytes than this that describe a track are no description; most have a few hundred. ffmpeg repeats texts among them in
 * its log, which is to hold all that it says.
 */
const MOST_HEADER_BYTES = 16 * 1024;
/** Offsets of media data and times between samples have 32 bits. */
const MOST_BYTES = 2 ** 32 - 1;

/** @returns null for a part that cannot be told in tables of 32 bits, or whose description is no sane one */
export function writeCompactFile(
  encoded: Uint8Array,
  index: SampleIndex,
  part: PlanPart,
  codec: ClipCodec,
): CompactFile | null {
  const samples = part.stretches.flatMap(({ kept }) => kept);
  const [firstSample] = samples;
  const header = firstSample !== undefined && writeHeader(encoded, index, part, samples);
  if (!header) return null;
  const mediaBytes = samples.reduce((sum, sample) => sum + (index.sizes[sample] ?? 0), part.preamble.byteLength);
  if (header.byteLength + 8 + mediaBytes > MOST_BYTES) return null;
  const file = createFile("compact", header.byteLength + 8 + mediaBytes);
  const { bytes } = file;
  bytes.set(header);
  bytes.set(boxHeader("mdat", mediaBytes), header.byteLength);
  let at = header.byteLength + 8;
  bytes.set(part.preamble, at);
  at += part.preamble.byteLength;
  for (const { kept, isBroken } of part.stretches) {
    kept.forEach((sample, position) => {
      const [offset, size] = [index.offsets[sample] ?? 0, index.sizes[sample] ?? 0];
      bytes.set(encoded.subarray(offset, offset + size), at);
      if (isBroken && position === 0) codec.breakLink(bytes.subarray(at, at + size));
      at += size;
    });
  }
  file.sealReadOnly();
  return { file, origin: index.dts[firstSample] ?? 0, [Symbol.dispose]: () => file.dispose() };
}

/** File type and movie box. */
function writeHeader(
  encoded: Uint8Array,
  index: SampleIndex,
  part: PlanPart,
  samples: readonly number[],
): Uint8Array | null {
  const { boxes } = index;
  const { fileType, movieHeader, trackHeader, sampleDescription } = boxes;
  const media = boxes.media.filter((box) => box !== boxes.mediaInformation);
  const information = boxes.information.filter((box) => box !== boxes.sampleTable);
  const copied = [
    ...(fileType ? [fileType] : []),
    movieHeader,
    trackHeader,
    sampleDescription,
    ...media,
    ...information,
  ];
  const copiedBytes = copied.reduce((sum, box) => sum + box.end - box.start, 0);
  if (copied.some((box) => box.isCut) || copiedBytes > MOST_HEADER_BYTES) return null;
  const copy = (box: Box): Uint8Array => boxWith(box.type, [encoded.subarray(box.start, box.end)]);
  const times = writeTimes(index, samples);
  if (!times) return null;

  const movie = (dataStart: number): Uint8Array => {
    const table = boxWith("stbl", [
      copy(sampleDescription),
      ...times,
      ...writeSyncSamples(index, samples),
      fullBox("stsc", [1, 1, samples.length, 1]),
      writeSizes(index, part, samples),
      fullBox("stco", [1, dataStart]),
    ]);
    const contents = boxWith("mdia", [...media.map(copy), boxWith("minf", [...information.map(copy), table])]);
    return boxWith("moov", [copy(movieHeader), boxWith("trak", [copy(trackHeader), contents])]);
  };
  const front = fileType ? copy(fileType) : NO_BYTES;
  const headerBytes = front.byteLength + movie(0).byteLength;
  return Buffer.concat([front, movie(headerBytes + 8)]);
}

/** Decoding times and composition offsets of the samples; null for a gap of more than 31 bits. */
function writeTimes({ dts, pts }: SampleIndex, samples: readonly number[]): Uint8Array[] | null {
  const deltas = samples.map((sample, position) => {
    const next = samples[position + 1];
    return next === undefined ? 1 : (dts[next] ?? 0) - (dts[sample] ?? 0);
  });
  if (deltas.some((delta) => delta >= 2 ** 31)) return null;
  const offsets = samples.map((sample) => (pts[sample] ?? 0) - (dts[sample] ?? 0));
  const times = fullBox("stts", runs(deltas));
  return offsets.every((offset) => offset === 0) ? [times] : [times, fullBox("ctts", runs(offsets))];
}

/** A table of runs: how many entries it has, then for each how often it is repeated and what. */
function runs(values: readonly number[]): number[] {
  const table = [0];
  for (const value of values) {
    if (table.length > 1 && table.at(-1) === value) {
      table[table.length - 2] = (table.at(-2) ?? 0) + 1;
    } else {
      table.push(1, value);
      table[0] = (table[0] ?? 0) + 1;
    }
  }
  return table;
}

function writeSyncSamples({ sync }: SampleIndex, samples: readonly number[]): Uint8Array[] {
  const numbers = samples.flatMap((sample, position) => (sync[sample] === 1 ? [position + 1] : []));
  return numbers.length === samples.length ? [] : [fullBox("stss", [numbers.length, ...numbers])];
}

function writeSizes({ sizes }: SampleIndex, { preamble }: PlanPart, samples: readonly number[]): Uint8Array {
  const own = samples.map((sample, position) => (sizes[sample] ?? 0) + (position === 0 ? preamble.byteLength : 0));
  return fullBox("stsz", [0, own.length, ...own]);
}

function boxHeader(type: string, contentBytes: number): Uint8Array {
  const header = Buffer.alloc(8);
  header.writeUInt32BE(contentBytes + 8);
  header.write(type, 4, "latin1");
  return header;
}

function boxWith(type: string, contents: readonly Uint8Array[]): Uint8Array {
  const byteLength = contents.reduce((sum, content) => sum + content.byteLength, 0);
  return Buffer.concat([boxHeader(type, byteLength), ...contents]);
}

/** A box of version 0 without flags whose contents are numbers of 32 bits; negative ones in two's complement. */
function fullBox(type: string, numbers: readonly number[]): Uint8Array {
  const contents = Buffer.alloc(4 + numbers.length * 4);
  numbers.forEach((number, index) => {
    contents.writeUInt32BE(number >>> 0, 4 + index * 4);
  });
  return boxWith(type, [contents]);
}
