/** Slabs and who has them: what is free in whose, what goes to whom, and what is cleared before it does. */
import { type AddressRange, closeDescriptor, createMemoryFile, touchPages } from "../../ffi/memory.ts";
import { type Extent, FreeExtents } from "./extents.ts";
import { type Fit, findFit, isInTheWay } from "./fit.ts";
import { HOST_OWNER, type Owner, type OwnerId, type Slab, type SlabGrant } from "./owners.ts";
import { type DirtySlab, SlabCleaner } from "./slab_cleaner.ts";

/** Space in an owner's slabs. */
export interface OwnedExtent {
  readonly owner: OwnerId;
  readonly extent: Extent;
}

/** How slabs are made. */
export interface SlabsSettings {
  readonly slabBytes: number;
  readonly prefault: boolean;
  /** Whether space is cleared before it is free again. */
  readonly scrub: boolean;
}

const NOBODY: ReadonlySet<OwnerId> = new Set();

/** All slabs of a pool. It owns their memfds; the range that they are mapped into is its creator's. */
export class Slabs implements Disposable {
  readonly #range: AddressRange;
  readonly #settings: SlabsSettings;
  readonly #all: Slab[] = [];
  readonly #owners = new Map<OwnerId, Owner>();
  readonly #cleaner = new SlabCleaner();
  /** Space that is being cleared before it is free, by its offset. */
  readonly #scrubbing = new Map<number, OwnedExtent>();
  readonly #scrubber = new SlabCleaner(({ offset }) => this.#scrubbed(offset));
  #freedLast = 0;
  #disposed = false;
  /** Told of each slab before space in it is given. */
  onGrant: ((grant: SlabGrant) => void) | null = null;
  /** Told when something became free. */
  onFree: (() => void) | null = null;

  /** Creates the slabs and maps them over all of the range. @throws MediaError system_failed */
  constructor(range: AddressRange, settings: SlabsSettings) {
    this.#range = range;
    this.#settings = settings;
    const { slabBytes, prefault } = settings;
    try {
      for (let offset = 0; offset < range.byteLength; offset += slabBytes) {
        const fd = createMemoryFile("nixl-media-slab", slabBytes);
        const free = [{ offset, byteLength: slabBytes, freedAt: 0 }];
        this.#all.push({ offset, fd, owner: null, wasHosts: false, free });
        range.mapFile(fd, offset, slabBytes);
        if (prefault) touchPages(range.view(offset, slabBytes));
      }
    } catch (error) {
      this.dispose();
      throw error;
    }
    this.addOwner(HOST_OWNER);
  }

  addOwner(owner: OwnerId): void {
    this.#owners.set(owner, { free: new FreeExtents(), alive: true });
  }

  isAlive(owner: OwnerId): boolean {
    return this.#owners.get(owner)?.alive ?? false;
  }

