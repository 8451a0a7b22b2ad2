/** MPEG audio of layer III: whether the frames that the header of the encoder promises are all there. */
import { ByteReader, latin1 } from "../byte_reader.ts";
import { afterId3, type Mp3Frame, readMp3Frame } from "../mp3_header.ts";

/** How far behind its tags the first frame is looked for. */
const MOST_PADDING = 64 * 1024;
/** Larger numbers stand for none. */
const UNKNOWN = 0x7e000000;

/** What an encoder says in the first frame, which has no sound: how many others there are, and bytes of all of them. */
interface Promised {
  readonly frames: number;
  readonly byteLength: number;
}

/**
 * Whether the file has neither the bytes nor the frames that its Xing, Info or VBRI header promises. One of the two alone is not
 * believed: some writers count tags into the bytes, or that first frame into the frames.
 */
export function isMp3Cut(bytes: Uint8Array): boolean {
  const reader = new ByteReader(bytes, false);
  const start = firstFrame(bytes, afterId3(bytes));
  const first = start === null ? null : readMp3Frame(bytes, start);
  if (start === null || !first) return false;
  const promised = readXing(reader, bytes, start, first) ?? readVbri(reader, bytes, start);
  if (!promised || promised.frames === 0 || promised.byteLength >= UNKNOWN) return false;
  if (start + promised.byteLength <= bytes.byteLength) return false;
  return countFrames(bytes, start + first.byteLength, first.constants) < promised.frames;
}

/** A frame with another one behind it. */
function firstFrame(bytes: Uint8Array, from: number): number | null {
  for (let at = from; at < Math.min(from + MOST_PADDING, bytes.byteLength); at += 1) {
    const frame = readMp3Frame(bytes, at);
    if (frame && readMp3Frame(bytes, at + frame.byteLength)?.constants === frame.constants) return at;
  }
  return null;
}

/** Xing's header, which LAME and ffmpeg write too; the first two flags say that the two numbers are there. */
function readXing(reader: ByteReader, bytes: Uint8Array, start: number, { sideBytes }: Mp3Frame): Promised | null {
  const at = start + 4 + sideBytes;
  if (!/^(?:Xing|Info)$/.test(latin1(bytes, at, 4)) || (reader.uint32(at + 4) & 3) !== 3) return null;
  return { frames: reader.uint32(at + 8), byteLength: reader.uint32(at + 12) };
}

/** Fraunhofer's header, always at the same place. */
function readVbri(reader: ByteReader, bytes: Uint8Array, start: number): Promised | null {
  const at = start + 36;
  if (latin1(bytes, at, 4) !== "VBRI") return null;
  return { frames: reader.uint32(at + 14), byteLength: reader.uint32(at + 10) };
}

/** Frames that are complete; damage is passed over. */
function countFrames(bytes: Uint8Array, from: number, constants: number): number {
  let count = 0;
  for (let at = from; at + 4 <= bytes.byteLength; ) {
    const frame = readMp3Frame(bytes, at);
    if (frame?.constants !== constants) at += 1;
    else {
      at += frame.byteLength;
      if (at <= bytes.byteLength) count += 1;
    }
  }
  return count;
}
