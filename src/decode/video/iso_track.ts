/**
 * What libavformat's `mov` demuxer says of the default video track of an MP4 or QuickTime file, from its boxes alone (ISO/IEC
 * 14496-12). No process is started for it, and it is what ffprobe says, tick for tick: the stream's duration is the smaller of
 * the media header's, the sample table's and the edit list's; the frame rate is exact when all samples last equally long.
 */
import { MediaError } from "../../errors.ts";
import { type Box, BoxReader } from "../iso_boxes.ts";
import { ALL_ONES, readEditList, readTimescale } from "../iso_headers.ts";
import { type Matrix, NOT_TURNED, product, type Turn, turnOfMatrix } from "./display_matrix.ts";
import { readFragments } from "./iso_fragments.ts";
import { readSampleSizes, type SampleSizes } from "./iso_sample_sizes.ts";
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
  /** Samples by the time-to-sample table; fragments are not counted, as libavformat does not. */
  readonly sampleCount: number;
  /** Samples that have a size, fragments included: no more frames can come out, whatever other tables say. */
  readonly storedSamples: number;
  /** How the display matrix wants the pictures to be shown. */
  readonly turn: Turn;
}

/** The time-to-sample table, taken together. */
interface SampleTimes {
  readonly sampleCount: number;
  readonly ticks: number;
  /** Ticks that each sample lasts, the last one perhaps excepted; null when they differ or there are none. */
  readonly sampleDuration: number | null;
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
  readonly times: SampleTimes;
  readonly storedSamples: number;
  readonly matrix: Matrix | null;
  readonly sampleBytes: number;
  /** Where the last of the table's samples ends in the file. */
  readonly samplesEnd: number;
}

const NO_TIMES: SampleTimes = { sampleCount: 0, ticks: 0, sampleDuration: null };
const HEADER_MISSING = "the movie header is missing or damaged";

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
  if (!movie || movie.isCut) throw new MediaError("media_corrupt", `the file is cut short: ${HEADER_MISSING}`);
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
  const { sampleCount, sampleDuration } = track.times;
  return {
    index: track.index,
    width: track.sampleEntry?.width ?? 0,
    height: track.sampleEntry?.height ?? 0,
    timescale: track.timescale,
    durationTicks: Math.max(tableDuration(track), fragments?.trackEnd ?? 0),
    frameRate: sampleDuration === null ? null : reduced(track.timescale, sampleDuration),
    sampleCount,
    storedSamples: track.storedSamples + (fragments?.sampleCount ?? 0),
    turn: track.matrix ? turnOfMatrix(product(track.matrix, readMovieMatrix(file, children))) : NOT_TURNED,
  };
}

/** Duration of the samples in the movie header's table, as an edit list shortens it. */
function tableDuration(track: Track): number {
  const sampled = track.times.ticks;
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
  return header ? readTimescale(file, header) : 0;
}

function readMovieMatrix(file: BoxReader, movieChildren: readonly Box[]): Matrix | null {
  const header = movieChildren.find((box) => box.type === "mvhd");
  return header ? readMatrix(file, header, file.uint8(header, 0) === 1 ? 48 : 36) : null;
}

/** The upper left of a transformation matrix (ISO/IEC 14496-12, 6.2.2): rows of three, the third column not of interest. */
function readMatrix(file: BoxReader, header: Box, at: number): Matrix {
  const entry = (index: number): number => file.int32(header, at + index * 4);
  return [entry(0), entry(1), entry(3), entry(4)];
}

function readTrack(file: BoxReader, trak: Box, index: number, movieTimescale: number): Track {
  const find = (path: string): Box | undefined => file.find(trak, path.split("/"));
  const trackHeader = find("tkhd");
  const mediaHeader = find("mdia/mdhd");
  const handler = find("mdia/hdlr");
  const isLong = mediaHeader !== undefined && file.uint8(mediaHeader, 0) === 1;
  const timescale = (mediaHeader && readTimescale(file, mediaHeader)) || movieTimescale || 1;
  const mediaDuration = mediaHeader ? readDuration(file, mediaHeader, isLong) : 0;
  const editList = find("edts/elst");
  const table = find("mdia/minf/stbl");
  return {
    index,
    id: trackHeader ? file.uint32(trackHeader, file.uint8(trackHeader, 0) === 1 ? 20 : 12) : 0,
    enabled: trackHeader !== undefined && (file.uint8(trackHeader, 3) & 1) === 1,
    isVideo: handler !== undefined && file.text(handler, 8, 4) === "vide",
    chapterTracks: readChapterTracks(file, find("tref/chap")),
    matrix: trackHeader ? readMatrix(file, trackHeader, file.uint8(trackHeader, 0) === 1 ? 52 : 40) : null,
    timescale,
    mediaDuration,
    editedDuration: editList && movieTimescale > 0 ? sumOfEdits(file, editList, timescale, movieTimescale) : null,
    ...readSampleTable(file, table),
  };
}