  /** Grants the owner its first slab ahead, as long as half of all stay free. @throws whatever {@link onGrant} throws */
  grantAhead(owner: OwnerId): void {
    this.#reclaimHosts();
    const entry = this.#owners.get(owner);
    const free = this.#all.filter((slab) => slab.owner === null);
    const spare = free.find((slab) => !this.#needsClearing(slab, owner)) ?? free[0];
    const isWanted = entry?.alive && !this.#all.some((slab) => slab.owner === owner);
    if (!isWanted || !spare || this.#disposed || free.length - 1 < this.#all.length / 2) return;
    this.#grant(owner, entry, spare, true);
  }

  /** The owner is gone for good: its slabs go to others as soon as they are empty. */
  removeOwner(owner: OwnerId): void {
    const entry = this.#owners.get(owner);
    if (!entry || this.#disposed) return;
    entry.alive = false;
    this.#reclaim(owner, entry);
    this.onFree?.();
  }

  hasEmptySlabs(owner: OwnerId): boolean {
    const free = this.#owners.get(owner)?.free;
    return this.#all.some((slab) => slab.owner === owner && free?.contains(this.#extentOf(slab)));
  }

  /**
   * Takes space in the owner's slabs: what is free there, else further slabs, else what is being cleared, which is then
   * cleared on the spot. @returns where it lies, null when there is none @throws whatever {@link onGrant} throws
   */
  take(owner: OwnerId, byteLength: number): number | null {
    const entry = this.#owners.get(owner);
    if (!entry?.alive) return null;
    const offset = entry.free.take(byteLength) ?? this.#takeFromNewSlabs(owner, entry, byteLength);
    if (offset !== null || this.#scrubbing.size === 0) return offset;
    const fit = this.fit(owner, NOBODY, byteLength);
    if (!fit) return null;
    const inTheWay = [...this.#scrubbing.values()].filter((part) => isInTheWay(fit, part, this.#settings.slabBytes));
    for (const { extent } of inTheWay) this.#scrubber.finish(extent.offset);
    return entry.free.take(byteLength) ?? this.#takeFromNewSlabs(owner, entry, byteLength);
  }

  /** Space that nobody may read any more. */
  giveBack({ owner, extent }: OwnedExtent): void {
    const entry = this.#owners.get(owner);
    if (!entry || this.#disposed) return;
    // What is left of an owner that is gone is cleared with its slab.
    if (!this.#settings.scrub || !entry.alive) {
      this.#free(owner, extent);
      return;
    }
    for (const part of this.#partsOf(extent)) {
      const { offset, bytes } = part;
      this.#scrubbing.set(offset, { owner, extent: { offset, byteLength: bytes.byteLength } });
      this.#scrubber.add(part);
    }
  }

  /**
   * Where the owner's next space would lie; null when there would be none.
   * @param owner null for one that has no slabs yet
   * @param leaving owners that would be gone: their empty slabs count
   * @param ended space that would be given back, too
   */
  fit(
    owner: OwnerId | null,
    leaving: ReadonlySet<OwnerId>,
    byteLength: number,
    ended: readonly OwnedExtent[] = [],
  ): Fit | null {
    const parts = Map.groupBy([...this.#scrubbing.values(), ...ended], (part) => part.owner);
    const copies = new Map<OwnerId, FreeExtents>();
    const freeOf = (other: OwnerId): FreeExtents | undefined => {
      const free = this.#owners.get(other)?.free;
      const more = parts.get(other);
      if (!free || !more) return free;
      const copy = copies.get(other) ?? free.with(more.map(({ extent }) => extent));
      copies.set(other, copy);
      return copy;
    };
    return findFit({
      slabs: this.#all,
      slabBytes: this.#settings.slabBytes,
      byteLength,
      owner,
      isLeaving: (other) => leaving.has(other) || other === HOST_OWNER || !this.isAlive(other),
      freeOf,
    });
  }

  /** Whether {@link take} would find space now. */
  canTake(owner: OwnerId, byteLength: number): boolean {
    const entry = this.#owners.get(owner);
    return entry?.alive === true && (entry.free.fits(byteLength) || this.fit(owner, NOBODY, byteLength) !== null);
  }

  /** Stops clearing and closes the memfds; idempotent. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#cleaner.dispose();
    this.#scrubber.dispose();
    for (const slab of this.#all) closeDescriptor(slab.fd);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #extentOf(slab: Slab): Extent {
    return { offset: slab.offset, byteLength: this.#settings.slabBytes };
  }

  #dirty({ offset, fd }: Slab): DirtySlab {
    return { offset, fd, bytes: this.#range.view(offset, this.#settings.slabBytes) };
  }

  /** An extent, by the slabs that it lies in. */
  *#partsOf(extent: Extent): Generator<DirtySlab> {
    const { slabBytes } = this.#settings;
    const end = extent.offset + extent.byteLength;
    for (const slab of this.#all) {
      const start = Math.max(extent.offset, slab.offset);
      const bytes = Math.min(end, slab.offset + slabBytes) - start;
      if (bytes <= 0) continue;
      yield { offset: start, fd: slab.fd, fdOffset: start - slab.offset, bytes: this.#range.view(start, bytes) };
    }
  }

  #scrubbed(offset: number): void {
    const part = this.#scrubbing.get(offset);
    this.#scrubbing.delete(offset);
    if (part) this.#free(part.owner, part.extent);
  }

  /**
   * A child that lives has its slabs mapped and may still write to them. This process gives up what it does not use, but only when
   * somebody else wants it ({@link #reclaimHosts}): most often it is this process again.
   */
  #free(owner: OwnerId, extent: Extent): void {
    const entry = this.#owners.get(owner);
    if (!entry) return;
    entry.free.add(extent, ++this.#freedLast);
    if (!entry.alive) this.#reclaim(owner, entry);
    this.onFree?.();
  }

  /**
   * Gives the owner a short run of slabs that nobody has and that is long enough, together with what the owner has free on
   * either side of it and in between; slabs that would have to be cleared first only when there are no others.
   */
  #takeFromNewSlabs(owner: OwnerId, entry: Owner, byteLength: number): number | null {
    if (owner !== HOST_OWNER) this.#reclaimHosts();
    const isFree = (slab: Slab): boolean => slab.owner === null;
    const isClear = (slab: Slab): boolean => isFree(slab) && !this.#needsClearing(slab, owner);
    // This process stays in the slabs that it has spoiled for others.
    const isHosts = (slab: Slab): boolean => isClear(slab) && slab.wasHosts;
    const run =
      (owner === HOST_OWNER ? this.#findRun(owner, entry, byteLength, isHosts) : null) ??
      this.#findRun(owner, entry, byteLength, isClear) ??
      this.#findRun(owner, entry, byteLength, isFree);
    if (!run) return null;
    for (const slab of run) if (slab.owner === null) this.#grant(owner, entry, slab, false);
    return entry.free.take(byteLength);
  }

  /** Of the shortest runs the one that has been free longest. */
  #findRun(
    owner: OwnerId,
    entry: Owner,
    byteLength: number,
    isWanted: (slab: Slab) => boolean,
  ): readonly Slab[] | null {
    const { slabBytes } = this.#settings;
    const usable = this.#all.map(
      (slab) => isWanted(slab) || (slab.owner === owner && entry.free.contains(this.#extentOf(slab))),
    );
    let best: { readonly run: readonly Slab[]; readonly freedAt: number } | null = null;
    for (let count = 1; count <= Math.ceil(byteLength / slabBytes) && !best; count++) {
      for (let first = 0; first + count <= this.#all.length; first++) {
        if (usable.indexOf(false, first) >= 0 && usable.indexOf(false, first) < first + count) continue;
        const around = entry.free.endingAt(first * slabBytes) + entry.free.startingAt((first + count) * slabBytes);
        if (around + count * slabBytes < byteLength) continue;
        const run = this.#all.slice(first, first + count);
        const freedAt = Math.max(...run.flatMap((slab) => slab.free.map((part) => part.freedAt)));
        if (!best || freedAt < best.freedAt) best = { run, freedAt };
      }
    }
    return best?.run ?? null;
  }

  #needsClearing(slab: Slab, owner: OwnerId): boolean {
    return this.#cleaner.isDirty(slab.offset) || (slab.wasHosts && owner !== HOST_OWNER);
  }

  /** When the owner cannot be told, it is its business to end: the slab may be mapped there already and stays its own. */
  #grant(owner: OwnerId, entry: Owner, slab: Slab, isAhead: boolean): void {
    if (slab.wasHosts && owner !== HOST_OWNER) this.#cleaner.add(this.#dirty(slab));
    this.#cleaner.finish(slab.offset);
    slab.owner = owner;
    slab.wasHosts = owner === HOST_OWNER;
    const { offset, fd } = slab;
    try {
      this.onGrant?.({ owner, offset, byteLength: this.#settings.slabBytes, fd, prefault: isAhead });
    } finally {
      for (const part of slab.free) entry.free.add(part, part.freedAt);
      slab.free = [];
    }
  }

  #reclaimHosts(): void {
    const host = this.#owners.get(HOST_OWNER);
    if (host) this.#reclaim(HOST_OWNER, host);
  }

  #reclaim(owner: OwnerId, entry: Owner): void {
    for (const slab of this.#all) {
      const parts = slab.owner === owner ? entry.free.remove(this.#extentOf(slab)) : null;
      if (!parts) continue;
      slab.owner = null;
      slab.free = parts;
      if (owner !== HOST_OWNER) this.#cleaner.add(this.#dirty(slab));
    }
    if (!entry.alive && !this.#all.some((slab) => slab.owner === owner)) this.#owners.delete(owner);
  }
}
