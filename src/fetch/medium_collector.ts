/** Collects a medium of unknown size: small ones in memory, larger ones in a file of memory, which their decoder maps. */
import { write } from "node:fs";
import { promisify } from "node:util";
import { closeDescriptor, createMemoryFile, sealReadOnly } from "../../ffi/memory.ts";
import { type EncodedFile, type EncodedMedium, FILE_START_BYTES, MOST_BYTES_IN_MEMORY } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import type { SpoolBudget } from "./spool_budget.ts";

const FIRST_BUFFER_BYTES = 64 * 1024;
/** A buffer that is emptier than that is exchanged for one that fits. */
const MOST_SLACK = 1 / 4;

const writeTo = promisify(write);

/**
 * One buffer that doubles, so that no list of small chunks is kept. `dispose()` drops what is not finished; not to be called while
 * `add` runs: the system could give the descriptor to somebody else meanwhile.
 */
export class MediumCollector implements Disposable {
  readonly #maximumBytes: number;
  readonly #tooLarge: () => MediaError;
  readonly #expectedBytes: number | null;
  readonly #budget: SpoolBudget;
  /** Of the budget. */
  #spooledBytes = 0;
  #buffer: Uint8Array<ArrayBuffer>;
  #fd: number | null = null;
  #byteLength = 0;
  #isAdding = false;
  #isDisposed = false;

  /**
   * @param expectedBytes as announced, at most the maximum; null when not known. Memory is taken by what comes, not by what is announced
   * @param tooLarge the error for more than `maximumBytes`
   * @param budget what goes to a file counts against it, until that is disposed of: as announced, else as much as it may become
   * @throws MediaError overloaded when the budget has no room for what is announced
   */
  constructor(maximumBytes: number, expectedBytes: number | null, tooLarge: () => MediaError, budget: SpoolBudget) {
    this.#maximumBytes = maximumBytes;
    this.#expectedBytes = expectedBytes;
    this.#tooLarge = tooLarge;
    this.#budget = budget;
    // Room for all of it, before any of it comes: of several that are under way none fails for want of it.
    if (expectedBytes !== null && expectedBytes > MOST_BYTES_IN_MEMORY) this.#spool(expectedBytes);
    this.#buffer = new Uint8Array(Math.min(expectedBytes ?? FIRST_BUFFER_BYTES, MOST_BYTES_IN_MEMORY));
  }

  /** Adds bytes, which must stay as they are until it is done. @throws MediaError system_failed, overloaded, and for too many bytes */
  async add(chunk: Uint8Array): Promise<void> {
    const end = this.#byteLength + chunk.byteLength;
    if (end > this.#maximumBytes) throw this.#tooLarge();
    if (this.#fd === null && end <= MOST_BYTES_IN_MEMORY) {
      this.#reserve(end);
      this.#buffer.set(chunk, this.#byteLength);
      this.#byteLength = end;
      return;
    }
    this.#isAdding = true;
    try {
      if (this.#spooledBytes < end) this.#spool((this.#expectedBytes ?? this.#maximumBytes) - this.#spooledBytes);
      if (this.#fd === null) await this.#moveToFile();
      await this.#write(chunk, this.#byteLength);
      this.#byteLength = end;
    } finally {
      this.#isAdding = false;
      if (this.#isDisposed) this.#close();
    }
  }

  /** The medium, whose owner the caller becomes. @throws MediaError media_empty */
  finish(): EncodedMedium {
    if (this.#byteLength === 0) throw new MediaError("media_empty", "There are no bytes to decode");
    if (this.#fd === null) {
      const bytes = this.#buffer.subarray(0, this.#byteLength);
      return this.#buffer.byteLength - this.#byteLength > this.#byteLength * MOST_SLACK ? bytes.slice() : bytes;
    }
    // Decoders are handed the file: none may change what another one is to read.
    sealReadOnly(this.#fd);
    const [fd, byteLength] = [this.#fd, this.#byteLength];
    this.#budget.giveBack(this.#spooledBytes - byteLength);
    const close = (): void => {
      closeDescriptor(fd);
      this.#budget.giveBack(byteLength);
    };
    const file = encodedFile(fd, this.#byteLength, this.#buffer, close);
    this.#fd = null;
    this.#spooledBytes = 0;
    return file;
  }

  dispose(): void {
    this.#isDisposed = true;
    if (!this.#isAdding) this.#close();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #reserve(byteLength: number): void {
    if (byteLength <= this.#buffer.byteLength) return;
    const larger = new Uint8Array(Math.min(Math.max(byteLength, this.#buffer.byteLength * 2), MOST_BYTES_IN_MEMORY));
    larger.set(this.#buffer.subarray(0, this.#byteLength));
    this.#buffer = larger;
  }

  /** From here on the buffer is the beginning only. A file without pages takes no memory, so it may be as large as it could become. */
  async #moveToFile(): Promise<void> {
    this.#fd = createMemoryFile("medium", this.#expectedBytes ?? this.#maximumBytes, { sealable: true });
    await this.#write(this.#buffer.subarray(0, this.#byteLength), 0);
    this.#buffer = this.#buffer.slice(0, Math.min(this.#byteLength, FILE_START_BYTES));
  }

  async #write(bytes: Uint8Array, position: number): Promise<void> {
    for (let at = 0; at < bytes.byteLength; ) {
      // Off the event loop: the first touch of memory takes the kernel longer than copying.
      const { bytesWritten } = await writeTo(this.#fd as number, bytes, at, bytes.byteLength - at, position + at);
      at += bytesWritten;
    }
  }

  #close(): void {
    if (this.#fd !== null) closeDescriptor(this.#fd);
    this.#fd = null;
    this.#budget.giveBack(this.#spooledBytes);
    this.#spooledBytes = 0;
  }

  #spool(byteLength: number): void {
    this.#budget.take(byteLength);
    this.#spooledBytes += byteLength;
  }
}

function encodedFile(fd: number, byteLength: number, start: Uint8Array, close: () => void): EncodedFile {
  let open = true;
  const dispose = (): void => {
    if (open) close();
    open = false;
  };
  return { fd, byteLength, start, dispose, [Symbol.dispose]: dispose };
}
