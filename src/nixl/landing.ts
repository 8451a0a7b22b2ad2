/** Where a reader's bytes land: registered memory in size classes, kept and used again. */
import type { NativeAgent, NativeRegistration } from "../../ffi/agent.ts";
import { AddressRange, closeDescriptor, createMemoryFile, PAGE_BYTES, roundToPages } from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";
import { runEveryStep } from "./teardown.ts";

/** The smallest size class. */
const SMALLEST_CLASS = 1024 * 1024;
/** Further classes: so many per doubling, so that at most a fourth of what is needed is wasted. */
const CLASSES_PER_DOUBLING = 4;
/** An idle buffer serves when it is at most so many times what is needed: a larger one would block room for nothing. */
const LARGEST_EXCESS = 2;

/** Registered memory for one tensor that is read, with space for the hash header in front of it. */
export interface LandingBuffer {
  readonly range: AddressRange;
  readonly registration: NativeRegistration;
}

/**
 * All landing memory of one reader. Owned by the reader; `dispose()` ends it before the agent.
 *
 * Memory of a buffer that is ended goes back to the system, its addresses never: the same address and length must not be
 * registered twice in an agent's life.
 */
export class LandingBuffers implements Disposable {
  readonly #agent: NativeAgent;
  readonly #budgetBytes: number;
  readonly #all = new Set<LandingBuffer>();
  /** The least recently used one first. */
  readonly #idle: LandingBuffer[] = [];
  #totalBytes = 0;

  /** @param budgetBytes the most memory that is registered at a time, rounded down to whole pages */
  constructor(agent: NativeAgent, budgetBytes: number) {
    this.#agent = agent;
    this.#budgetBytes = Math.floor(budgetBytes / PAGE_BYTES) * PAGE_BYTES;
  }

  /** Bytes that are registered, idle ones included. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  /**
   * Memory of at least `headerBytes` rounded to pages, and `payloadBytes` behind that. Idle buffers of other sizes are ended
   * when the budget leaves no room otherwise.
   * @throws MediaError no_room when what was read and not disposed of leaves no room; medium_exceeds_pool when the budget
   *   is smaller than the tensor; nixl_failed, system_failed
   */
  take(headerBytes: number, payloadBytes: number): LandingBuffer {
    const needed = roundToPages(headerBytes) + roundToPages(payloadBytes);
    return this.#takeIdle(needed) ?? this.#create(needed);
  }

  /** Makes the memory available again. Not to be called while a transfer may still write to it. */
  giveBack(buffer: LandingBuffer): void {
    this.#idle.push(buffer);
  }

  /**
   * Ends all buffers, given back or not; idempotent. Views that are still held read as zeros from then on.
   * @throws MediaError nixl_failed when one could not be deregistered: its memory stays mapped, the others are ended
   */
  dispose(): void {
    this.#idle.length = 0;
    runEveryStep(
      "the landing memory",
      [...this.#all].map((buffer) => () => this.#end(buffer)),
    );
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** The smallest idle buffer that is large enough and not far too large. */
  #takeIdle(needed: number): LandingBuffer | null {
    const most = sizeClass(needed) * LARGEST_EXCESS;
    const fitting = this.#idle.filter(({ range }) => range.byteLength >= needed && range.byteLength <= most);
    const best = fitting.toSorted((a, b) => a.range.byteLength - b.range.byteLength)[0];
    if (!best) return null;
    this.#idle.splice(this.#idle.indexOf(best), 1);
    return best;
  }

  #create(needed: number): LandingBuffer {
    if (needed > this.#budgetBytes) {
      throw new MediaError(
        "medium_exceeds_pool",
        `${needed} bytes can never fit the reader's ${this.#budgetBytes} bytes: raise landingBytes`,
      );
    }
    const idleBytes = this.#idle.reduce((sum, { range }) => sum + range.byteLength, 0);
    if (this.#totalBytes - idleBytes + needed > this.#budgetBytes) throw this.#noRoom(needed);
    const wanted = Math.min(sizeClass(needed), this.#budgetBytes);
    while (this.#totalBytes + wanted > this.#budgetBytes && this.#idle.length > 0) this.#endLeastRecentlyUsed();
    const byteLength = Math.min(wanted, this.#budgetBytes - this.#totalBytes);
    if (byteLength < needed) throw this.#noRoom(needed); // what could not be deregistered is in the way
    const range = mapMemory(byteLength);
    try {
      const buffer = { range, registration: this.#agent.register(range.address, byteLength) };
      this.#all.add(buffer);
      this.#totalBytes += byteLength;
      return buffer;
    } catch (error) {
      range.abandon();
      throw error;
    }
  }

  #noRoom(needed: number): MediaError {
    return new MediaError(
      "no_room",
      `${needed} more bytes do not fit the reader's ${this.#budgetBytes} bytes: dispose of what was read, or raise landingBytes`,
    );
  }

  #endLeastRecentlyUsed(): void {
    const buffer = this.#idle.shift();
    try {
      if (buffer) this.#end(buffer);
    } catch {
      // Warned of already, and still counted: whether there is room without it, the caller finds out.
    }
  }

  /** @throws MediaError nixl_failed: then the transport may still reach the memory, so it stays mapped, and counted */
  #end(buffer: LandingBuffer): void {
    const { range, registration } = buffer;
    this.#all.delete(buffer);
    try {
      this.#agent.deregister(registration);
    } catch (error) {
      console.warn(
        `nixl-media: ${range.byteLength} bytes could not be deregistered; they stay mapped until the process ends`,
      );
      throw error;
    }
    this.#totalBytes -= range.byteLength;
    range.abandon();
  }
}

/** The smallest size class that holds so many bytes; a multiple of the page size. */
function sizeClass(byteLength: number): number {
  if (byteLength <= SMALLEST_CLASS) return SMALLEST_CLASS;
  const step = 2 ** Math.floor(Math.log2(byteLength)) / CLASSES_PER_DOUBLING;
  return Math.ceil(byteLength / step) * step;
}

/** Zeroed memory that is mapped and not yet registered. @throws MediaError system_failed: then nothing is kept */
function mapMemory(byteLength: number): AddressRange {
  const range = new AddressRange(byteLength);
  try {
    const fd = createMemoryFile("nixl-media-landing", byteLength);
    try {
      range.mapFile(fd, 0, byteLength);
    } finally {
      closeDescriptor(fd); // the mapping keeps the memory
    }
  } catch (error) {
    range.release(); // no agent ever saw these addresses
    throw error;
  }
  return range;
}
