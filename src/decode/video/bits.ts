/** Bits of a header, most significant first. Past the end there are zeros, and {@link BitReader.isPastEnd} says so. */
export class BitReader {
  readonly #bytes: Uint8Array;
  #position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Whether more bits were read than there are: then nothing that was read counts. */
  get isPastEnd(): boolean {
    return this.#position > this.#bytes.byteLength * 8;
  }

  /** An unsigned number of up to 32 bits. */
  unsigned(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i += 1) {
      const byte = this.#bytes[this.#position >> 3] ?? 0;
      value = value * 2 + ((byte >> (7 - (this.#position & 7))) & 1);
      this.#position += 1;
    }
    return value;
  }

  flag(): boolean {
    return this.unsigned(1) === 1;
  }

  skip(count: number): void {
    this.#position += count;
  }

  /** An unsigned Exp-Golomb code, `ue(v)` (ITU-T H.264 9.1, H.265 9.2). */
  golomb(): number {
    let zeros = 0;
    while (!this.flag()) {
      zeros += 1;
      if (zeros > 32 || this.isPastEnd) {
        this.#position = Number.MAX_SAFE_INTEGER;
        return 0;
      }
    }
    return 2 ** zeros - 1 + this.unsigned(zeros);
  }

  /** A signed Exp-Golomb code, `se(v)`. */
  signedGolomb(): number {
    const code = this.golomb();
    return code % 2 === 1 ? (code + 1) / 2 : -code / 2;
  }
}
