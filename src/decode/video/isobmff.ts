/**
 * What libavformat's `mov` demuxer says of the default video track of an MP4 or QuickTime file, from its boxes alone (ISO/IEC
 * 14496-12). No process is started for it, and it is what ffprobe says, tick for tick: the stream's duration is the smaller of
 * the media header's, the sample table's and the edit list's; the frame rate is exact when all samples last equally long.
 */
import { MediaError } from "../../errors.ts";
import { type Rational, reduced, rescaled } from "./rational.ts";

/** A video track as its boxes describe it. */
export interface IsoVideoTrack {
  /** Position among all tracks of the file, which is the stream's index. */
  readonly index: number;
  readonly width: number;
  readonly height: number;
  /** Ticks per second. */
  readonly timescale: number;
  readonly durationTicks: number;
  /** Null when samples differ in duration or their durations stand in fragments. */
  readonly frameRate: Rational | null;
  /** Samples in the movie header's table; fragments are not counted, as libavformat does not. */
  readonly sampleCount: number;
}

interface Box {
  readonly type: string;
  /** First byte of the content, and the byte behind the last. */
  readonly start: number;
  readonly end: number;
}

interface TimeRun {
  readonly count: number;
  readonly duration: number;
}

interface Track {
  readonly index: number;
  readonly id: number;
  readonly enabled: boolean;
  readonly isVideo: boolean;
  /** Identifiers of tracks that this one uses as chapters. */
  readonly chapterTracks: readonly number[];
  readonly timescale: number;
  readonly mediaDuration: number;
  /** Sum of the edit list's entries in media ticks; null without an edit list. */
  readonly editedDuration: number | null;
  readonly sampleEntry: { readonly format: string; readonly width: number; readonly height: number } | null;
  readonly runs: readonly TimeRun[];
  readonly sampleBytes: number;
  /** Where the last of the table's samples ends in the file. */
  readonly samplesEnd: number;
}

const HEADER_MISSING = "the movie header is missing or damaged";
/** A duration that the writer did not know. */
const ALL_ONES = 0xffffffff;

/**
 * The default video track.
 * @returns null when the header is compressed and has to be read by ffmpeg
 * @throws MediaError no_video_stream; media_corrupt when there is no movie header or the file is shorter than its samples;
 *   media_unsupported for encrypted video
 */
export function readIsoVideoTrack(bytes: Uint8Array): IsoVideoTrack | null {
  const file = new BoxReader(bytes);
  const topLevel = file.boxes(0, bytes.byteLength);
  const movie = topLevel.find((box) => box.type === "moov");
  if (!movie || movie.end > bytes.byteLength) throw new MediaError("media_corrupt", `the file is cut short: ${HEADER_MISSING}`);
  const children = file.boxes(movie.start, movie.end);
  if (children.some((box) => box.type === "cmov")) return null;

  const movieTimescale = readMovieTimescale(file, children);
  const tracks = children
    .filter((box) => box.type === "trak")
    .map((box, index) => readTrack(file, box, index, movieTimescale));
  const track = defaultVideoTrack(tracks);
  if (!track) throw new MediaError("no_video_stream", "the container holds no video");
  if (track.sampleEntry?.format === "encv") throw new MediaError("media_unsupported", "the video is encrypted");

  const fragments = readFragments(file, topLevel, children, track.id);
  if (Math.max(track.samplesEnd, fragments?.samplesEnd ?? 0) > bytes.byteLength) {
    throw new MediaError("media_corrupt", "the file is shorter than its own sample table says");
  }
  const isConstant = track.runs.length === 1 || (track.runs.length === 2 && track.runs[1]?.count === 1);
  const frameDuration = track.runs[0]?.duration ?? 0;
  return {
    index: track.index,
    width: track.sampleEntry?.width ?? 0,
    height: track.sampleEntry?.height ?? 0,
    timescale: track.timescale,
    durationTicks: Math.max(tableDuration(track), fragments?.trackEnd ?? 0),
    frameRate: isConstant && frameDuration > 0 ? reduced(track.timescale, frameDuration) : null,
    sampleCount: track.runs.reduce((sum, run) => sum + run.count, 0),
  };
}

