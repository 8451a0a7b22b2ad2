/** The tags in front of MP3, FLAC and AAC, and the headers of MP3's frames. */
import { latin1 } from "./byte_reader.ts";

/** Kilobits a second by the code in the header (ISO/IEC 11172-3, 2.4.2.3; 13818-3, 2.4.2.3); the first is free format, which is not read. */
const BITRATES_1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const BITRATES_2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
/** Samples a second by the code in the header, for MPEG-1; half for MPEG-2, a quarter for what is called 2.5. */
const RATES = [44_100, 48_000, 32_000];

/** What the header of a frame of layer III says. */
export interface Mp3Frame {
  readonly byteLength: number;
  /** Fields that are the same in all frames: version, layer and sample rate. */
  readonly constants: number;
  /** Bytes between the header and the main data. */
  readonly sideBytes: number;
}

/** Where the sound begins: behind all ID3v2 tags (id3.org, ID3v2.4, section 3.1), of which a footer is part when there is one. */
export function afterId3(bytes: Uint8Array, from = 0): number {
  let at = from;
  while (latin1(bytes, at, 3) === "ID3" && at + 10 <= bytes.byteLength) {
    const hasFooter = ((bytes[at + 5] ?? 0) & 0x10) !== 0;
    // Four times seven bits, without the tag's own ten bytes.
    const size = [6, 7, 8, 9].reduce((sum, digit) => sum * 128 + ((bytes[at + digit] ?? 0) & 0x7f), 0);
    at += 10 + size + (hasFooter ? 10 : 0);
  }
  return at;
}

/** @returns null where there is no header of a frame of layer III */
export function readMp3Frame(bytes: Uint8Array, at: number): Mp3Frame | null {
  if (bytes[at] !== 0xff || at + 4 > bytes.byteLength) return null;
  const [second, third, fourth] = [bytes[at + 1] ?? 0, bytes[at + 2] ?? 0, bytes[at + 3] ?? 0];
  const version = (second >> 3) & 3; // 3: MPEG-1, 2: MPEG-2, 0: 2.5
  const isLayer3 = ((second >> 1) & 3) === 1;
  if (second >> 5 !== 7 || version === 1 || !isLayer3) return null;
  const bitrate = (version === 3 ? BITRATES_1 : BITRATES_2)[third >> 4];
  const rate = RATES[(third >> 2) & 3];
  if (!bitrate || !rate) return null;
  const sampleRate = version === 3 ? rate : version === 2 ? rate / 2 : rate / 4;
  const padding = (third >> 1) & 1;
  const byteLength = Math.floor(((version === 3 ? 144_000 : 72_000) * bitrate) / sampleRate) + padding;
  const isMono = fourth >> 6 === 3;
  const sideBytes = version === 3 ? (isMono ? 17 : 32) : isMono ? 9 : 17;
  return { byteLength, constants: (second >> 1) * 4 + ((third >> 2) & 3), sideBytes };
}
