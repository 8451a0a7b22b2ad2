/**
 * The samples of an MP4 file's video track with the timestamps that libavformat's `mov` demuxer gives them: read from the tables
 * of ISO/IEC 14496-12, 8.6 and 8.7, without touching a sample.
 */
import { type Box, BoxReader } from "../iso_boxes.ts";
import { readEditList, readTimescale } from "../iso_headers.ts";
import { readSampleSizes } from "./iso_sample_sizes.ts";
import { MOST_PACKETS } from "./packets.ts";
import { rescaled } from "./rational.ts";

/** Samples in the order of decoding; tables of equal length. */
export interface SampleIndex {
  readonly count: number;
  /** Byte in the file at which a sample begins. */
  readonly offsets: Float64Array;
  readonly sizes: Uint32Array;
  /** Timestamps as packets have them, in ticks of the track, with an edit list accounted for. */
  readonly dts: Float64Array;
  readonly pts: Float64Array;
  /** 1 for samples that the file holds for sync samples. */
  readonly sync: Uint8Array;
  /** From which sample on decoding begins, and whose pictures before `firstTime` are not shown. */
  readonly first: number;
  readonly firstTime: number;
  /** Pixels of a picture, as the sample entry states them. */
  readonly width: number;
  readonly height: number;
  readonly boxes: TrackBoxes;
}

/** Where a file keeps what describes the track; all of it is copied as it is. */
export interface TrackBoxes {
  readonly file: BoxReader;
  readonly fileType: Box | undefined;
  readonly movieHeader: Box;
  readonly trackHeader: Box;
  /** Children of the media box, in their order; `mediaInformation` is among them. */
  readonly media: readonly Box[];
  readonly mediaInformation: Box;
  readonly information: readonly Box[];
  readonly sampleTable: Box;
  readonly sampleDescription: Box;
  /** The only entry of the sample description. */
  readonly sampleEntry: Box;
}

/** Offsets of composition times beyond this make libavformat drop the table. */
const MOST_COMPOSITION_OFFSET = 2 ** 28;
const MOST_DELTA = 2 ** 31;
const NORMAL_SPEED = 0x10000;

/**
 * @param trackIndex the video track's position among all tracks
 * @param timescale of the track, ticks a second
 * @returns null for everything whose timestamps or bytes are not plainly told: fragments, several sample descriptions, edits
 *   that do more than cut the beginning, tables that disagree, samples outside of the file
 */
export function readSampleIndex(bytes: Uint8Array, trackIndex: number, timescale: number): SampleIndex | null {
  const file = new BoxReader(bytes);
  const topLevel = file.boxes(0, bytes.byteLength);
  const movie = topLevel.find((box) => box.type === "moov");
  const movieBoxes = movie ? file.boxes(movie.start, movie.end) : [];
  const movieHeader = movieBoxes.find((box) => box.type === "mvhd");
  const track = movieBoxes.filter((box) => box.type === "trak")[trackIndex];
  if (!movieHeader || !track || movieBoxes.some((box) => box.type === "mvex" || box.type === "cmov")) return null;
  const fileType = topLevel.find((box) => box.type === "ftyp");
  const boxes = findTrackBoxes(file, track, movieHeader, fileType);
  const table = boxes && readTables(boxes);
  if (!table) return null;
  const edit = readEdit(file, track, timescale, readTimescale(file, movieHeader));
  const samples = edit && corrected(table, edit);
  const { sampleEntry } = boxes;
  // A VisualSampleEntry's reserved fields come first (12.1.3).
  return samples && { ...samples, width: file.uint16(sampleEntry, 24), height: file.uint16(sampleEntry, 26), boxes };
}

function only(boxes: readonly Box[], ...types: string[]): Box | undefined {
  const found = boxes.filter((box) => types.includes(box.type));
  return found.length === 1 && !found[0]?.isCut ? found[0] : undefined;
}

/** Where boxes belong (6.2.3). libavformat reads them wherever they stand, and of two the later one. */
const PLACES: ReadonlyMap<string, string> = new Map([
  ...["tkhd", "edts", "mdia"].map((type) => [type, "trak"] as const),
  ["elst", "edts"],
  ...["mdhd", "minf"].map((type) => [type, "mdia"] as const),
  ["stbl", "minf"],
  ...["stsd", "stts", "ctts", "stss", "stsc", "stsz", "stz2", "stco", "co64"].map((type) => [type, "stbl"] as const),
]);
const CONTAINERS: ReadonlySet<string> = new Set(PLACES.values()).union(new Set(["dinf", "udta", "tref", "meta"]));

/** libavformat reads no boxes that lie deeper than this (`mov_read_default` in mov.c), and the stack has an end. */
const DEEPEST_BOX = 10;

/** Whether the boxes of a track that matter stand where they belong, each at most once, and none lies too deep. */
function isOrderly(file: BoxReader, container: Box, seen = new Set<string>(), depth = 0): boolean {
  if (depth > DEEPEST_BOX) return false;
  return file.boxes(container.start, container.end).every((box) => {
    const place = PLACES.get(box.type);
    if (box.type === "trak" || (place !== undefined && (place !== container.type || seen.has(box.type)))) return false;
    seen.add(box.type);
    return !CONTAINERS.has(box.type) || isOrderly(file, box, seen, depth + 1);
  });
}

