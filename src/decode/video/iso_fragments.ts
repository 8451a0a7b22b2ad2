/** Movie fragments (ISO/IEC 14496-12, 8.8): how long a track is and where its samples end when they stand there. */
import { MediaError } from "../../errors.ts";
import type { Box, BoxReader } from "../iso_boxes.ts";

export interface Fragments {
  /** Where the track ends, in ticks. */
  readonly trackEnd: number;
  readonly samplesEnd: number;
  /** Samples in all runs, at most one for each byte of the file. */
  readonly sampleCount: number;
}

/**
 * The track's movie fragments taken together; null when the file has none.
 * @throws MediaError media_corrupt when the file ends in the middle of one
 */
export function readFragments(
  file: BoxReader,
  topLevel: readonly Box[],
  movieChildren: readonly Box[],
  trackId: number,
): Fragments | null {
  const extendsBox = movieChildren.find((box) => box.type === "mvex");
  if (!extendsBox) return null;
  const defaults = file
    .boxes(extendsBox.start, extendsBox.end)
    .find((box) => box.type === "trex" && file.uint32(box, 4) === trackId);
  const fallback = {
    duration: defaults ? file.uint32(defaults, 12) : 0,
    size: defaults ? file.uint32(defaults, 16) : 0,
  };
  let fragments: Fragments = { trackEnd: 0, samplesEnd: 0, sampleCount: 0 };
  for (const fragment of topLevel.filter((box) => box.type === "moof")) {
    if (fragment.isCut) throw new MediaError("media_corrupt", "the file is cut short in a movie fragment");
    for (const part of file.boxes(fragment.start, fragment.end).filter((box) => box.type === "traf")) {
      fragments = readTrackFragment(file, fragment, part, trackId, fallback, fragments);
    }
  }
  return fragments;
}

function readTrackFragment(
  file: BoxReader,
  fragment: Box,
  part: Box,
  trackId: number,
  fallback: { readonly duration: number; readonly size: number },
  before: Fragments,
): Fragments {
  const header = file.find(part, ["tfhd"]);
  if (!header || file.uint32(header, 4) !== trackId) return before;
  const flags = file.flags(header);
  let at = 8;
  const optional = (flag: number, byteLength: number): number | null => {
    if ((flags & flag) === 0) return null;
    at += byteLength;
    return at - byteLength;
  };
  const base = optional(0x1, 8);
  optional(0x2, 4);
  const durationAt = optional(0x8, 4);
  const sizeAt = optional(0x10, 4);
  const duration = durationAt === null ? fallback.duration : file.uint32(header, durationAt);
  const size = sizeAt === null ? fallback.size : file.uint32(header, sizeAt);

  const time = file.find(part, ["tfdt"]);
  const isLong = time !== undefined && file.uint8(time, 0) === 1;
  const begin = time && (isLong ? file.uint64(time, 4) : file.uint32(time, 4));
  let end = begin ?? before.trackEnd;
  let offset = base === null ? fragment.start - 8 : file.uint64(header, base);
  const origin = offset;
  let { samplesEnd, sampleCount } = before;
  for (const run of file.boxes(part.start, part.end).filter((box) => box.type === "trun")) {
    const measured = measureRun(file, run, { duration, size });
    if (measured.offset !== null) offset = origin + measured.offset;
    offset += measured.bytes;
    end += measured.duration;
    samplesEnd = Math.max(samplesEnd, offset);
    sampleCount = Math.min(sampleCount + measured.count, file.byteLength);
  }
  return { trackEnd: Math.max(before.trackEnd, end), samplesEnd, sampleCount };
}

/** Bytes and ticks of one run of samples; `offset` is where it begins, when it says so. */
function measureRun(
  file: BoxReader,
  run: Box,
  fallback: { readonly duration: number; readonly size: number },
): { offset: number | null; count: number; bytes: number; duration: number } {
  const flags = file.flags(run);
  const offset = flags & 0x1 ? file.int32(run, 8) : null;
  const first = 8 + (flags & 0x1 ? 4 : 0) + (flags & 0x4 ? 4 : 0);
  const hasDuration = (flags & 0x100) !== 0;
  const hasSize = (flags & 0x200) !== 0;
  const fields = [0x100, 0x200, 0x400, 0x800].filter((flag) => flags & flag).length;
  if (fields === 0) {
    const count = file.uint32(run, 4);
    return { offset, count, bytes: count * fallback.size, duration: count * fallback.duration };
  }
  const count = Math.min(file.uint32(run, 4), Math.max(0, Math.floor((run.end - run.start - first) / (fields * 4))));
  let [bytes, duration] = [0, 0];
  for (let sample = 0; sample < count; sample += 1) {
    const at = first + sample * fields * 4;
    duration += hasDuration ? file.uint32(run, at) : fallback.duration;
    bytes += hasSize ? file.uint32(run, at + (hasDuration ? 4 : 0)) : fallback.size;
  }
  return { offset, count, bytes, duration };
}
