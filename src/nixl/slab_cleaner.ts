/** Clears slabs of owners that are gone, in pieces between which the event loop goes on. */
import { nextData } from "../../ffi/memory.ts";

/** What is cleared in one turn: some 50 µs. */
const PIECE_BYTES = 256 * 1024;

/** A slab to be cleared. */
export interface DirtySlab {
  readonly offset: number;
  /** Its memfd: pages that were never touched need not be cleared. */
  readonly fd: number;
  readonly bytes: Uint8Array;
}

/** Slabs by their offset. What is asked for before its turn is cleared on the spot. */
export class SlabCleaner {
  /** How far each slab is cleared, bytes. */
  readonly #dirty = new Map<number, { readonly slab: DirtySlab; cleared: number }>();
  #turn: ReturnType<typeof setImmediate> | undefined;
  #disposed = false;

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
    if (this.#dirty.size > 0) this.#turn = setImmediate(() => this.#clearPiece());
  }

  /** Clears the next stretch that has pages, at most so many bytes of it. */
  #clear(offset: number, mostBytes: number): void {
    const dirty = this.#dirty.get(offset);
    const data = dirty && nextData(dirty.slab.fd, dirty.cleared);
    if (!dirty || !data) {
      this.#dirty.delete(offset);
      return;
    }
    const end = Math.min(data.end, data.start + mostBytes);
    dirty.slab.bytes.fill(0, data.start, end);
    dirty.cleared = end;
    if (end >= dirty.slab.bytes.byteLength) this.#dirty.delete(offset);
  }
}
