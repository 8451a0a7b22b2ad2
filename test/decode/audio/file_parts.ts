/** Files of sound that are put together by hand, and what stands in front of sound or behind it. */
import { indexOfText } from "../video/clips.ts";
import { tone } from "./sounds.ts";

/** An MPEG-4 file without the end of its samples, which are its last box; that box says that it has them all. */
export function withoutLast(whole: Uint8Array, missing: number): Uint8Array {
  const cut = whole.slice(0, whole.byteLength - missing);
  const box = indexOfText(cut, "mdat") - 4;
  new DataView(cut.buffer).setUint32(box, cut.byteLength - box);
  return cut;
}

export function joined(...parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** The same bytes each time, of all values. */
export function noise(length: number): Uint8Array {
  let state = 1;
  return Uint8Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state >>> 24;
  });
}

export function chunk(id: string, content: Uint8Array): Uint8Array {
  const header = Buffer.alloc(8);
  header.write(id, "latin1");
  header.writeUInt32LE(content.byteLength, 4);
  return joined(header, content);
}

/** An ID3v2.4 tag of padding. @param length of its content, less than 16 384 */
export function id3Tag(length: number): Uint8Array {
  return joined(
    Buffer.from("ID3", "latin1"),
    Uint8Array.of(4, 0, 0, 0, 0, length >> 7, length & 127),
    new Uint8Array(length),
  );
}

export function id3v1(): Uint8Array {
  const tag = Buffer.alloc(128);
  tag.write("TAGa tone", "latin1");
  return tag;
}

/** Where the frames of a FLAC file of a fixed block size begin, whose numbers have one byte. */
export function framesOf(flac: Uint8Array): number[] {
  const starts: number[] = [];
  const sync = [0xff, 0xf8, ...flac.subarray(firstFrameOf(flac) + 2, firstFrameOf(flac) + 4)];
  for (let at = firstFrameOf(flac); at + 5 < flac.byteLength; at += 1) {
    const isSync = sync.every((byte, index) => flac[at + index] === byte);
    if (isSync && flac[at + 4] === starts.length) starts.push(at);
  }
  return starts;
}

function firstFrameOf(flac: Uint8Array): number {
  const view = new DataView(flac.buffer, flac.byteOffset);
  let at = 4;
  for (let isLast = false; !isLast; ) {
    isLast = view.getUint8(at) >= 0x80;
    at += 4 + (view.getUint32(at) & 0xffffff);
  }
  return at;
}

/** MP3 of 128 kbit/s with the header in front that Fraunhofer's encoder writes. */
export async function withVbri(): Promise<Uint8Array> {
  const sound = await tone("mp3", 44_100, ["-b:a", "128k", "-write_xing", "0", "-id3v2_version", "0"]);
  let count = 0;
  for (let at = 0; at < sound.byteLength; count += 1) at += 417 + (((sound[at + 2] ?? 0) >> 1) & 1);
  const header = Buffer.alloc(417);
  header.set(sound.subarray(0, 4));
  header[2] = (header[2] ?? 0) & 0xfd; // no padding
  header.write("VBRI", 36, "latin1");
  header.writeUInt16BE(1, 40);
  header.writeUInt32BE(417 + sound.byteLength, 46);
  header.writeUInt32BE(count, 50);
  return joined(header, sound);
}