function findTrackBoxes(file: BoxReader, track: Box, movieHeader: Box, fileType: Box | undefined): TrackBoxes | null {
  const children = (box: Box | undefined): Box[] => (box ? file.boxes(box.start, box.end) : []);
  if (!isOrderly(file, track)) return null;
  const trackBoxes = children(track);
  const trackHeader = only(trackBoxes, "tkhd");
  const media = children(only(trackBoxes, "mdia"));
  const mediaInformation = only(media, "minf");
  const information = children(mediaInformation);
  const sampleTable = only(information, "stbl");
  const sampleDescription = only(children(sampleTable), "stsd");
  if (!trackHeader || !mediaInformation || !sampleTable || !sampleDescription) return null;
  const entries = file.boxes(sampleDescription.start + 8, sampleDescription.end);
  const [sampleEntry] = entries;
  if (!sampleEntry || entries.length !== 1 || file.uint32(sampleDescription, 4) !== 1) return null;
  return {
    file,
    fileType,
    movieHeader,
    trackHeader,
    media,
    mediaInformation,
    information,
    sampleTable,
    sampleDescription,
    sampleEntry,
  };
}

type Tables = Pick<SampleIndex, "count" | "offsets" | "sizes" | "dts" | "pts" | "sync">;

function readTables({ file, sampleTable }: TrackBoxes): Tables | null {
  const boxes = file.boxes(sampleTable.start, sampleTable.end);
  const [sizeBox, times] = [only(boxes, "stsz", "stz2"), only(boxes, "stts")];
  const [runs, chunks] = [only(boxes, "stsc"), only(boxes, "stco", "co64")];
  if (!sizeBox || !times || !runs || !chunks) return null;
  // Partial sync samples and groups of random access points are sync samples for libavformat, too.
  if (boxes.some((box) => box.type === "stps" || box.type === "sbgp")) return null;
  const stored = readSampleSizes(file, sizeBox);
  const { count } = stored;
  if (count === 0 || count > MOST_PACKETS || count !== file.uint32(sizeBox, 8)) return null;
  const sizes = Uint32Array.from({ length: count }, (_, index) => stored.equal || stored.at(index));
  const dts = readDecodingTimes(file, times, count);
  const offsets = readOffsets(file, runs, chunks, sizes);
  const pts = dts && readPresentationTimes(file, boxes, dts);
  const sync = readSyncSamples(file, boxes, count);
  return dts && offsets && pts && sync && { count, offsets, sizes, dts, pts, sync };
}

/** How many entries a table has; null when it claims more than there are in it. */
function entriesOf(file: BoxReader, table: Box, entryBytes: number): number | null {
  const count = file.entryCount(table, 4, entryBytes);
  return count === file.uint32(table, 4) ? count : null;
}

function readDecodingTimes(file: BoxReader, times: Box, count: number): Float64Array | null {
  const dts = new Float64Array(count);
  const runCount = entriesOf(file, times, 8);
  if (runCount === null) return null;
  let [sample, time] = [0, 0];
  for (let run = 0; run < runCount; run += 1) {
    const [samples, delta] = [file.uint32(times, 8 + run * 8), file.uint32(times, 12 + run * 8)];
    if (sample + samples > count || delta >= MOST_DELTA) return null;
    for (const end = sample + samples; sample < end; sample += 1) {
      dts[sample] = time;
      time += delta;
    }
  }
  return sample === count && Number.isSafeInteger(time) ? dts : null;
}

/**
 * Where each sample begins: back to back in its chunk. Null when one is empty or not wholly in the file, or when samples have
 * more bytes together than the file and therefore overlap: what is copied of a clip stays below its size.
 */
function readOffsets(file: BoxReader, runs: Box, chunks: Box, sizes: Uint32Array): Float64Array | null {
  const offsets = new Float64Array(sizes.length);
  const isLong = chunks.type === "co64";
  const chunkCount = entriesOf(file, chunks, isLong ? 8 : 4);
  const runCount = entriesOf(file, runs, 12);
  if (chunkCount === null || !runCount || file.uint32(runs, 8) !== 1) return null;
  let [sample, total] = [0, 0];
  for (let chunk = 0, run = 0; chunk < chunkCount; chunk += 1) {
    while (run + 1 < runCount && file.uint32(runs, 8 + (run + 1) * 12) <= chunk + 1) run += 1;
    const inChunk = file.uint32(runs, 12 + run * 12);
    if (inChunk > sizes.length - sample || file.uint32(runs, 16 + run * 12) !== 1) return null;
    let offset = isLong ? file.uint64(chunks, 8 + chunk * 8) : file.uint32(chunks, 8 + chunk * 4);
    for (const end = sample + inChunk; sample < end; sample += 1) {
      const size = sizes[sample] ?? 0;
      if (size === 0 || offset + size > file.byteLength) return null;
      offsets[sample] = offset;
      offset += size;
      total += size;
    }
    if (total > file.byteLength) return null;
  }
  return sample === sizes.length ? offsets : null;
}

