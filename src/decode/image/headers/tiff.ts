/** Headers of TIFF and BigTIFF files. */
import { ByteReader } from "../../byte_reader.ts";
import { type ImageHeader, isChannelCount } from "../image_header.ts";
import { corruptImage, unsupportedImage } from "../refusals.ts";

const TAG = {
  width: 256,
  height: 257,
  bitsPerSample: 258,
  compression: 259,
  photometric: 262,
  samplesPerPixel: 277,
} as const;

/** Values of the tag "photometric interpretation" (TIFF 6.0, section 8). */
const PHOTOMETRIC = { minIsBlack: 1, rgb: 2, palette: 3, separated: 5, ycbcr: 6 } as const;

/** Value of the tag "compression" for JPEG (TIFF Technical Note 2). */
const JPEG_COMPRESSION = 7;

/** Kinds that another library decodes, for messages. */
const NAMES = { bigtiff: "BigTIFF", jpeg: "TIFF with JPEG inside" } as const;

/** Bytes of one value, by the field type's number: BYTE, SHORT, LONG, LONG8. Others do not occur in the tags read here. */
const VALUE_SIZES: Readonly<Record<number, number>> = { 1: 1, 3: 2, 4: 4, 16: 8 };

/** The first directory of a TIFF (TIFF 6.0, section 2) or BigTIFF (64-bit offsets and counts, entries of 20 bytes). */
export function readTiffHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, bytes[0] === 0x49);
  const isBig = reader.uint16(2) === 43;
  const tag = readDirectory(reader, isBig);
  const size = { width: tag(TAG.width) ?? 0, height: tag(TAG.height) ?? 0 };
  const bits = tag(TAG.bitsPerSample) ?? 1;
  const samples = tag(TAG.samplesPerPixel) ?? 1;
  const photometric = tag(TAG.photometric);
  const isJpeg = tag(TAG.compression) === JPEG_COMPRESSION;

  if (photometric === PHOTOMETRIC.palette) {
    if (bits > 8 || samples !== 1) throw unsupportedImage("Tiff", "a palette of this kind is not decoded");
    return { ...size, channels: 3, bytesPerPixel: 3, variant: "palette" };
  }
  if (isBig || isJpeg) {
    const kind = isBig ? "bigtiff" : "jpeg";
    const isGrey = photometric === PHOTOMETRIC.minIsBlack && samples === 1;
    const isColor = photometric === PHOTOMETRIC.rgb || (isJpeg && photometric === PHOTOMETRIC.ycbcr);
    const channels = isGrey ? 1 : isColor && (samples === 3 || samples === 4) ? samples : null;
    if (bits !== 8 || channels === null) throw unsupportedImage("Tiff", `a ${NAMES[kind]} of this kind is not decoded`);
    return { ...size, channels, bytesPerPixel: channels, variant: kind };
  }
  if (bits > 16) throw unsupportedImage("Tiff", "samples of more than 16 bits are not decoded");
  if (!isChannelCount(samples)) throw unsupportedImage("Tiff", `${samples} samples for each pixel are not decoded`);
  // CMYK becomes RGB, out of its four samples.
  const channels = photometric === PHOTOMETRIC.separated ? 3 : samples;
  return { ...size, channels, bytesPerPixel: bits > 8 ? 2 * samples : samples };
}

/** A function that gives the first value of a tag of the first directory, or undefined where it is not there. */
function readDirectory(reader: ByteReader, isBig: boolean): (tag: number) => number | undefined {
  const directory = isBig ? reader.uint64(8) : reader.uint32(4);
  if (directory + 2 > reader.length) throw corruptImage("Tiff", "its directory lies outside the file");
  const count = isBig ? reader.uint64(directory) : reader.uint16(directory);
  const first = directory + (isBig ? 8 : 2);
  const entrySize = isBig ? 20 : 12;
  const inlineSize = isBig ? 8 : 4;
  const wanted = new Set<number>(Object.values(TAG));
  const values = new Map<number, number>();
  for (let index = 0; index < count; index++) {
    const entry = first + index * entrySize;
    const tag = reader.uint16(entry);
    if (!wanted.has(tag)) continue;
    // Readers differ in which of two they believe, so the one judged might not be the one decoded.
    if (values.has(tag)) throw corruptImage("Tiff", "a field occurs twice in its directory");
    const size = VALUE_SIZES[reader.uint16(entry + 2)];
    if (size === undefined) throw corruptImage("Tiff", "a field of its directory has an impossible type");
    const valueCount = isBig ? reader.uint64(entry + 4) : reader.uint32(entry + 4);
    const field = entry + (isBig ? 12 : 8);
    const at = valueCount * size <= inlineSize ? field : isBig ? reader.uint64(field) : reader.uint32(field);
    values.set(tag, readValue(reader, at, size));
  }
  return (tag) => values.get(tag);
}

function readValue(reader: ByteReader, at: number, size: number): number {
  if (size === 1) return reader.uint8(at);
  if (size === 2) return reader.uint16(at);
  return size === 4 ? reader.uint32(at) : reader.uint64(at);
}
