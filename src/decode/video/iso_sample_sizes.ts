/** Sizes of a track's samples, in either form that an MP4 file has for them. */
import type { Box, BoxReader } from "../iso_boxes.ts";

/** How many samples have a size, and the size of each. */
export interface SampleSizes {
  readonly count: number;
  /** Bytes that every sample has, 0 when they differ. */
  readonly equal: number;
  /** Bytes of sample `index`, where they differ. */
  at(index: number): number;
}

/** The sample size box or its compact form (ISO/IEC 14496-12, 8.7.3); no more samples than the file can hold. */
export function readSampleSizes(file: BoxReader, table: Box | undefined): SampleSizes {
  if (!table) return { count: 0, equal: 0, at: () => 0 };
  if (table.type === "stsz") {
    const equal = file.uint32(table, 4);
    const fitting = equal > 0 ? Math.floor(file.byteLength / equal) : file.entryCount(table, 8, 4);
    const count = Math.min(file.uint32(table, 8), fitting);
    return { count, equal, at: (index) => file.uint32(table, 12 + index * 4) };
  }
  const bits = file.uint8(table, 7);
  if (bits !== 4 && bits !== 8 && bits !== 16) return { count: 0, equal: 0, at: () => 0 };
  const at = (index: number): number => {
    if (bits === 16) return file.uint16(table, 12 + index * 2);
    if (bits === 8) return file.uint8(table, 12 + index);
    const pair = file.uint8(table, 12 + (index >> 1));
    return index % 2 === 0 ? pair >> 4 : pair & 15;
  };
  return { count: file.entryCount(table, 8, bits / 8), equal: 0, at };
}