/** Identifiers in a track reference; a film names one or two (titles, pictures). */
function readChapterTracks(file: BoxReader, reference: Box | undefined): number[] {
  if (!reference) return [];
  const count = Math.min(16, Math.floor((reference.end - reference.start) / 4));
  return Array.from({ length: count }, (_, index) => file.uint32(reference, index * 4));
}

function readDuration(file: BoxReader, mediaHeader: Box, isLong: boolean): number {
  const duration = isLong ? file.uint64(mediaHeader, 24) : file.uint32(mediaHeader, 16);
  return duration >= (isLong ? 2 ** 64 : ALL_ONES) ? 0 : duration;
}

/** Sum of an edit list's durations, empty edits included, each rescaled to media ticks. */
function sumOfEdits(file: BoxReader, box: Box, timescale: number, movieTimescale: number): number {
  const edits = readEditList(file, box);
  let sum = 0;
  for (let entry = 0; entry < edits.count; entry += 1) {
    sum += rescaled(edits.at(entry).duration, timescale, movieTimescale);
  }
  return sum;
}

type SampleTable = Pick<Track, "sampleEntry" | "times" | "storedSamples" | "sampleBytes" | "samplesEnd">;

function readSampleTable(file: BoxReader, table: Box | undefined): SampleTable {
  if (!table) return { sampleEntry: null, times: NO_TIMES, storedSamples: 0, sampleBytes: 0, samplesEnd: 0 };
  const boxes = file.boxes(table.start, table.end);
  const find = (...types: string[]): Box | undefined => boxes.find((box) => types.includes(box.type));
  const times = find("stts");
  const description = find("stsd");
  const entry = description && file.boxes(description.start + 8, description.end)[0];
  const sizes = readSampleSizes(file, find("stsz", "stz2"));
  return {
    // VisualSampleEntry: reserved, data reference index and pre-defined fields come first (24 bytes).
    sampleEntry: entry ? { format: entry.type, width: file.uint16(entry, 24), height: file.uint16(entry, 26) } : null,
    times: times ? readSampleTimes(file, times) : NO_TIMES,
    storedSamples: sizes.count,
    ...measureSamples(file, sizes, find("stsc"), find("stco", "co64")),
  };
}

function readSampleTimes(file: BoxReader, table: Box): SampleTimes {
  const runCount = file.entryCount(table, 4, 8);
  let [sampleCount, ticks] = [0, 0];
  for (let run = 0; run < runCount; run += 1) {
    const samples = file.uint32(table, 8 + run * 8);
    sampleCount += samples;
    ticks += samples * file.uint32(table, 12 + run * 8);
  }
  const sampleDuration = runCount > 0 ? file.uint32(table, 12) : 0;
  const isConstant = runCount === 1 || (runCount === 2 && file.uint32(table, 16) === 1);
  return { sampleCount, ticks, sampleDuration: isConstant && sampleDuration > 0 ? sampleDuration : null };
}

/** Bytes of all samples, and where the last of them ends: chunk by chunk, since samples lie back to back in their chunk. */
function measureSamples(
  file: BoxReader,
  sizes: SampleSizes,
  chunkRuns: Box | undefined,
  chunks: Box | undefined,
): Pick<Track, "sampleBytes" | "samplesEnd"> {
  if (!chunkRuns || !chunks) return { sampleBytes: 0, samplesEnd: 0 };
  const offsetBytes = chunks.type === "co64" ? 8 : 4;
  const chunkCount = file.entryCount(chunks, 4, offsetBytes);
  const runCount = file.entryCount(chunkRuns, 4, 12);
  const total = { sampleBytes: 0, samplesEnd: 0 };
  let sample = 0;
  for (let chunk = 0, run = 0; chunk < chunkCount && sample < sizes.count; chunk += 1) {
    // A run holds until the chunk, counted from 1, with which the next one begins.
    while (run + 1 < runCount && file.uint32(chunkRuns, 8 + (run + 1) * 12) <= chunk + 1) run += 1;
    const inChunk = Math.min(file.uint32(chunkRuns, 12 + run * 12), sizes.count - sample);
    let chunkBytes = inChunk * sizes.equal;
    for (let i = 0; sizes.equal === 0 && i < inChunk; i += 1) chunkBytes += sizes.at(sample + i);
    const at = 8 + chunk * offsetBytes;
    const offset = offsetBytes === 8 ? file.uint64(chunks, at) : file.uint32(chunks, at);
    if (inChunk > 0) total.samplesEnd = Math.max(total.samplesEnd, offset + chunkBytes);
    total.sampleBytes += chunkBytes;
    sample += inChunk;
  }
  return total;
}
