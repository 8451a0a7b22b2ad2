/** The boxes of ISO base media files (ISO/IEC 14496-12, 4.2), of which MP4, QuickTime and AVIF consist, and their numbers. */

/** More boxes than this on one level are no sound file; an hour in fragments of a second has some ten thousand. */
const MOST_BOXES = 200_000;

export interface Box {
  /** Four characters. */
  readonly type: string;
  /** First byte of the content. */
  readonly start: number;
  /** The byte behind the last one, never past what surrounds the box. */
  readonly end: number;
  /** Whether the box says that it is longer than what surrounds it. */
  readonly isCut: boolean;
}

/**
 * Boxes of a file, and numbers out of them at offsets from the beginning of a box's content. Reading past the end of the
 * file gives zeros: whoever reads checks with {@link Box.isCut} and {@link Box.end} what has to be there.
 */
export class BoxReader {
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Bytes of the file. */
  get byteLength(): number {
    return this.#view.byteLength;
  }

  /**
   * Boxes that begin from `start` up to `end`; without arguments, the file's own. An impossible size ends the list, and so do
   * too many boxes.
   */
  boxes(start = 0, end = this.#view.byteLength): Box[] {
    const found: Box[] = [];
    const limit = Math.min(end, this.#view.byteLength);
    for (let at = start; at + 8 <= limit && found.length < MOST_BOXES; ) {
      const size = this.#uint32(at);
      const headerBytes = size === 1 ? 16 : 8;
      const whole = size === 1 ? this.#uint64(at + 8) : size || limit - at;
      if (whole < headerBytes) break;
      found.push({
        type: this.#latin1(at + 4, 4),
        start: at + headerBytes,
        end: Math.min(at + whole, limit),
        isCut: at + whole > limit,
      });
      at += whole;
    }
    return found;
  }

  /** The first box down a path of types. */
  find(parent: Box, path: readonly string[]): Box | undefined {
    let box: Box | undefined = parent;
    for (const type of path) {
      if (!box) return undefined;
      box = this.boxes(box.start, box.end).find((child) => child.type === type);
    }
    return box;
  }

  uint8(box: Box, at: number): number {
    const position = box.start + at;
    return position < this.#view.byteLength ? this.#view.getUint8(position) : 0;
  }

  uint16(box: Box, at: number): number {
    return this.uint8(box, at) * 256 + this.uint8(box, at + 1);
  }

  uint32(box: Box, at: number): number {
    return this.#uint32(box.start + at);
  }

  /** Inexact from 2^53. */
  uint64(box: Box, at: number): number {
    return this.#uint64(box.start + at);
  }

  /** A signed number of 32 bits. */
  int32(box: Box, at: number): number {
    return this.#uint32(box.start + at) | 0;
  }

  /** The 24 flag bits behind a full box's version. */
  flags(box: Box): number {
    return this.uint32(box, 0) & 0xffffff;
  }

  /** A count stored at `at` with entries behind it, no more than fit into the box and the file. */
  entryCount(box: Box, at: number, entryBytes: number): number {
    const room = box.end - box.start - at - 4;
    return Math.min(this.uint32(box, at), Math.max(0, Math.floor(room / entryBytes)));
  }

  /** Latin-1. */
  text(box: Box, at: number, length: number): string {
    return this.#latin1(box.start + at, length);
  }

  #uint32(position: number): number {
    return position + 4 <= this.#view.byteLength ? this.#view.getUint32(position) : 0;
  }

  #uint64(position: number): number {
    return this.#uint32(position) * 2 ** 32 + this.#uint32(position + 4);
  }

  #latin1(position: number, length: number): string {
    const end = Math.min(position + length, this.#view.byteLength);
    let text = "";
    for (let at = position; at < end; at += 1) text += String.fromCharCode(this.#view.getUint8(at));
    return text;
  }
}
