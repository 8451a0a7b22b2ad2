/** Numbers out of bytes that nobody vouches for. */

/** Thrown when the bytes end before the field that is read. Image headers make a `media_corrupt` with their format's name of it. */
export class HeaderEndsEarly extends Error {
  override readonly name = "HeaderEndsEarly";
}

/** Reads at absolute offsets, in one byte order; a read that leaves the array throws {@link HeaderEndsEarly}. */
export class ByteReader {
  readonly length: number;
  #readsLeft: number;
  readonly #view: DataView;
  readonly #littleEndian: boolean;

  /** @param mostReads after so many it throws too: for whoever must not take long, whatever the bytes are */
  constructor(bytes: Uint8Array, littleEndian: boolean, mostReads = Number.POSITIVE_INFINITY) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#littleEndian = littleEndian;
    this.length = bytes.byteLength;
    this.#readsLeft = mostReads;
  }

  uint8(at: number): number {
    return this.#view.getUint8(this.#checked(at, 1));
  }

  uint16(at: number): number {
    return this.#view.getUint16(this.#checked(at, 2), this.#littleEndian);
  }

  uint32(at: number): number {
    return this.#view.getUint32(this.#checked(at, 4), this.#littleEndian);
  }

  int32(at: number): number {
    return this.#view.getInt32(this.#checked(at, 4), this.#littleEndian);
  }

  /** As a number: exact below 2^53, and nothing larger can be an offset or a dimension that is accepted. */
  uint64(at: number): number {
    return Number(this.#view.getBigUint64(this.#checked(at, 8), this.#littleEndian));
  }

  /** The bytes as Latin-1 text. */
  text(at: number, length: number): string {
    let text = "";
    for (let index = 0; index < length; index++) text += String.fromCharCode(this.uint8(at + index));
    return text;
  }

  #checked(at: number, size: number): number {
    if (at < 0 || at + size > this.length || this.#readsLeft-- <= 0) throw new HeaderEndsEarly();
    return at;
  }
}

/** The bytes as Latin-1 text; shorter where the array ends. */
export function latin1(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + length));
}
