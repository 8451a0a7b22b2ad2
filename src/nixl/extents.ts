/** Free space as a sorted list of extents; a room may span several that touch, and so neighbouring slabs. */

/** Bytes `offset … offset + byteLength − 1`. */
export interface Extent {
  readonly offset: number;
  readonly byteLength: number;
}

/** A free extent and when it became free: a number that grows from one to the next, 0 for memory that was never used. */
export interface AgedExtent extends Extent {
  readonly freedAt: number;
}

/** Above so many extents, old ones that touch are made one. */
const MERGED_ABOVE = 512;

/**
 * The free extents of one owner, by offset. What has been free longest is taken first: a reader that comes late, for what
 * lay there before, then most probably still finds it. Extents that touch are kept apart for that, each with its own age.
 */
export class FreeExtents {
  #extents: AgedExtent[] = [];
  #mergedAbove = MERGED_ABOVE;

  /** Adds space, which must not overlap what is there. */
  add(extent: Extent, freedAt = 0): void {
    const { offset, byteLength } = extent;
    this.#extents.splice(this.#firstFrom(offset), 0, { offset, byteLength, freedAt });
    if (this.#extents.length > this.#mergedAbove) this.#mergeOld();
  }

  /**
   * Takes space: of all places that are large enough, the one whose youngest part has been free longest. Linear in the
   * number of extents.
   * @returns where it lies; null when there is no such place
   */
  take(byteLength: number): number | null {
    const offset = this.#oldestPlace(byteLength);
    if (offset !== null) this.remove({ offset, byteLength });
    return offset;
  }

  /** Whether there is a place that is large enough. */
  fits(byteLength: number): boolean {
    let [start, end] = [0, -1];
    return this.#extents.some((extent) => {
      if (extent.offset !== end) start = extent.offset;
      end = extent.offset + extent.byteLength;
      return end - start >= byteLength;
    });
  }

  /** When the youngest part of a range became free; null when not all of it is free. */
  freedAt(range: Extent): number | null {
    const parts = this.#partsOf(range);
    return parts && Math.max(...parts.map((part) => part.freedAt));
  }

  /** Whether all of the range is free. */
  contains(range: Extent): boolean {
    return this.#partsOf(range) !== null;
  }

  /** Removes the range when all of it is free. @returns what it consisted of, else null */
  remove(range: Extent): readonly AgedExtent[] | null {
    const parts = this.#partsOf(range);
    const [first] = parts ?? [];
    const last = parts?.at(-1);
    if (!parts || !first || !last) return null;
    const end = range.offset + range.byteLength;
    const rest = [
      { ...first, byteLength: range.offset - first.offset },
      { ...last, offset: end, byteLength: last.offset + last.byteLength - end },
    ];
    this.#extents.splice(this.#firstFrom(first.offset), parts.length, ...rest.filter((part) => part.byteLength > 0));
    return parts.map((part) => {
      const offset = Math.max(part.offset, range.offset);
      return { ...part, offset, byteLength: Math.min(part.offset + part.byteLength, end) - offset };
    });
  }

  /** Free bytes right in front of an offset. */
  endingAt(offset: number): number {
    let start = offset;
    for (let index = this.#firstFrom(offset) - 1; index >= 0; index--) {
      const extent = this.#extents[index];
      if (!extent || extent.offset + extent.byteLength !== start) break;
      start = extent.offset;
    }
    return offset - start;
  }

  /** Free bytes from an offset on. */
  startingAt(offset: number): number {
    let end = offset;
    for (let index = this.#firstFrom(offset); this.#extents[index]?.offset === end; index++) {
      end += this.#extents[index]?.byteLength ?? 0;
    }
    return end - offset;
  }

  /** All of them, by offset. */
  all(): readonly AgedExtent[] {
    return this.#extents;
  }

  /** A copy with more space, which must not overlap what is there. */
  with(more: readonly Extent[]): FreeExtents {
    const copy = new FreeExtents();
    const added = more.map(({ offset, byteLength }) => ({ offset, byteLength, freedAt: 0 }));
    copy.#extents = [...this.#extents, ...added].sort((a, b) => a.offset - b.offset);
    copy.#mergedAbove = this.#mergedAbove;
    return copy;
  }

  /**
   * The place whose youngest part is the oldest: one pass with a window that is just large enough, and the extents of it that
   * are younger than all behind them, youngest first (the sliding-window maximum). Plain loops: this runs for every medium.
   */
  #oldestPlace(byteLength: number): number | null {
    const extents = this.#extents;
    let place: number | null = null;
    let placeFreedAt = Number.POSITIVE_INFINITY;
    const youngest: AgedExtent[] = [];
    let head = 0; // of `youngest`: what is in front of it has left the window
    let first = 0;
    let bytes = 0;
    let end = -1;
    for (let index = 0; index < extents.length; index += 1) {
      const extent = extents[index] as AgedExtent;
      if (extent.offset !== end) {
        first = index;
        bytes = 0;
        head = youngest.length;
      }
      end = extent.offset + extent.byteLength;
      bytes += extent.byteLength;
      while (youngest.length > head && (youngest[youngest.length - 1] as AgedExtent).freedAt <= extent.freedAt) {
        youngest.pop();
      }
      youngest.push(extent);
      let front = extents[first] as AgedExtent;
      while (bytes - front.byteLength >= byteLength) {
        bytes -= front.byteLength;
        if (youngest[head] === front) head += 1;
        first += 1;
        front = extents[first] as AgedExtent;
      }
      const { freedAt } = youngest[head] as AgedExtent;
      if (bytes < byteLength || freedAt >= placeFreedAt) continue;
      place = front.offset;
      placeFreedAt = freedAt;
    }
    return place;
  }

  /** The extents that cover a range together; null when there is a gap. */
  #partsOf(range: Extent): readonly AgedExtent[] | null {
    const end = range.offset + range.byteLength;
    const first = this.#firstFrom(range.offset + 1) - 1;
    let covered = range.offset;
    let index = Math.max(first, 0);
    for (; covered < end; index++) {
      const extent = this.#extents[index];
      if (!extent || extent.offset > covered || extent.offset + extent.byteLength <= covered) return null;
      covered = extent.offset + extent.byteLength;
    }
    return this.#extents.slice(first, index);
  }

  /** Index of the first extent that begins at the offset or behind it. */
  #firstFrom(offset: number): number {
    let [low, high] = [0, this.#extents.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#extents[middle]?.offset ?? 0) < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** All but the youngest tenth: those that touch become one, as young as its youngest part. */
  #mergeOld(): void {
    const ages = this.#extents.map((extent) => extent.freedAt).toSorted((a, b) => a - b);
    const oldEnough = ages[Math.floor(ages.length * 0.9)] ?? 0;
    const merged: AgedExtent[] = [];
    for (const next of this.#extents) {
      const last = merged.at(-1);
      if (last && last.offset + last.byteLength === next.offset && Math.max(last.freedAt, next.freedAt) <= oldEnough) {
        const freedAt = Math.max(last.freedAt, next.freedAt);
        merged[merged.length - 1] = { offset: last.offset, byteLength: last.byteLength + next.byteLength, freedAt };
      } else {
        merged.push(next);
      }
    }
    this.#extents = merged;
    this.#mergedAbove = Math.max(MERGED_ABOVE, merged.length * 2);
  }
}
