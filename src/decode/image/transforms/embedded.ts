/**
 * What a file says of its picture beside the pixels: EXIF orientation and ICC profile. Both are advice, so what is damaged
 * counts as missing.
 */
import { inflateSync } from "node:zlib";
import { ByteReader, HeaderEndsEarly } from "../../byte_reader.ts";
import { BoxReader } from "../../iso_boxes.ts";
import type { DecodableFormat } from "../header.ts";
import { isOrientation, type Orientation } from "./orientation.ts";

export interface EmbeddedFacts {
  readonly orientation: Orientation;
  /** An ICC profile's bytes; null where there is none. */
  readonly profile: Uint8Array | null;
}

/** Where in a file something lies, or what it is: one after another until both are known. */
interface Found {
  exif?: Uint8Array | undefined;
  orientation?: number | undefined;
  profile?: Uint8Array | undefined;
}

const ORIENTATION_TAG = 274;
const PROFILE_TAG = 34675;
/** Profiles of cameras and printers have up to some 2 MB; more is no profile but a bomb. */
const LARGEST_PROFILE = 4 * 1024 * 1024;
/** A directory with more entries is no sound one. */
const MOST_ENTRIES = 4096;

const READERS: Partial<Record<DecodableFormat, (bytes: Uint8Array, found: Found) => void>> = {
  Jpeg: readJpeg,
  Png: readPng,
  WebP: readWebp,
  Tiff: readTiff,
  Avif: readAvif,
};

/** @param bytes a whole file of that format */
export function readEmbedded(bytes: Uint8Array, format: DecodableFormat): EmbeddedFacts {
  const found: Found = {};
  quietly(() => READERS[format]?.(bytes, found));
  quietly(() => {
    if (found.exif) found.orientation ??= tiffNumber(withoutExifPrefix(found.exif), ORIENTATION_TAG);
  });
  const orientation = found.orientation ?? 1;
  const { profile = null } = found;
  return {
    orientation: isOrientation(orientation) ? orientation : 1,
    profile: profile && profile.byteLength <= LARGEST_PROFILE ? profile : null,
  };
}

function quietly(read: () => void): void {
  try {
    read();
  } catch (error) {
    if (!(error instanceof HeaderEndsEarly)) throw error;
  }
}

/** Segments in front of the first scan: APP1 (Exif 2.32, 4.7.2) and APP2 (ICC.1:2022, annex B.4). */
function readJpeg(bytes: Uint8Array, found: Found): void {
  const reader = new ByteReader(bytes, false);
  const parts = new Map<number, Uint8Array>();
  try {
    for (let at = 2; ; ) {
      while (reader.uint8(at) !== 0xff) at++;
      while (reader.uint8(at) === 0xff) at++;
      const marker = reader.uint8(at++);
      if (marker === 0xda || marker === 0xd9) break;
      if (marker === 0 || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) continue;
      const end = at + Math.max(2, reader.uint16(at));
      if (marker === 0xe1 && reader.text(at + 2, 6) === "Exif\0\0") found.exif ??= bytes.subarray(at + 8, end);
      if (marker === 0xe2 && reader.text(at + 2, 12) === "ICC_PROFILE\0") {
        parts.set(reader.uint8(at + 14), bytes.subarray(at + 16, end));
      }
      at = end;
    }
  } finally {
    const inOrder = [...parts].sort(([one], [other]) => one - other).map(([, part]) => part);
    if (inOrder.length > 0) found.profile = new Uint8Array(Buffer.concat(inOrder));
  }
}

/** Chunks eXIf, which may stand behind the picture, and iCCP (PNG, third edition, 11.3.2.3 and 11.3.4.5). */
function readPng(bytes: Uint8Array, found: Found): void {
  const reader = new ByteReader(bytes, false);
  for (let at = 8; at + 12 <= bytes.length; at += 12 + reader.uint32(at)) {
    const type = reader.text(at + 4, 4);
    const content = bytes.subarray(at + 8, at + 8 + reader.uint32(at));
    if (type === "eXIf") found.exif ??= content;
    if (type === "iCCP") found.profile ??= inflatedProfile(content);
    if (type === "IEND") return;
  }
}

/** The profile's name, a zero, the method's number, then zlib's stream. */
function inflatedProfile(content: Uint8Array): Uint8Array | undefined {
  const nameEnd = content.indexOf(0);
  if (nameEnd < 0) return undefined;
  try {
    return new Uint8Array(inflateSync(content.subarray(nameEnd + 2), { maxOutputLength: LARGEST_PROFILE }));
  } catch {
    return undefined; // damaged, or too much of it
  }
}

