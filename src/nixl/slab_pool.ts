/**
 * The memory that readers read from: memfd-backed slabs side by side in one range of addresses, registered with NIXL once.
 *
 * All slabs of the budget are created at start-up and registered at once, so nothing is registered per medium and the metadata
 * text never changes. A slab belongs to one owner (a decoder child, or this process) as long as that owner lives, and is
 * mapped nowhere else: no decoder sees what another one decoded. A medium larger than a slab gets neighbouring slabs,
 * which lie in one registration and are therefore one readable piece.
 */
import { z } from "zod";
import type { NativeRegistration } from "../../ffi/agent.ts";
import {
  AddressRange,
  closeDescriptor,
  createMemoryFile,
  PAGE_BYTES,
  roundToPages,
  touchPages,
} from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import type { NixlAgent } from "./agent.ts";
import { FreeExtents } from "./extents.ts";
import { Room } from "./room.ts";
import { SlabCleaner } from "./slab_cleaner.ts";

const MEBIBYTE = 1024 * 1024;

/** Settings of the slab pool. */
export const slabPoolOptionsSchema = z
  .strictObject({
    slabBytes: z
      .int()
      .min(PAGE_BYTES * 2)
      .multipleOf(PAGE_BYTES)
      .default(64 * MEBIBYTE)
      .describe("Bytes of one slab, a multiple of 4096: the unit that decoder children are given"),
    budgetBytes: z
      .int()
      .positive()
      .default(1024 * MEBIBYTE)
      .describe("Bytes of all slabs together, rounded down to whole slabs; the most that tensors can occupy"),
    prefault: z
      .boolean()
      .default(false)
      .describe(
        "Make all pages at start-up, about a second a GiB, and hand each decoder its first slab ahead, so that requests need not",
      ),
  })
  .refine((options) => options.budgetBytes >= options.slabBytes, {
    message: "budgetBytes must hold at least one slab",
    path: ["budgetBytes"],
  });
export type SlabPoolOptions = z.input<typeof slabPoolOptionsSchema>;

/** Who may write to a slab: the id of a decoder child, or {@link HOST_OWNER}. */
export type OwnerId = number;
/** This process itself. */
export const HOST_OWNER: OwnerId = 0;

/** A slab that was just given to an owner, who has to map `fd` at `offset`. */
export interface SlabGrant {
  readonly owner: OwnerId;
  /** Where the slab lies in the pool, bytes. */
  readonly offset: number;
  readonly byteLength: number;
  /** The slab's memfd; the pool closes it. */
  readonly fd: number;
  /** Whether its pages are to be touched when it is mapped. */
  readonly prefault: boolean;
}

interface Slab {
  readonly offset: number;
  readonly fd: number;
  owner: OwnerId | null;
  /** Whether this process had it last. It is not cleared until another owner gets it: most often this process does, again. */
  wasHosts: boolean;
}

interface Owner {
  readonly free: FreeExtents;
  alive: boolean;
}

/** Slabs, and the rooms in them. Owned by whoever opened it; `dispose()` ends it before its agent. */
export class SlabPool implements Disposable {
  readonly slabBytes: number;
  readonly #range: AddressRange;
  readonly #prefault: boolean;
  readonly #cleaner = new SlabCleaner();
  #registered: { readonly agent: NixlAgent; readonly registration: NativeRegistration } | null = null;
  readonly #slabs: Slab[] = [];
  readonly #owners = new Map<OwnerId, Owner>();
  readonly #rooms = new Set<Room>();
  #roomBytes = 0;
  #disposed = false;
  /** Told of each slab before the first room in it is given; set by whoever runs the owners. */
  onGrant: ((grant: SlabGrant) => void) | null = null;
  /** Told when this process itself was refused a room, so that idle owners may make some for the next try. */
  onHostRefused: ((payloadBytes: number, headerBytes: number) => void) | null = null;

