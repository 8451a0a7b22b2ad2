/** How long a GIF's frames are shown: ffmpeg's versions do not agree on delays that no browser honours. */
import { ByteReader, HeaderEndsEarly } from "../byte_reader.ts";

/** Hundredths of a second. Browsers, and ffmpeg 5.1 but not 9.0, show a frame that says less for {@link DEFAULT_DELAY}. */
const LEAST_DELAY = 2;
const DEFAULT_DELAY = 10;

/** GIF89a, sections 18, 20, 23 and 27: lengths and labels of blocks. */
const SCREEN_BYTES = 13;
const EXTENSION = 0x21;
const CONTROL_LABEL = 0xf9;
const IMAGE = 0x2c;
const IMAGE_BYTES = 10;
const HAS_TABLE = 0x80;

/**
 * A GIF whose frames say how long they are shown: the same bytes when all of them do, else a copy with the delays of the others
 * replaced. What is damaged stays as it is from there on.
 */
export function withShownDelays(gif: Uint8Array): Uint8Array {
  const short: number[] = [];
  try {
    for (const at of delayOffsets(new ByteReader(gif, true))) {
      if ((gif[at] ?? 0) + (gif[at + 1] ?? 0) * 256 < LEAST_DELAY) short.push(at);
    }
  } catch (error) {
    if (!(error instanceof HeaderEndsEarly)) throw error;
  }
  if (short.length === 0) return gif;
  const shown = gif.slice();
  for (const at of short) shown.set([DEFAULT_DELAY, 0], at);
  return shown;
}

/** Where delays are, as 16-bit numbers. @throws HeaderEndsEarly behind those there are, where the file is cut off */
function* delayOffsets(reader: ByteReader): Generator<number> {
  let at = SCREEN_BYTES + tableBytes(reader.uint8(10));
  for (;;) {
    const block = reader.uint8(at);
    if (block === EXTENSION) {
      const isControl = reader.uint8(at + 1) === CONTROL_LABEL && reader.uint8(at + 2) >= 4;
      if (isControl) {
        reader.uint16(at + 4);
        yield at + 4;
      }
      at = endOfSubBlocks(reader, at + 2);
    } else if (block === IMAGE) {
      // The smallest code's size stands in front of the picture's data.
      at = endOfSubBlocks(reader, at + IMAGE_BYTES + tableBytes(reader.uint8(at + IMAGE_BYTES - 1)) + 1);
    } else {
      return;
    }
  }
}

/** Bytes of the colour table that a packed field tells of. */
function tableBytes(packed: number): number {
  return (packed & HAS_TABLE) === 0 ? 0 : 3 * 2 ** ((packed & 7) + 1);
}

function endOfSubBlocks(reader: ByteReader, start: number): number {
  let at = start;
  for (let length = reader.uint8(at); length > 0; length = reader.uint8(at)) at += 1 + length;
  return at + 1;
}