/** Chunks of the extended format (RFC 9649, 2.7.1.4 and 2.7.1.5). */
function readWebp(bytes: Uint8Array, found: Found): void {
  const reader = new ByteReader(bytes, true);
  for (let at = 12; at + 8 <= bytes.length; ) {
    const type = reader.text(at, 4);
    const size = reader.uint32(at + 4);
    if (type === "EXIF") found.exif ??= bytes.subarray(at + 8, at + 8 + size);
    if (type === "ICCP") found.profile ??= bytes.subarray(at + 8, at + 8 + size);
    at += 8 + size + (size % 2);
  }
}

function readTiff(bytes: Uint8Array, found: Found): void {
  found.orientation = tiffNumber(bytes, ORIENTATION_TAG);
  const field = tiffField(bytes, PROFILE_TAG);
  if (field) found.profile = bytes.subarray(field.at, field.at + field.count);
}

/**
 * The properties of the file's items: `colr` with a profile, `irot` (quarter turns against the clock) and `imir`, which libavif
 * and Pillow put above EXIF (ISO/IEC 23008-12, 6.5.10 and 6.5.12). They are taken to be the primary item's.
 */
function readAvif(bytes: Uint8Array, found: Found): void {
  const reader = new BoxReader(bytes);
  const meta = reader.boxes().find((box) => box.type === "meta");
  const properties = meta && reader.find({ ...meta, start: meta.start + 4 }, ["iprp", "ipco"]);
  if (!properties) return;
  let [turns, axis] = [0, null as 0 | 1 | null];
  for (const box of reader.boxes(properties.start, properties.end)) {
    if (box.type === "irot") turns = reader.uint8(box, 0) & 3;
    if (box.type === "imir") axis = (reader.uint8(box, 0) & 1) === 1 ? 1 : 0;
    const isProfile = box.type === "colr" && ["prof", "rICC"].includes(reader.text(box, 0, 4));
    if (isProfile) found.profile ??= bytes.subarray(box.start + 4, box.end);
  }
  found.orientation = (axis === null ? TURNED : TURNED_AND_MIRRORED[axis])[turns];
}

/** EXIF's value by quarter turns against the clock; and when the picture is mirrored after it, by the axis of `imir`. */
const TURNED = [1, 8, 3, 6] as const;
const TURNED_AND_MIRRORED = [
  [4, 5, 2, 7],
  [2, 7, 4, 5],
] as const;

function withoutExifPrefix(exif: Uint8Array): Uint8Array {
  const hasPrefix =
    Buffer.from(exif.buffer, exif.byteOffset, Math.min(6, exif.length)).toString("latin1") === "Exif\0\0";
  return hasPrefix ? exif.subarray(6) : exif;
}

/** The first value of a SHORT or LONG field. */
function tiffNumber(bytes: Uint8Array, tag: number): number | undefined {
  const field = tiffField(bytes, tag);
  if (!field || field.count < 1) return undefined;
  if (field.type === 3) return field.reader.uint16(field.at);
  return field.type === 4 ? field.reader.uint32(field.at) : undefined;
}

interface TiffField {
  readonly reader: ByteReader;
  readonly type: number;
  readonly count: number;
  /** Where the value begins. */
  readonly at: number;
}

/** A field of the first directory of a TIFF or BigTIFF file, or of EXIF data, which have the same form (TIFF 6.0, section 2). */
function tiffField(bytes: Uint8Array, wanted: number): TiffField | undefined {
  const reader = new ByteReader(bytes, bytes[0] === 0x49);
  const isBig = reader.uint16(2) === 43;
  const directory = isBig ? reader.uint64(8) : reader.uint32(4);
  const entries = isBig ? reader.uint64(directory) : reader.uint16(directory);
  const first = directory + (isBig ? 8 : 2);
  for (let index = 0; index < Math.min(entries, MOST_ENTRIES); index++) {
    const entry = first + index * (isBig ? 20 : 12);
    if (reader.uint16(entry) !== wanted) continue;
    const type = reader.uint16(entry + 2);
    const count = isBig ? reader.uint64(entry + 4) : reader.uint32(entry + 4);
    const value = entry + (isBig ? 12 : 8);
    const size = type === 3 ? 2 : type === 4 ? 4 : 1;
    const isInline = count * size <= (isBig ? 8 : 4);
    return { reader, type, count, at: isInline ? value : isBig ? reader.uint64(value) : reader.uint32(value) };
  }
  return undefined;
}
