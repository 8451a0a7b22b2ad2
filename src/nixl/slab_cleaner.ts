/** Clears slabs of owners that are gone, in pieces between which the event loop goes on. */

/** What is cleared in one turn: some 50 µs. */
const PIECE_BYTES = 256 * 1024;

interface Dirty {
  readonly bytes: Uint8Array;
  cleared: number;
}

/** Slabs by their offset. What is asked for before its turn is cleared on the spot. */
export class SlabCleaner {
  readonly #dirty = new Map<number, Dirty>();
  #turn: ReturnType<typeof setImmediate> | undefined;

  /** Begins to clear a slab that nobody has any more. */
  add(offset: number, bytes: Uint8Array): void {
    this.#dirty.set(offset, { bytes, cleared: 0 });
    this.#turn ??= setImmediate(() => this.#clearPiece());
  }

  /** Clears what is left of the slab; at once, since somebody is about to get it. */
  finish(offset: number): void {
    const dirty = this.#dirty.get(offset);
    if (!dirty) return;
    dirty.bytes.fill(0, dirty.cleared);
    this.#dirty.delete(offset);
  }

  /** Stops; the slabs are about to be unmapped. */
  dispose(): void {
    this.#dirty.clear();
    if (this.#turn) clearImmediate(this.#turn);
  }

  #clearPiece(): void {
    this.#turn = undefined;
    const [next] = this.#dirty;
    if (!next) return;
    const [offset, dirty] = next;
    const end = Math.min(dirty.cleared + PIECE_BYTES, dirty.bytes.byteLength);
    dirty.bytes.fill(0, dirty.cleared, end);
    dirty.cleared = end;
    if (end === dirty.bytes.byteLength) this.#dirty.delete(offset);
    if (this.#dirty.size > 0) this.#turn = setImmediate(() => this.#clearPiece());
  }
}
