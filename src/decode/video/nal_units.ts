/**
 * NAL units of H.264 and H.265 as MP4 files keep them: each behind its length (ISO/IEC 14496-15, 5.3.4 and 8.3.3), and the
 * parameter sets in a record of their own.
 */

/** More units than this in one sample, or sets in a record, are no sound clip. */
const MOST_UNITS = 1024;
/** How much of a unit's head is read: enough for a slice header up to its picture order count. */
const HEAD_BYTES = 64;

/** NAL units of a sample; null when lengths do not add up. */
export function splitUnits(sample: Uint8Array, lengthBytes: number): Uint8Array[] | null {
  const units: Uint8Array[] = [];
  let at = 0;
  while (at < sample.byteLength) {
    if (at + lengthBytes > sample.byteLength || units.length >= MOST_UNITS) return null;
    let length = 0;
    for (let i = 0; i < lengthBytes; i += 1) length = length * 256 + (sample[at + i] ?? 0);
    at += lengthBytes;
    if (length === 0 || at + length > sample.byteLength) return null;
    units.push(sample.subarray(at, at + length));
    at += length;
  }
  return units.length === 0 ? null : units;
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
  return a.byteLength === b.byteLength && a.every((byte, index) => byte === b[index]);
}

/** Parameter sets of a configuration record from `at`: `count` units, each behind a length of 16 bits. */
export function readSets(record: Uint8Array, at: number, count: number): { units: Uint8Array[]; end: number } | null {
  const units: Uint8Array[] = [];
  let end = at;
  for (let i = 0; i < count; i += 1) {
    if (end + 2 > record.byteLength || units.length >= MOST_UNITS) return null;
    const length = (record[end] ?? 0) * 256 + (record[end + 1] ?? 0);
    end += 2;
    if (length === 0 || end + length > record.byteLength) return null;
    units.push(record.subarray(end, end + length));
    end += length;
  }
  return { units, end };
}
