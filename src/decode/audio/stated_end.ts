/**
 * Whether a file of sound, or of a clip, ends before its own bytes say that its sound does: a download that broke off. Only what
 * is sound is looked at, so files may lack what comes behind it, and may have anything behind it. What was written to a pipe
 * states no length, or one that stands for none, and is whole as it is.
 */
import { ByteReader, HeaderEndsEarly, latin1 } from "../byte_reader.ts";
import { segmentEnd } from "../ebml.ts";
import { BoxReader } from "../iso_boxes.ts";
import type { Demuxer } from "../sniff.ts";
import { UNKNOWN_SIZE } from "../unknown_size.ts";
import { isFlacCut } from "./flac_frames.ts";
import { isMp3Cut } from "./mp3_frames.ts";
import { readOggPages } from "./ogg_pages.ts";

/** Some writers of WAV count the header in, which has 44 bytes where it is shortest: that much may be missing. */
const WAV_HEADER_BYTES = 44;
/** Many more than files of sound have; whoever has more gets no answer. */
const MOST_CHUNKS = 1_000_000;

/** Where the sound ends by the file's own word, bytes from its beginning; null where the file does not say. */
type StatedEnd = (bytes: Uint8Array) => number | null;

const STATED_ENDS: Partial<Record<Demuxer, StatedEnd>> = {
  wav: wavEnd,
  aiff: aiffEnd,
  caf: cafEnd,
  avi: aviEnd,
  asf: asfEnd,
  flv: flvEnd,
  matroska: segmentEnd,
  mov: isoEnd,
};

/** Pure; reads only inside the array. Costs little but in files that are cut. */
export function isCutShort(bytes: Uint8Array, demuxer: Demuxer): boolean {
  try {
    if (demuxer === "flac") return isFlacCut(bytes);
    if (demuxer === "mp3") return isMp3Cut(bytes);
    if (demuxer === "ogg") return readOggPages(bytes).isCut;
    return (STATED_ENDS[demuxer]?.(bytes) ?? 0) > bytes.byteLength;
  } catch (error) {
    // The end came before it was stated; whether that is enough for ffmpeg is for ffmpeg to say.
    if (error instanceof HeaderEndsEarly) return false;
    throw error;
  }
}

interface Chunk {
  readonly id: string;
  readonly start: number;
  readonly size: number;
}

/** Chunks of RIFF and IFF files: a name, a size, the content, a byte of padding where the size is odd. */
function* chunks(reader: ByteReader): Generator<Chunk> {
  let at = 12; // behind the outermost chunk's name, size and form
  for (let count = 0; count < MOST_CHUNKS && at + 8 <= reader.length; count += 1) {
    const chunk = { id: reader.text(at, 4), start: at + 8, size: reader.uint32(at + 4) };
    yield chunk;
    const isList = chunk.id === "RIFF"; // a further part of a large AVI file
    at = isList ? chunk.start + 4 : chunk.start + chunk.size + (chunk.size % 2);
  }
}

function knownEnd(start: number, size: number): number | null {
  return size === 0 || size >= UNKNOWN_SIZE ? null : start + size;
}

/** Microsoft's RIFF; RF64 and BW64 have the size of `data` in the chunk `ds64` (EBU Tech 3306; ITU-R BS.2088). */
function wavEnd(bytes: Uint8Array): number | null {
  const reader = new ByteReader(bytes, true);
  let largeSize: number | null = null;
  for (const { id, start, size } of chunks(reader)) {
    if (id === "ds64") largeSize = reader.uint64(start + 8);
    if (id !== "data") continue;
    const isLarge = size === 0xffffffff && largeSize !== null && largeSize > 0 && Number.isSafeInteger(largeSize);
    const end = isLarge ? start + (largeSize ?? 0) : knownEnd(start, size);
    return end === null ? null : end - WAV_HEADER_BYTES;
  }
  return null;
}

/** Apple's AIFF and AIFF-C. */
function aiffEnd(bytes: Uint8Array): number | null {
  for (const { id, start, size } of chunks(new ByteReader(bytes, false))) {
    if (id === "SSND") return knownEnd(start, size);
  }
  return null;
}