/** Duration of the samples in the movie header's table, as an edit list shortens it. */
function tableDuration(track: Track): number {
  const sampled = track.runs.reduce((sum, run) => sum + run.count * run.duration, 0);
  // A header without a duration of its own: the samples tell.
  const media = sampled === 0 ? track.mediaDuration : Math.min(track.mediaDuration || sampled, sampled);
  const edited = sampled === 0 ? null : track.editedDuration;
  return edited === null || edited === 0 ? media : Math.min(media, edited);
}

/**
 * The track that libavformat holds for the default: one that is enabled, then the one of the higher bit rate, then the
 * first. Pictures of chapters are no video.
 */
function defaultVideoTrack(tracks: readonly Track[]): Track | undefined {
  const chapters = new Set(tracks.flatMap((track) => track.chapterTracks));
  const bitRate = (track: Track): number => track.sampleBytes * (track.timescale / Math.max(1, tableDuration(track)));
  return tracks
    .filter((track) => track.isVideo && track.sampleEntry !== null && !chapters.has(track.id))
    .sort((a, b) => Number(b.enabled) - Number(a.enabled) || bitRate(b) - bitRate(a) || a.index - b.index)[0];
}

function readMovieTimescale(file: BoxReader, movieChildren: readonly Box[]): number {
  const header = movieChildren.find((box) => box.type === "mvhd");
  if (!header) return 0;
  return file.uint32(header, file.uint8(header, 0) === 1 ? 20 : 12);
}

function readTrack(file: BoxReader, trak: Box, index: number, movieTimescale: number): Track {
  const find = (path: string): Box | undefined => file.find(trak, path.split("/"));
  const trackHeader = find("tkhd");
  const mediaHeader = find("mdia/mdhd");
  const handler = find("mdia/hdlr");
  const isLong = mediaHeader !== undefined && file.uint8(mediaHeader, 0) === 1;
  const timescale = (mediaHeader && file.uint32(mediaHeader, isLong ? 20 : 12)) || movieTimescale || 1;
  const mediaDuration = mediaHeader ? readDuration(file, mediaHeader, isLong) : 0;
  const chapters = find("tref/chap");
  const editList = find("edts/elst");
  const table = find("mdia/minf/stbl");
  return {
    index,
    id: trackHeader ? file.uint32(trackHeader, file.uint8(trackHeader, 0) === 1 ? 20 : 12) : 0,
    enabled: trackHeader !== undefined && (file.uint8(trackHeader, 3) & 1) === 1,
    isVideo: handler !== undefined && file.text(handler, 8, 4) === "vide",
    chapterTracks: chapters ? file.uint32List(chapters, 0, Math.floor((chapters.end - chapters.start) / 4)) : [],
    timescale,
    mediaDuration,
    editedDuration: editList && movieTimescale > 0 ? readEditList(file, editList, timescale, movieTimescale) : null,
    ...readSampleTable(file, table),
  };
}

function readDuration(file: BoxReader, mediaHeader: Box, isLong: boolean): number {
  const duration = file.unsigned(mediaHeader, isLong ? 24 : 16, isLong);
  return duration >= (isLong ? 2 ** 64 : ALL_ONES) ? 0 : duration;
}

/** Sum of an edit list's durations, empty edits included, each rescaled to media ticks. */
function readEditList(file: BoxReader, box: Box, timescale: number, movieTimescale: number): number {
  const isLong = file.uint8(box, 0) === 1;
  const entryBytes = isLong ? 20 : 12;
  const count = file.entryCount(box, 4, entryBytes);
  let sum = 0;
  for (let entry = 0; entry < count; entry += 1) {
    const at = 8 + entry * entryBytes;
    const duration = file.unsigned(box, at, isLong);
    sum += rescaled(duration, timescale, movieTimescale);
  }
  return sum;
}

type SampleTable = Pick<Track, "sampleEntry" | "runs" | "sampleBytes" | "samplesEnd">;

