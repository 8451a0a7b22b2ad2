/** Clears memory that is to go to somebody else, in pieces between which the event loop goes on. */
import { nextData } from "../../ffi/memory.ts";

/** What is cleared in one turn: some 50 µs. */
const PIECE_BYTES = 256 * 1024;

/** A slab to be cleared, or a part of one. */
export interface DirtySlab {
  /** Where it lies in the pool. */
  readonly offset: number;
  /** The slab's memfd: pages that were never touched need not be cleared. */
  readonly fd: number;
  /** Where `bytes` begin in the memfd; at its start when absent. */
  readonly fdOffset?: number;
  readonly bytes: Uint8Array;
}

/** Slabs, or parts of slabs, by their offset. What is asked for before its turn is cleared on the spot. */
export class SlabCleaner {
  /** How far each slab is cleared, bytes. */
  readonly #dirty = new Map<number, { readonly slab: DirtySlab; cleared: number }>();
  readonly #onClear: ((slab: DirtySlab) => void) | null;
  #turn: ReturnType<typeof setImmediate> | undefined;
  #disposed = false;

  /** @param onClear told of each as soon as it is clear */
  constructor(onClear: ((slab: DirtySlab) => void) | null = null) {
    this.#onClear = onClear;
  }

  /** What is not clear yet, in the order in which it came. */
  get dirty(): readonly DirtySlab[] {
    return [...this.#dirty.values()].map(({ slab }) => slab);
  }

  /** Begins to clear a slab that nobody has any more. */
  add(slab: DirtySlab): void {
    if (this.#disposed) return;
    this.#dirty.set(slab.offset, { slab, cleared: 0 });
    this.#turn ??= setImmediate(() => this.#clearPiece());
  }

  /** Whether {@link finish} would have to work. */
  isDirty(offset: number): boolean {
    return this.#dirty.has(offset);
  }

  /** Clears what is left of the slab; at once, since somebody is about to get it. */
  finish(offset: number): void {
    while (this.#dirty.has(offset)) this.#clear(offset, Number.POSITIVE_INFINITY);
  }

  /** Stops; the slabs are about to be unmapped. */
  dispose(): void {
    this.#disposed = true;
    this.#dirty.clear();
    if (this.#turn) clearImmediate(this.#turn);
  }

  #clearPiece(): void {
    this.#turn = undefined;
    const [offset] = this.#dirty.keys();
    if (offset === undefined) return;
    this.#clear(offset, PIECE_BYTES);
    if (this.#dirty.size > 0) this.#turn ??= setImmediate(() => this.#clearPiece());
  }

  /** Clears the next stretch that has pages, at most so many bytes of it. */
  #clear(offset: number, mostBytes: number): void {
    const dirty = this.#dirty.get(offset);
    if (!dirty) return;
    const { bytes, fd, fdOffset = 0 } = dirty.slab;
    const data = nextData(fd, fdOffset + dirty.cleared);
    const start = data ? data.start - fdOffset : bytes.byteLength;
    const end = Math.min(data ? data.end - fdOffset : start, start + mostBytes, bytes.byteLength);
    if (start < end) bytes.fill(0, start, end);
    dirty.cleared = end;
    if (start < end && end < bytes.byteLength) return;
    this.#dirty.delete(offset);
    this.#onClear?.(dirty.slab);
  }
}
