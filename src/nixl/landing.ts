/** Where a reader's bytes land: registered memory in size classes, kept and used again. */
import type { NativeAgent } from "../../ffi/agent.ts";
import { AddressRange, closeDescriptor, createMemoryFile, PAGE_BYTES, roundToPages } from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";

/** The smallest size class; each further one is twice as large. */
const SMALLEST_CLASS = 1024 * 1024;

/** Registered memory for one tensor that is read, with space for the hash header in front of it. */
export interface LandingBuffer {
  readonly range: AddressRange;
}

/** All landing memory of one reader. Owned by the reader; `dispose()` ends it before the agent. */
export class LandingBuffers {
  readonly #agent: NativeAgent;
  readonly #budgetBytes: number;
  readonly #idle: LandingBuffer[] = [];
  readonly #endings: (() => void)[] = [];
  #totalBytes = 0;

  constructor(agent: NativeAgent, budgetBytes: number) {
    this.#agent = agent;
    this.#budgetBytes = budgetBytes;
  }

  /**
   * Memory of at least `headerBytes` rounded to pages, and `payloadBytes` behind that.
   * @throws MediaError no_room when the reader's budget is used up; nixl_failed
   */
  take(headerBytes: number, payloadBytes: number): LandingBuffer {
    const needed = roundToPages(headerBytes) + roundToPages(payloadBytes);
    const index = this.#idle.findIndex((buffer) => buffer.range.byteLength >= needed);
    const idle = index < 0 ? undefined : this.#idle.splice(index, 1)[0];
    return idle ?? this.#create(needed);
  }

  /** Makes the memory available again. Not to be called while a transfer may still write to it. */
  giveBack(buffer: LandingBuffer): void {
    this.#idle.push(buffer);
    // Smallest first, so that take() finds the best fit.
    this.#idle.sort((a, b) => a.range.byteLength - b.range.byteLength);
  }

  dispose(): void {
    for (const end of this.#endings.splice(0)) end();
  }

  #create(needed: number): LandingBuffer {
    const byteLength = Math.max(SMALLEST_CLASS, 2 ** Math.ceil(Math.log2(Math.max(needed, PAGE_BYTES))));
    if (this.#totalBytes + byteLength > this.#budgetBytes) {
      throw new MediaError(
        "no_room",
        `${byteLength} more bytes do not fit the reader's ${this.#budgetBytes} bytes: dispose of what was read, or raise landingBytes`,
      );
    }
    const range = new AddressRange(byteLength);
    const fd = createMemoryFile("nixl-media-landing", byteLength);
    try {
      range.mapFile(fd, 0, byteLength);
      const registration = this.#agent.register(range.address, byteLength);
      this.#totalBytes += byteLength;
      this.#endings.push(() => {
        this.#agent.deregister(registration);
        range.abandon();
      });
    } catch (error) {
      range.abandon();
      throw error;
    } finally {
      closeDescriptor(fd); // the mapping keeps the memory
    }
    return { range };
  }
}
