/** Free space as a sorted list of extents; adjacent ones are merged, so that a room may span neighbouring slabs. */

/** Bytes `offset … offset + byteLength − 1`. */
export interface Extent {
  readonly offset: number;
  readonly byteLength: number;
}

/** The free extents of one owner, by offset. All operations are linear in the number of extents, which stays small. */
export class FreeExtents {
  #extents: Extent[] = [];

  /** Adds space, which must not overlap what is there. */
  add(extent: Extent): void {
    const index = this.#extents.findIndex((other) => other.offset > extent.offset);
    this.#extents.splice(index < 0 ? this.#extents.length : index, 0, extent);
    this.#extents = this.#extents.reduce<Extent[]>((merged, next) => {
      const last = merged.at(-1);
      if (last && last.offset + last.byteLength === next.offset) {
        merged[merged.length - 1] = { offset: last.offset, byteLength: last.byteLength + next.byteLength };
      } else {
        merged.push(next);
      }
      return merged;
    }, []);
  }

  /** Takes space from the lowest extent that is large enough: low addresses first keeps few pages resident. */
  take(byteLength: number): number | null {
    const index = this.#extents.findIndex((extent) => extent.byteLength >= byteLength);
    const extent = this.#extents[index];
    if (!extent) return null;
    const rest = { offset: extent.offset + byteLength, byteLength: extent.byteLength - byteLength };
    this.#extents.splice(index, 1, ...(rest.byteLength > 0 ? [rest] : []));
    return extent.offset;
  }

  /** Removes the range when all of it is free. */
  remove(range: Extent): boolean {
    const end = range.offset + range.byteLength;
    const index = this.#extents.findIndex((e) => e.offset <= range.offset && e.offset + e.byteLength >= end);
    const extent = this.#extents[index];
    if (!extent) return false;
    const before = { offset: extent.offset, byteLength: range.offset - extent.offset };
    const after = { offset: end, byteLength: extent.offset + extent.byteLength - end };
    this.#extents.splice(index, 1, ...[before, after].filter((e) => e.byteLength > 0));
    return true;
  }

  /** The largest piece that {@link take} could give. */
  get largest(): number {
    return this.#extents.reduce((largest, extent) => Math.max(largest, extent.byteLength), 0);
  }

  get byteLength(): number {
    return this.#extents.reduce((sum, extent) => sum + extent.byteLength, 0);
  }
}