  /** Creates and maps all slabs. Rooms can be given from then on. @throws MediaError system_failed, invalid_options */
  constructor(options: SlabPoolOptions = {}) {
    const settings = parseOptions(slabPoolOptionsSchema, options, "pool options");
    this.slabBytes = settings.slabBytes;
    this.#prefault = settings.prefault;
    const count = Math.floor(settings.budgetBytes / settings.slabBytes);
    this.#range = new AddressRange(count * this.slabBytes);
    try {
      for (let offset = 0; offset < this.#range.byteLength; offset += this.slabBytes) {
        const fd = createMemoryFile("nixl-media-slab", this.slabBytes);
        this.#slabs.push({ offset, fd, owner: null, wasHosts: false });
        this.#range.mapFile(fd, offset, this.slabBytes);
        if (settings.prefault) touchPages(this.#range.view(offset, this.slabBytes));
      }
    } catch (error) {
      for (const slab of this.#slabs) closeDescriptor(slab.fd);
      this.#range.release();
      throw error;
    }
    this.addOwner(HOST_OWNER);
  }

  /**
   * Registers all slabs, once, as one piece: then rooms can be described and read. The agent must outlive the pool.
   * @throws MediaError registration_failed, with NIXL's status as the cause; invalid_argument when registered already
   */
  register(agent: NixlAgent): void {
    this.#checkOpen();
    if (this.#registered) throw new MediaError("invalid_argument", "the slab pool is registered already");
    this.#registered = { agent, registration: agent.register(this.#range.address, this.#range.byteLength) };
  }

  /** The agent's metadata text, which all descriptors of this pool carry. A secret. @throws MediaError nixl_unavailable */
  get metadataText(): string {
    this.#checkOpen();
    if (!this.#registered) throw new MediaError("nixl_unavailable", "the slab pool is not registered with an agent");
    return this.#registered.agent.metadataText();
  }

  /** Bytes of all slabs. */
  get budgetBytes(): number {
    return this.#range.byteLength;
  }

  /** Rooms given out and not given back, and their bytes with headers. */
  get occupancy(): { readonly rooms: number; readonly bytes: number } {
    return { rooms: this.#rooms.size, bytes: this.#roomBytes };
  }

  /** A new owner without slabs. */
  addOwner(owner: OwnerId): void {
    this.#owners.set(owner, { free: new FreeExtents(), alive: true });
  }

  /**
   * The owner can take slabs. When pages are touched ahead, it is granted its first slab ahead too, as long as half of all slabs
   * stay free for whoever needs several.
   * @throws whatever {@link onGrant} throws
   */
  prepareOwner(owner: OwnerId): void {
    const entry = this.#owners.get(owner);
    const free = this.#slabs.filter((slab) => slab.owner === null);
    const spare = free.find((slab) => !this.#needsClearing(slab, owner)) ?? free[0];
    const isWanted = this.#prefault && entry?.alive && !this.#slabs.some((slab) => slab.owner === owner);
    if (!isWanted || !spare || this.#disposed || free.length - 1 < this.#slabs.length / 2) return;
    this.#grant(owner, entry, spare, true);
  }

  /**
   * The owner is gone for good (a process that has been reaped): its slabs go to others as soon as no room is left in them.
   */
  removeOwner(owner: OwnerId): void {
    const entry = this.#owners.get(owner);
    if (!entry || this.#disposed) return;
    entry.alive = false;
    this.#reclaim(owner, entry);
  }

  /**
   * Whether a room of that size would fit if these owners were gone, which are idle: whether ending them is worth it.
   * @param headerBytes as for {@link take}
   */
  wouldFitWithout(owners: ReadonlySet<OwnerId>, payloadBytes: number, headerBytes = PAGE_BYTES): boolean {
    const needed = Math.ceil((roundToPages(headerBytes) + roundToPages(payloadBytes)) / this.slabBytes);
    let run = 0;
    return this.#slabs.some((slab) => {
      run = slab.owner === null || (owners.has(slab.owner) && this.#isEmpty(slab)) ? run + 1 : 0;
      return run >= needed;
    });
  }

  /** Whether the owner has slabs in which there is no room. */
  hasEmptySlabs(owner: OwnerId): boolean {
    return this.#slabs.some((slab) => slab.owner === owner && this.#isEmpty(slab));
  }

  /**
   * Memory for a tensor in the owner's slabs, with at least `headerBytes` in front of it. Another slab is given to the
   * owner when its own are full.
   * @throws MediaError no_room when nothing is free now; medium_exceeds_pool when it never will be
   */
  take(owner: OwnerId, payloadBytes: number, headerBytes = PAGE_BYTES): Room {
    this.#checkOpen();
    if (!Number.isSafeInteger(payloadBytes) || payloadBytes <= 0) {
      throw new MediaError("invalid_argument", "a room has at least one byte");
    }
    const entry = this.#owners.get(owner);
    if (!entry?.alive) throw new MediaError("closed", "the owner of the room is gone");
    const header = roundToPages(headerBytes);
    const total = header + roundToPages(payloadBytes);
    if (total > this.budgetBytes) {
      throw new MediaError("medium_exceeds_pool", `${total} bytes can never fit a pool of ${this.budgetBytes} bytes`);
    }
    const offset = entry.free.take(total) ?? this.#takeFromNewSlabs(owner, entry, total);
    if (offset === null) {
      if (owner === HOST_OWNER) this.onHostRefused?.(payloadBytes, headerBytes);
      throw new MediaError("no_room", `The pool has no room for ${total} bytes now`);
    }
    this.#roomBytes += total;
    const start = offset + header;
    const payload = this.#range.view(start, payloadBytes);
    const room = new Room(
      { offset, byteLength: total },
      header,
      this.#range.address + start,
      payload,
      (extent, last) => {
        if (last) this.#rooms.delete(room);
        this.#roomBytes -= extent.byteLength;
        entry.free.add(extent);
        if (this.#mayReclaim(owner, entry)) this.#reclaim(owner, entry);
      },
    );
    this.#rooms.add(room);
    return room;
  }

  /** Ends all rooms, deregisters, gives the memory back; idempotent. Views that are still held read as zeros from then on. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#cleaner.dispose();
    for (const room of this.#rooms) room.dispose();
    for (const slab of this.#slabs) closeDescriptor(slab.fd);
    try {
      this.#registered?.agent.deregister(this.#registered.registration);
    } catch (error) {
      // The transport may still reach the memory: it stays mapped, on purpose.
      console.warn(`nixl-media: ${this.budgetBytes} bytes could not be deregistered and stay mapped: ${error}`);
      return;
    }
    this.#range.abandon();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #checkOpen(): void {
    if (this.#disposed) throw new MediaError("closed", "the slab pool was disposed");
  }

  /**
   * Gives the owner the shortest run of neighbouring slabs that nobody has and that is long enough, together with what the
   * owner has free on either side of it; slabs that would have to be cleared first only when there are no others.
   */
  #takeFromNewSlabs(owner: OwnerId, entry: Owner, byteLength: number): number | null {
    const run =
      this.#findRun(entry, byteLength, (slab) => slab.owner === null && !this.#needsClearing(slab, owner)) ??
      this.#findRun(entry, byteLength, (slab) => slab.owner === null);
    if (!run) return null;
    for (const slab of run) this.#grant(owner, entry, slab, false);
    return entry.free.take(byteLength);
  }

  #findRun(entry: Owner, byteLength: number, isFree: (slab: Slab) => boolean): readonly Slab[] | null {
    const longest = Math.ceil(byteLength / this.slabBytes);
    for (let count = 1; count <= longest; count++) {
      for (let first = 0; first + count <= this.#slabs.length; first++) {
        const run = this.#slabs.slice(first, first + count);
        const end = (first + count) * this.slabBytes;
        const around = entry.free.endingAt(first * this.slabBytes) + entry.free.startingAt(end);
        if (around + count * this.slabBytes >= byteLength && run.every(isFree)) return run;
      }
    }
    return null;
  }

  #needsClearing(slab: Slab, owner: OwnerId): boolean {
    return this.#cleaner.isDirty(slab.offset) || (slab.wasHosts && owner !== HOST_OWNER);
  }

  /** When the owner cannot be told, it is its business to end: the slab may be mapped there already and stays its own. */
  #grant(owner: OwnerId, entry: Owner, slab: Slab, isAhead: boolean): void {
    if (slab.wasHosts && owner !== HOST_OWNER) this.#cleaner.add({ ...slab, bytes: this.#viewOf(slab) });
    this.#cleaner.finish(slab.offset);
    slab.owner = owner;
    slab.wasHosts = owner === HOST_OWNER;
    const { offset, fd } = slab;
    try {
      this.onGrant?.({ owner, offset, byteLength: this.slabBytes, fd, prefault: isAhead });
    } finally {
      entry.free.add({ offset, byteLength: this.slabBytes });
    }
  }

  #viewOf(slab: Slab): Uint8Array {
    return this.#range.view(slab.offset, this.slabBytes);
  }

  #isEmpty(slab: Slab): boolean {
    const free = slab.owner === null ? null : this.#owners.get(slab.owner)?.free;
    return free?.contains({ offset: slab.offset, byteLength: this.slabBytes }) ?? false;
  }

  /** A child that lives has its slabs mapped and may still write to them; this process gives up what it does not use. */
  #mayReclaim(owner: OwnerId, entry: Owner): boolean {
    return !this.#disposed && (!entry.alive || owner === HOST_OWNER);
  }

  #reclaim(owner: OwnerId, entry: Owner): void {
    for (const slab of this.#slabs) {
      if (slab.owner !== owner || !entry.free.remove({ offset: slab.offset, byteLength: this.slabBytes })) continue;
      slab.owner = null;
      if (owner !== HOST_OWNER) this.#cleaner.add({ ...slab, bytes: this.#viewOf(slab) });
    }
    if (!entry.alive && !this.#slabs.some((slab) => slab.owner === owner)) this.#owners.delete(owner);
  }
}
