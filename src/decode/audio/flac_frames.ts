/** FLAC (RFC 9639): whether the frames that STREAMINFO promises are all there. */
import { ByteReader, HeaderEndsEarly, latin1 } from "../byte_reader.ts";
import { afterId3 } from "../mp3_header.ts";

/** What STREAMINFO says (section 8.2). */
interface StreamInfo {
  readonly leastBlock: number;
  readonly mostBlock: number;
  /** 0 when it is not known. */
  readonly leastFrameBytes: number;
  /** Of each channel; 0 when it is not known. */
  readonly totalSamples: number;
  /** Where the first frame begins. */
  readonly framesStart: number;
}

/** What the header of a frame says (section 9.1). */
interface FrameHeader {
  /** Fields that are the same in all frames: sync code and blocking strategy, and the codes of rate and sample size. */
  readonly constants: number;
  /** Number of its first sample, or of the frame itself where blocks have a fixed size. */
  readonly number: number;
  readonly isFixed: boolean;
  readonly samples: number;
}

/**
 * Whether the last frame that there should be is missing or is not complete. Nothing is said of a file that does not know how
 * many samples it has, and of an excerpt of a longer stream, whose first frame is not its first.
 */
export function isFlacCut(bytes: Uint8Array): boolean {
  const reader = new ByteReader(bytes, false);
  const info = readStreamInfo(reader, bytes);
  const first = info && readFrameHeader(reader, info.framesStart);
  if (!info || info.totalSamples === 0 || first?.number !== 0) return false;
  if (first.isFixed && info.leastBlock !== info.mostBlock) return false;
  // From the end, since a whole file has its last frame there.
  for (let at = bytes.byteLength - 2; at >= info.framesStart; at -= 1) {
    if (bytes[at] !== 0xff) continue;
    const header = readFrameHeader(reader, at);
    if (header?.constants !== first.constants) continue;
    const end = header.number * (header.isFixed ? info.mostBlock : 1) + header.samples;
    if (end === info.totalSamples) return !isFrameWhole(bytes.subarray(at), info.leastFrameBytes);
    if (end > info.totalSamples) return false; // there is more than was promised
  }
  return true;
}

function readStreamInfo(reader: ByteReader, bytes: Uint8Array): StreamInfo | null {
  const start = afterId3(bytes);
  if (latin1(bytes, start, 4) !== "fLaC" || (reader.uint8(start + 4) & 0x7f) !== 0) return null;
  const at = start + 8;
  let block = start + 4;
  for (let isLast = false; !isLast; ) {
    const header = reader.uint32(block);
    isLast = header >= 2 ** 31;
    block += 4 + (header % 2 ** 24);
  }
  return {
    leastBlock: reader.uint16(at),
    mostBlock: reader.uint16(at + 2),
    leastFrameBytes: reader.uint32(at + 3) % 2 ** 24,
    totalSamples: (reader.uint8(at + 13) & 15) * 2 ** 32 + reader.uint32(at + 14),
    framesStart: block,
  };
}

/** @returns null where there is none, or only a part of one */
function readFrameHeader(reader: ByteReader, at: number): FrameHeader | null {
  try {
    return parseFrameHeader(reader, at);
  } catch (error) {
    if (error instanceof HeaderEndsEarly) return null;
    throw error;
  }
}

function parseFrameHeader(reader: ByteReader, at: number): FrameHeader | null {
  const sync = reader.uint16(at);
  const sizes = reader.uint8(at + 2);
  const format = reader.uint8(at + 3);
  const [blockCode, rateCode] = [sizes >> 4, sizes & 15];
  if ((sync & 0xfffe) !== 0xfff8 || blockCode === 0 || rateCode === 15 || format >> 4 > 10 || (format & 1) !== 0) {
    return null;
  }
  const number = readCodedNumber(reader, at + 4);
  if (!number) return null;
  let next = at + 4 + number.byteLength;
  const samples =
    blockCode === 6 ? reader.uint8(next) + 1 : blockCode === 7 ? reader.uint16(next) + 1 : blockSamples(blockCode);
  next += blockCode === 6 ? 1 : blockCode === 7 ? 2 : 0;
  next += rateCode === 12 ? 1 : rateCode > 12 ? 2 : 0;
  if (crc8(reader, at, next) !== reader.uint8(next)) return null;
  const constants = sync * 256 + rateCode * 16 + (format & 15);
  return { constants, number: number.value, isFixed: (sync & 1) === 0, samples };
}

/** Table 14. */
function blockSamples(code: number): number {
  return code === 1 ? 192 : code < 6 ? 576 * 2 ** (code - 2) : 256 * 2 ** (code - 8);
}

/** Coded like a character in UTF-8, but of up to 36 bits (section 9.1.5). */
function readCodedNumber(reader: ByteReader, at: number): { value: number; byteLength: number } | null {
  const first = reader.uint8(at);
  const byteLength = first < 0x80 ? 1 : Math.clz32(~(first << 24));
  if (byteLength === 1) return first < 0x80 ? { value: first, byteLength } : null;
  if (byteLength > 7) return null;
  let value = first & (0x7f >> byteLength);
  for (let index = 1; index < byteLength; index += 1) {
    const next = reader.uint8(at + index);
    if (next >> 6 !== 2) return null;
    value = value * 64 + (next & 63);
  }
  return { value, byteLength };
}

/** Polynomial x^8 + x^2 + x + 1 (section 9.1.8). */
function crc8(reader: ByteReader, start: number, end: number): number {
  let crc = 0;
  for (let at = start; at < end; at += 1) {
    crc ^= reader.uint8(at);
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x80 ? ((crc << 1) ^ 0x07) & 0xff : crc << 1;
  }
  return crc;
}

/** Of all bytes: what one step makes of the checksum's upper byte; x^16 + x^15 + x^2 + 1 (section 9.3). */
const CRC16_STEPS = Uint16Array.from({ length: 256 }, (_, upper) => {
  let crc = upper << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x8005) & 0xffff : crc << 1;
  return crc;
});

/**
 * Whether a frame's checksum comes somewhere, behind which may be anything. By chance one of 65 536 bytes looks like it, so no frame is
 * taken to be smaller than the smallest, which the last one usually is.
 */
function isFrameWhole(frame: Uint8Array, leastBytes: number): boolean {
  let crc = 0;
  for (let at = 0; at < frame.byteLength; at += 1) {
    crc = ((crc << 8) & 0xffff) ^ (CRC16_STEPS[(crc >> 8) ^ (frame[at] ?? 0)] ?? 0);
    // With its own checksum behind it, what was summed up gives 0.
    if (crc === 0 && at + 1 >= Math.max(leastBytes, 8)) return true;
  }
  return crc === 0;
}
