import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";

interface Chunk {
  readonly type: string;
  /** Where its content begins. */
  readonly start: number;
  readonly size: number;
}

/** Bytes of an animation frame's content in front of the chunks inside it (RFC 9649, 2.7.1.1). */
const FRAME_HEADER_LENGTH = 16;

/**
 * WebP (RFC 9649, 2.4 to 2.7). Also refuses a file that is shorter than its chunks say, which the lossy decoder would
 * not, and a picture larger than its canvas, which the decoder would only find after it has decoded it.
 */
export function readWebpHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, true);
  // One byte of slack: writers leave out the padding byte behind a last chunk of odd length.
  const end = 8 + reader.uint32(4);
  if (end > reader.length + 1) throw corruptImage("WebP", "it is shorter than it says");
  let header: ImageHeader | undefined;
  for (const chunk of chunks(reader, 12, end)) {
    header ??= chunk.type === "VP8X" ? readCanvas(reader, chunk) : readPicture(reader, chunk);
    if (!header) break;
    const inner =
      chunk.type === "ANMF" ? chunks(reader, chunk.start + FRAME_HEADER_LENGTH, chunk.start + chunk.size) : [chunk];
    for (const candidate of inner) {
      const picture = readPicture(reader, candidate);
      if (picture && (picture.width > header.width || picture.height > header.height)) {
        throw corruptImage("WebP", "a picture is larger than its canvas");
      }
    }
  }
  if (!header) throw corruptImage("WebP", "it does not begin with a picture");
  return header;
}

/** What the first chunk says, which for a sound file is what {@link readWebpHeader} says; the rest is not looked at. */
export function readWebpFirstChunk(bytes: Uint8Array): ImageHeader | undefined {
  const reader = new ByteReader(bytes, true);
  const first = { type: reader.text(12, 4), start: 20, size: reader.uint32(16) };
  return first.type === "VP8X" ? readCanvas(reader, first) : readPicture(reader, first);
}

/** The chunks from `start` to `end`, one by one: a hostile file may have millions. */
function* chunks(reader: ByteReader, start: number, end: number): Generator<Chunk> {
  for (let at = start; at + 8 <= Math.min(end, reader.length); ) {
    const size = reader.uint32(at + 4);
    if (at + 8 + size > reader.length) throw corruptImage("WebP", "a chunk is cut off");
    yield { type: reader.text(at, 4), start: at + 8, size };
    at += 8 + size + (size % 2);
  }
}

function readCanvas(reader: ByteReader, { start }: Chunk): ImageHeader {
  const uint24 = (at: number) => reader.uint16(at) + reader.uint8(at + 2) * 0x10000;
  return makeHeader(1 + uint24(start + 4), 1 + uint24(start + 7), (reader.uint8(start) & 0x10) !== 0);
}

/** What a chunk with a picture says of it; undefined for another chunk. */
function readPicture(reader: ByteReader, { type, start }: Chunk): ImageHeader | undefined {
  if (type === "VP8L") {
    const packed = reader.uint32(start + 1);
    return makeHeader(1 + (packed & 0x3fff), 1 + ((packed >>> 14) & 0x3fff), ((packed >>> 28) & 1) !== 0);
  }
  if (type === "VP8 ") {
    // RFC 6386, 9.1: a frame tag of three bytes, a start code of three, then 14 bits each.
    return makeHeader(reader.uint16(start + 6) & 0x3fff, reader.uint16(start + 8) & 0x3fff, false);
  }
  return undefined;
}

function makeHeader(width: number, height: number, hasAlpha: boolean): ImageHeader {
  const channels = hasAlpha ? 4 : 3;
  return { width, height, channels, bytesPerPixel: channels };
}