function readSampleTable(file: BoxReader, table: Box | undefined): SampleTable {
  if (!table) return { sampleEntry: null, runs: [], sampleBytes: 0, samplesEnd: 0 };
  const boxes = file.boxes(table.start, table.end);
  const find = (...types: string[]): Box | undefined => boxes.find((box) => types.includes(box.type));
  const times = find("stts");
  const description = find("stsd");
  const entry = description && file.boxes(description.start + 8, description.end)[0];
  const runs: TimeRun[] = [];
  const runCount = times ? file.entryCount(times, 4, 8) : 0;
  for (let run = 0; times && run < runCount; run += 1) {
    runs.push({ count: file.uint32(times, 8 + run * 8), duration: file.uint32(times, 12 + run * 8) });
  }
  return {
    // VisualSampleEntry: reserved, data reference index and pre-defined fields come first (24 bytes).
    sampleEntry: entry ? { format: entry.type, width: file.uint16(entry, 24), height: file.uint16(entry, 26) } : null,
    runs,
    ...measureSamples(file, find("stsz"), find("stsc"), find("stco", "co64")),
  };
}

/** Bytes of all samples, and where the last of them ends: chunk by chunk, since samples lie back to back in their chunk. */
function measureSamples(
  file: BoxReader,
  sizes: Box | undefined,
  chunkRuns: Box | undefined,
  chunks: Box | undefined,
): Pick<Track, "sampleBytes" | "samplesEnd"> {
  if (!sizes || !chunkRuns || !chunks) return { sampleBytes: 0, samplesEnd: 0 };
  const equalSize = file.uint32(sizes, 4);
  const sampleCount = equalSize > 0 ? file.uint32(sizes, 8) : file.entryCount(sizes, 8, 4);
  const offsetBytes = chunks.type === "co64" ? 8 : 4;
  const chunkCount = file.entryCount(chunks, 4, offsetBytes);
  const runCount = file.entryCount(chunkRuns, 4, 12);
  const total = { sampleBytes: 0, samplesEnd: 0 };
  let sample = 0;
  for (let chunk = 0, run = 0; chunk < chunkCount && sample < sampleCount; chunk += 1) {
    // A run holds until the chunk, counted from 1, with which the next one begins.
    while (run + 1 < runCount && file.uint32(chunkRuns, 8 + (run + 1) * 12) <= chunk + 1) run += 1;
    const inChunk = Math.min(file.uint32(chunkRuns, 12 + run * 12), sampleCount - sample);
    let chunkBytes = inChunk * equalSize;
    for (let i = 0; equalSize === 0 && i < inChunk; i += 1) chunkBytes += file.uint32(sizes, 12 + (sample + i) * 4);
    const at = 8 + chunk * offsetBytes;
    const offset = file.unsigned(chunks, at, offsetBytes === 8);
    if (inChunk > 0) total.samplesEnd = Math.max(total.samplesEnd, offset + chunkBytes);
    total.sampleBytes += chunkBytes;
    sample += inChunk;
  }
  return total;
}

interface Fragments {
  /** Where the track ends, in ticks. */
  readonly trackEnd: number;
  readonly samplesEnd: number;
}

