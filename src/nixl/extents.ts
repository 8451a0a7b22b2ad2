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

  /** Whether all of the range is free. */
  contains(range: Extent): boolean {
    return this.#indexOf(range) >= 0;
  }

  /** Removes the range when all of it is free. */
  remove(range: Extent): boolean {
    const index = this.#indexOf(range);
    const extent = this.#extents[index];
    if (!extent) return false;
    const end = range.offset + range.byteLength;
    const before = { offset: extent.offset, byteLength: range.offset - extent.offset };
    const after = { offset: end, byteLength: extent.offset + extent.byteLength - end };
    this.#extents.splice(index, 1, ...[before, after].filter((e) => e.byteLength > 0));
    return true;
  }

  /** Free bytes right in front of an offset. */
  endingAt(offset: number): number {
    return this.#extents.find((extent) => extent.offset + extent.byteLength === offset)?.byteLength ?? 0;
  }

  /** Free bytes from an offset on. */
  startingAt(offset: number): number {
    return this.#extents.find((extent) => extent.offset === offset)?.byteLength ?? 0;
  }

  #indexOf(range: Extent): number {
    const end = range.offset + range.byteLength;
    return this.#extents.findIndex((e) => e.offset <= range.offset && e.offset + e.byteLength >= end);
  }
}
