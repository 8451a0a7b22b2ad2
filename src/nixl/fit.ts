/** Where a room would fit, given what is free: the question that is asked before anything is taken, ended or waited for. */
import type { Extent, FreeExtents } from "./extents.ts";

/** What a place is looked for in. */
export interface FitQuery {
  readonly slabs: readonly { readonly offset: number; readonly owner: number | null }[];
  readonly slabBytes: number;
  /** Bytes of the room, header included. */
  readonly byteLength: number;
  /** Whose slabs count although only parts of them are free; null for an owner that has no slabs yet. */
  readonly owner: number | null;
  /** Owners whose slabs go to others once they are empty. */
  readonly isLeaving: (owner: number) => boolean;
  /** What is, or would be, free in an owner's slabs. */
  readonly freeOf: (owner: number) => FreeExtents | undefined;
}

/** A place for a room, and whose it would be. */
export interface Fit {
  readonly owner: number | null;
  readonly place: Extent;
}

/** The lowest place, over what is free of the owner's, slabs that nobody has, and empty slabs of those who leave. */
export function findFit(query: FitQuery): Fit | null {
  const { slabs, slabBytes, byteLength, owner, isLeaving, freeOf } = query;
  const usable: Extent[] = owner === null ? [] : [...(freeOf(owner)?.all() ?? [])];
  for (const slab of slabs) {
    const whole = { offset: slab.offset, byteLength: slabBytes };
    const isLeft = slab.owner !== null && slab.owner !== owner && isLeaving(slab.owner);
    if (slab.owner === null || (isLeft && freeOf(slab.owner)?.contains(whole))) usable.push(whole);
  }
  let [start, end] = [0, -1];
  for (const extent of usable.toSorted((a, b) => a.offset - b.offset)) {
    if (extent.offset !== end) start = extent.offset;
    end = extent.offset + extent.byteLength;
    if (end - start >= byteLength) return { owner, place: { offset: start, byteLength } };
  }
  return null;
}

/** Whether something in an owner's slabs is in the way of a room there. Of others' slabs whole ones are needed. */
export function isInTheWay(
  { owner, place }: Fit,
  { owner: otherOwner, extent }: { readonly owner: number; readonly extent: Extent },
  slabBytes: number,
): boolean {
  const unit = otherOwner === owner ? 1 : slabBytes;
  const start = Math.floor(place.offset / unit) * unit;
  const end = Math.ceil((place.offset + place.byteLength) / unit) * unit;
  return extent.offset < end && extent.offset + extent.byteLength > start;
}

/**
 * The fewest of the first entries with which there is a fit; null when there is none with all of them, which is asked first since
 * it is then asked again and again. Few are enough most often, and more make the question dearer: they are doubled, then halved.
 */
export function fewestThatFit<Entry>(
  entries: readonly Entry[],
  fitWith: (some: readonly Entry[]) => Fit | null,
): { readonly some: readonly Entry[]; readonly fit: Fit } | null {
  let fit = fitWith(entries);
  if (!fit) return null;
  let [tooFew, enough] = [-1, entries.length];
  for (let count = 0; tooFew < count && count < enough; count = Math.max(1, count * 2)) {
    const earlier = fitWith(entries.slice(0, count));
    if (earlier) [fit, enough] = [earlier, count];
    else tooFew = count;
  }
  while (enough - tooFew > 1) {
    const count = Math.floor((tooFew + enough) / 2);
    const earlier = fitWith(entries.slice(0, count));
    if (earlier) [fit, enough] = [earlier, count];
    else tooFew = count;
  }
  return { some: entries.slice(0, enough), fit };
}