/** The track's movie fragments taken together; null when there are none. */
function readFragments(
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
  let fragments: Fragments = { trackEnd: 0, samplesEnd: 0 };
  for (const fragment of topLevel.filter((box) => box.type === "moof")) {
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
  let end = time ? file.unsigned(time, 4, file.uint8(time, 0) === 1) : before.trackEnd;
  let offset = base === null ? fragment.start - 8 : file.unsigned(header, base, true);
  const origin = offset;
  let samplesEnd = before.samplesEnd;
  for (const run of file.boxes(part.start, part.end).filter((box) => box.type === "trun")) {
    const measured = measureRun(file, run, { duration, size });
    if (measured.offset !== null) offset = origin + measured.offset;
    offset += measured.bytes;
    end += measured.duration;
    samplesEnd = Math.max(samplesEnd, offset);
  }
  return { trackEnd: Math.max(before.trackEnd, end), samplesEnd };
}

/** Bytes and ticks of one run of samples; `offset` is where it begins, when it says so. */
function measureRun(
  file: BoxReader,
  run: Box,
  fallback: { readonly duration: number; readonly size: number },
): { offset: number | null; bytes: number; duration: number } {
  const flags = file.flags(run);
  const offset = flags & 0x1 ? file.uint32(run, 8) | 0 : null;
  const first = 8 + (flags & 0x1 ? 4 : 0) + (flags & 0x4 ? 4 : 0);
  const hasDuration = (flags & 0x100) !== 0;
  const hasSize = (flags & 0x200) !== 0;
  const fields = [0x100, 0x200, 0x400, 0x800].filter((flag) => flags & flag).length;
  if (fields === 0) {
    const count = file.uint32(run, 4);
    return { offset, bytes: count * fallback.size, duration: count * fallback.duration };
  }
  const count = Math.min(file.uint32(run, 4), Math.max(0, Math.floor((run.end - run.start - first) / (fields * 4))));
  let [bytes, duration] = [0, 0];
  for (let sample = 0; sample < count; sample += 1) {
    const at = first + sample * fields * 4;
    duration += hasDuration ? file.uint32(run, at) : fallback.duration;
    bytes += hasSize ? file.uint32(run, at + (hasDuration ? 4 : 0)) : fallback.size;
  }
  return { offset, bytes, duration };
}

/** Numbers out of boxes. Reading past the end of the file gives zeros: what is cut off is found by the sample table. */
class BoxReader {
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Boxes that begin from `start` up to `end`. An impossible size ends the list; a box may say that it ends later. */
  boxes(start: number, end: number): Box[] {
    const found: Box[] = [];
    const limit = Math.min(end, this.#view.byteLength);
    for (let at = start; at + 8 <= limit; ) {
      const size = this.#uint32(at);
      const headerBytes = size === 1 ? 16 : 8;
      const whole = size === 1 ? this.#uint32(at + 8) * 2 ** 32 + this.#uint32(at + 12) : size || limit - at;
      if (whole < headerBytes) break;
      found.push({ type: this.#latin1(at + 4, 4), start: at + headerBytes, end: at + whole });
      at += whole;
    }
    return found;
  }

  /** The first box down a path of types. */
  find(parent: Box, path: readonly string[]): Box | undefined {
    let box: Box | undefined = parent;
    for (const type of path) {
      if (!box) return undefined;
      box = this.boxes(box.start, box.end).find((child) => child.type === type);
    }
    return box;
  }

  uint8(box: Box, at: number): number {
    const position = box.start + at;
    return position < this.#view.byteLength ? this.#view.getUint8(position) : 0;
  }

  uint16(box: Box, at: number): number {
    return this.uint8(box, at) * 256 + this.uint8(box, at + 1);
  }

  uint32(box: Box, at: number): number {
    return this.#uint32(box.start + at);
  }

  /** A number of 32 or, when `isLong`, 64 bits; inexact from 2^53. */
  unsigned(box: Box, at: number, isLong: boolean): number {
    return isLong ? this.uint32(box, at) * 2 ** 32 + this.uint32(box, at + 4) : this.uint32(box, at);
  }

  /** The 24 flag bits behind a full box's version. */
  flags(box: Box): number {
    return this.uint32(box, 0) & 0xffffff;
  }

  uint32List(box: Box, at: number, count: number): number[] {
    return Array.from({ length: count }, (_, index) => this.uint32(box, at + index * 4));
  }

  /** A count stored at `at` with entries behind it, no more than fit into the box and the file. */
  entryCount(box: Box, at: number, entryBytes: number): number {
    const room = Math.min(box.end, this.#view.byteLength) - box.start - at - 4;
    return Math.min(this.uint32(box, at), Math.max(0, Math.floor(room / entryBytes)));
  }

  text(box: Box, at: number, length: number): string {
    return this.#latin1(box.start + at, length);
  }

  #uint32(position: number): number {
    return position + 4 <= this.#view.byteLength ? this.#view.getUint32(position) : 0;
  }

  #latin1(position: number, length: number): string {
    const end = Math.min(position + length, this.#view.byteLength);
    let text = "";
    for (let at = position; at < end; at += 1) text += String.fromCharCode(this.#view.getUint8(at));
    return text;
  }
}