function readPresentationTimes(file: BoxReader, boxes: readonly Box[], dts: Float64Array): Float64Array | null {
  const pts = dts.slice();
  const offsets = boxes.filter((box) => box.type === "ctts");
  const [table] = offsets;
  if (!table) return pts;
  if (offsets.length > 1 || table.isCut) return null;
  const runCount = entriesOf(file, table, 8);
  if (runCount === null) return null;
  let sample = 0;
  for (let run = 0; run < runCount; run += 1) {
    const [samples, offset] = [file.uint32(table, 8 + run * 8), file.int32(table, 12 + run * 8)];
    if (sample + samples > pts.length || Math.abs(offset) >= MOST_COMPOSITION_OFFSET) return null;
    for (const end = sample + samples; sample < end; sample += 1) pts[sample] = (dts[sample] ?? 0) + offset;
  }
  return sample === pts.length ? pts : null;
}

/** Without a table every sample is a sync sample (8.6.2). */
function readSyncSamples(file: BoxReader, boxes: readonly Box[], count: number): Uint8Array | null {
  const tables = boxes.filter((box) => box.type === "stss");
  const [table] = tables;
  const sync = new Uint8Array(count);
  if (!table) return sync.fill(1);
  if (tables.length > 1 || table.isCut) return null;
  const entries = entriesOf(file, table, 4);
  if (entries === null) return null;
  let before = 0;
  for (let entry = 0; entry < entries; entry += 1) {
    const sample = file.uint32(table, 8 + entry * 4);
    if (sample <= before || sample > count) return null;
    sync[sample - 1] = 1;
    before = sample;
  }
  return sync;
}

/** The part of the media that is shown, and how much later, in its ticks; null without an edit list. */
interface ShownPart {
  readonly shown: { readonly from: number; readonly to: number; readonly delay: number } | null;
}

/** The edit list (8.6.6): none, or one entry at normal speed, perhaps with an empty one before it. */
function readEdit(file: BoxReader, track: Box, timescale: number, movieTimescale: number): ShownPart | null {
  const list = file.find(track, ["edts", "elst"]);
  if (!list) return { shown: null };
  const { count, at } = readEditList(file, list);
  if (list.isCut || count !== file.uint32(list, 4) || count > 2 || movieTimescale === 0) return null;
  const entries = Array.from({ length: count }, (_, entry) => at(entry));
  const [empty, edit] = entries[0]?.isEmpty ? entries : [undefined, ...entries];
  const isPlain = edit && edit.from < MOST_DELTA && edit.duration > 0 && edit.speed === NORMAL_SPEED;
  if (!isPlain || entries.length > (empty ? 2 : 1)) return null;
  const toTicks = (duration: number): number => rescaled(duration, timescale, movieTimescale);
  return {
    shown: { from: edit.from, to: edit.from + toTicks(edit.duration), delay: empty ? toTicks(empty.duration) : 0 },
  };
}

/**
 * Timestamps as libavformat corrects them for an edit (`mov_fix_index` in mov.c). Packets begin with the last sync sample that is
 * neither decoded nor shown behind the edit's beginning; what is shown before that is decoded only. The earliest picture shown
 * is then at 0, or at the end of an empty edit; where the first packet of a shown one is decoded even later than that, it is
 * decoded there instead.
 *
 * @returns null for an edit that ends before the last picture, or where a picture is shown that is decoded before the packets
 */
function corrected(tables: Tables, { shown }: ShownPart): Omit<SampleIndex, "boxes" | "width" | "height"> | null {
  const { count, dts, pts, sync } = tables;
  if (!shown) return { ...tables, first: 0, firstTime: Number.NEGATIVE_INFINITY };
  let [first, firstShown, earliest] = [0, -1, Number.POSITIVE_INFINITY];
  let [isShownFirst, hasHidden] = [false, false];
  for (let sample = 0; sample < count; sample += 1) {
    const [decoded, presented] = [dts[sample] ?? 0, pts[sample] ?? 0];
    if (presented >= shown.to) return null;
    isShownFirst ||= presented < decoded;
    hasHidden ||= presented < shown.from;
    if (sync[sample] === 1 && decoded <= shown.from && presented <= shown.from) first = sample;
    if (presented < shown.from) continue;
    if (firstShown < 0) firstShown = sample;
    earliest = Math.min(earliest, presented);
  }
  // With negative offsets the search for the sync sample has other rules, which do not matter when all is shown.
  if (firstShown < first || (isShownFirst && hasHidden)) return null;
  const shift = Math.max(earliest, dts[firstShown] ?? 0) - shown.delay;
  for (let sample = 0; sample < count; sample += 1) {
    dts[sample] = (dts[sample] ?? 0) - shift;
    pts[sample] = (pts[sample] ?? 0) - shift;
  }
  return { ...tables, first, firstTime: shown.from - shift };
}
