/** What several readers of MP4 boxes share: time scales and edit lists (ISO/IEC 14496-12, 8.2.2, 8.4.2 and 8.6.6). */
import type { Box, BoxReader } from "./iso_boxes.ts";

/** A duration that the writer did not know; as a media time, read as unsigned, an empty edit's. */
export const ALL_ONES = 0xffffffff;

/** Ticks a second, of a movie header or a media header. */
export function readTimescale(file: BoxReader, header: Box): number {
  return file.uint32(header, file.uint8(header, 0) === 1 ? 20 : 12);
}

export interface Edit {
  /** In ticks of the movie. */
  readonly duration: number;
  /** Where it begins in the media, in ticks of the track; of no meaning for an empty edit. */
  readonly from: number;
  /** 16.16 fixed point. */
  readonly speed: number;
  readonly isEmpty: boolean;
}

/** Entries of an edit list, no more than there is room for in its box. */
export interface EditList {
  readonly count: number;
  at(entry: number): Edit;
}

export function readEditList(file: BoxReader, list: Box): EditList {
  const isLong = file.uint8(list, 0) === 1;
  const entryBytes = isLong ? 20 : 12;
  return {
    count: file.entryCount(list, 4, entryBytes),
    at: (entry) => {
      const at = 8 + entry * entryBytes;
      const from = isLong ? file.uint64(list, at + 8) : file.uint32(list, at + 4);
      return {
        duration: isLong ? file.uint64(list, at) : file.uint32(list, at),
        from,
        speed: file.uint32(list, at + (isLong ? 16 : 8)),
        isEmpty: from === (isLong ? 2 ** 64 : ALL_ONES),
      };
    },
  };
}