/** Apple's Core Audio Format: sizes are signed numbers of 64 bits, of which -1 is none. What packets there are may stand last. */
function cafEnd(bytes: Uint8Array): number | null {
  const reader = new ByteReader(bytes, false);
  let end: number | null = null;
  let at = 8;
  for (let count = 0; count < MOST_CHUNKS && at + 12 <= reader.length; count += 1) {
    const size = reader.uint64(at + 4);
    if (!Number.isSafeInteger(size)) break;
    const id = reader.text(at, 4);
    at += 12 + size;
    if (id === "data" || id === "pakt") end = at;
  }
  return end;
}

/** The last list of packets that the file has; large files have several (OpenDML). */
function aviEnd(bytes: Uint8Array): number | null {
  const reader = new ByteReader(bytes, true);
  let end: number | null = null;
  for (const { id, start, size } of chunks(reader)) {
    if (id !== "LIST" || latin1(bytes, start, 4) !== "movi") continue;
    end = knownEnd(start, size);
    if (end === null) return null;
  }
  return end;
}

const ASF_FILE_PROPERTIES = "\xa1\xdc\xab\x8c\x47\xa9\xcf\x11\x8e\xe4\x00\xc0\x0c\x20\x53\x65";
const ASF_DATA = "\x36\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c";
const ASF_DATA_HEADER_BYTES = 50;

/** Microsoft's Advanced Systems Format, sections 3.2 and 5.1: the data object is behind the header; what is broadcast has no size. */
function asfEnd(bytes: Uint8Array): number | null {
  const reader = new ByteReader(bytes, true);
  const headerEnd = reader.uint64(16);
  let isBroadcast = true;
  let at = 30;
  for (let count = 0; count < MOST_CHUNKS && at + 24 <= Math.min(headerEnd, reader.length); count += 1) {
    const size = reader.uint64(at + 16);
    if (latin1(bytes, at, 16) === ASF_FILE_PROPERTIES) isBroadcast = (reader.uint32(at + 88) & 1) === 1;
    if (size < 24) return null;
    at += size;
  }
  if (isBroadcast || latin1(bytes, headerEnd, 16) !== ASF_DATA) return null;
  const size = reader.uint64(headerEnd + 16);
  return size > ASF_DATA_HEADER_BYTES && Number.isSafeInteger(size) ? headerEnd + size : null;
}

const FLV_TAG_TYPES = new Set([8, 9, 18]);
const FLV_TAG_HEADER_BYTES = 11;
/** A name of eight characters in a table of AMF 0, and the type of its value: a number. */
const FLV_FILE_SIZE = "\x00\x08filesize\x00";

/** Adobe's Flash Video: where the last tag ends, or the whole file by the metadata in its first tag. */
function flvEnd(bytes: Uint8Array): number | null {
  const reader = new ByteReader(bytes, false);
  let end = 0;
  let at = reader.uint32(5) + 4;
  while (at + FLV_TAG_HEADER_BYTES <= reader.length) {
    const type = reader.uint8(at);
    const isTag = FLV_TAG_TYPES.has(type) && reader.uint32(at + 7) % 2 ** 24 === 0; // the stream's number is always 0
    if (!isTag) break;
    const content = at + FLV_TAG_HEADER_BYTES;
    const contentEnd = content + (reader.uint32(at) % 2 ** 24);
    if (type === 18 && end === 0) end = flvFileSize(bytes.subarray(content, contentEnd));
    end = Math.max(end, contentEnd);
    at = contentEnd + 4;
  }
  return end;
}

function flvFileSize(metadata: Uint8Array): number {
  const view = Buffer.from(metadata.buffer, metadata.byteOffset, metadata.byteLength);
  const at = view.indexOf(FLV_FILE_SIZE, 0, "latin1");
  const value = at + FLV_FILE_SIZE.length;
  if (at < 0 || value + 8 > view.byteLength) return 0;
  const size = view.readDoubleBE(value);
  return Number.isSafeInteger(size) ? size : 0;
}

/**
 * ISO base media files (ISO/IEC 14496-12, 8.1 and 8.8): whether samples, or a fragment's table of them, are the last box and longer
 * than what is there. ffmpeg says whether samples are missing that the table has, but only of those that it reads, and 5.1 not of
 * fragments.
 */
function isoEnd(bytes: Uint8Array): number | null {
  const last = new BoxReader(bytes).boxes().at(-1);
  return last?.isCut && (last.type === "mdat" || last.type === "moof") ? Number.POSITIVE_INFINITY : null;
}
