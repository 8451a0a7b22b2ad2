/**
 * NAL units of H.264 and H.265 as MP4 files keep them: each behind its length (ISO/IEC 14496-15, 5.3.4 and 8.3.3), and the
 * parameter sets in a record of their own.
 */

import type { SampleIndex } from "./sample_index.ts";

/** More units than this in one sample, or sets in a record, are no sound clip. */
const MOST_UNITS = 1024;
/** Units of all samples that are looked at; some 20 ms. An hour of film with four units in each sample has fewer. */
const MOST_UNITS_SEEN = 2 ** 20;
/** How much of a unit's head is read: enough for a slice header up to its picture order count. */
const HEAD_BYTES = 64;
/** Longest parameter set: some ten bytes, a few hundred with scaling lists and usability information. */
const MOST_SET_BYTES = 4096;

/**
 * Whether lengths of the NAL units from `start` to `end` add up and each unit is accepted, by where it begins and ends. Only
 * the lengths are read, and nothing is allocated: long clips have a hundred thousand samples.
 */
export function everyUnit(
  bytes: Uint8Array,
  start: number,
  end: number,
  lengthBytes: number,
  accepts: (start: number, end: number) => boolean,
): boolean {
  let at = start;
  while (at < end) {
    const unitStart = at + lengthBytes;
    if (unitStart > end) return false;
    let length = 0;
    for (; at < unitStart; at += 1) length = length * 256 + (bytes[at] ?? 0);
    at += length;
    if (length === 0 || at > end || !accepts(unitStart, at)) return false;
  }
  return true;
}

/** Which types of units samples may have, and the parameter sets that are in force. */
export interface UnitRules {
  readonly lengthBytes: number;
  readonly typeOf: (firstByte: number) => number;
  readonly allowed: ReadonlySet<number>;
  readonly setTypes: ReadonlySet<number>;
  readonly sets: readonly Uint8Array[];
}

/** Whether the samples from `first` to `last` have only units that are allowed, and no sets but those in force. */
export function obeyRules(
  encoded: Uint8Array,
  { offsets, sizes }: SampleIndex,
  first: number,
  last: number,
  { lengthBytes, typeOf, allowed, setTypes, sets }: UnitRules,
): boolean {
  let seen = 0;
  const isAllowed = (start: number, end: number): boolean => {
    const type = typeOf(encoded[start] ?? 0);
    const isSet = setTypes.has(type);
    seen += isSet ? sets.length : 1;
    if (seen > MOST_UNITS_SEEN) return false;
    return isSet ? sets.some((set) => equalBytes(set, encoded.subarray(start, end))) : allowed.has(type);
  };
  for (let sample = first; sample <= last; sample += 1) {
    const start = offsets[sample] ?? 0;
    if (!everyUnit(encoded, start, start + (sizes[sample] ?? 0), lengthBytes, isAllowed)) return false;
  }
  return true;
}

/** NAL units of a sample; null when lengths do not add up. */
export function splitUnits(sample: Uint8Array, lengthBytes: number): Uint8Array[] | null {
  const units: Uint8Array[] = [];
  const isSound = everyUnit(sample, 0, sample.byteLength, lengthBytes, (start, end) => {
    units.push(sample.subarray(start, end));
    return units.length <= MOST_UNITS;
  });
  return isSound && units.length > 0 ? units : null;
}

/** A unit's payload without emulation prevention (H.264 7.4.1, H.265 7.4.2), from byte `from`; its head unless `whole`. */
export function unescaped(unit: Uint8Array, from: number, whole = false): Uint8Array {
  const end = whole ? unit.byteLength : Math.min(unit.byteLength, from + HEAD_BYTES);
  const payload = new Uint8Array(end - Math.min(from, end));
  let length = 0;
  let zeros = 0;
  for (let at = from; at < end; at += 1) {
    const byte = unit[at] ?? 0;
    if (zeros >= 2 && byte === 3) {
      zeros = 0;
      continue;
    }
    zeros = byte === 0 ? zeros + 1 : 0;
    payload[length] = byte;
    length += 1;
  }
  return payload.subarray(0, length);
}

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && Buffer.compare(a, b) === 0;
}

/** Parameter sets of a configuration record from `at`: `count` units, each behind a length of 16 bits. */
export function readSets(record: Uint8Array, at: number, count: number): { units: Uint8Array[]; end: number } | null {
  const units: Uint8Array[] = [];
  let end = at;
  for (let i = 0; i < count; i += 1) {
    if (end + 2 > record.byteLength || units.length >= MOST_UNITS) return null;
    const length = (record[end] ?? 0) * 256 + (record[end + 1] ?? 0);
    end += 2;
    if (length === 0 || length > MOST_SET_BYTES || end + length > record.byteLength) return null;
    units.push(record.subarray(end, end + length));
    end += length;
  }
  return { units, end };
}
