/**
 * The memory that readers read from: memfd-backed slabs side by side in one range of addresses, registered with NIXL once.
 *
 * All slabs of the budget are created at start-up and registered at once, so nothing is registered per medium and the metadata
 * text never changes. A slab belongs to one owner (a decoder child, or this process) as long as that owner lives, and is
 * mapped nowhere else: no decoder sees what another one decoded. A medium larger than a slab gets neighbouring slabs,
 * which lie in one registration and are therefore one readable piece.
 *
 * Workers read once, some time after they got a descriptor, and do not say when they are done. What was described is therefore
 * in quarantine for a while after it was given back, and what has been free longest is used first.
 */
import type { NativeRegistration } from "../../ffi/agent.ts";
import { AddressRange, PAGE_BYTES, roundToPages } from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import type { NixlAgent } from "./agent.ts";
import { type Fit, fewestThatFit, isInTheWay } from "./fit.ts";
import { HOST_OWNER, type OwnerId, type SlabGrant } from "./owners.ts";
import { Quarantine, type QuarantineState } from "./quarantine.ts";
import { type ReturnedExtent, Room, type SpareRoom } from "./room.ts";
import { type SlabPoolOptions, slabPoolOptionsSchema } from "./slab_pool_options.ts";
import { type OwnedExtent, Slabs } from "./slabs.ts";

const NOBODY: ReadonlySet<OwnerId> = new Set();
const HOST: ReadonlySet<OwnerId> = new Set([HOST_OWNER]);

/** Slabs, and the rooms in them. Owned by whoever opened it; `dispose()` ends it before its agent. */
export class SlabPool implements Disposable {
  readonly slabBytes: number;
  readonly #range: AddressRange;
  readonly #slabs: Slabs;
  readonly #prefault: boolean;
  readonly #quarantineMs: number;
  readonly #quarantine = new Quarantine((room) => this.#slabs.giveBack(room));
  #shortened = 0;
  #registered: { readonly agent: NixlAgent; readonly registration: NativeRegistration } | null = null;
  readonly #rooms = new Map<Room, OwnerId>();
  #roomBytes = 0;
  #disposed = false;
  /** Told of each slab before the first room in it is given; set by whoever runs the owners. */
  onGrant: ((grant: SlabGrant) => void) | null = null;
  /** Told when this process itself was refused a room, so that idle owners may make some for the next try. */
  onHostRefused: ((payloadBytes: number, headerBytes: number) => void) | null = null;
  /**
   * Told when a room that was refused may be had now: one was given back, its quarantine is over, or a slab changes hands. It is
   * called in the middle of things, so whoever wants to take a room does it a little later.
   */
  onRoom: (() => void) | null = null;
  /** Asked, when there is no room, for those that could be given up, the one that is missed least in front; set by whoever keeps them. */
  spareRooms: (() => readonly SpareRoom[]) | null = null;

  /** Creates and maps all slabs. Rooms can be given from then on. @throws MediaError system_failed, invalid_options */
  constructor(options: SlabPoolOptions = {}) {
    const settings = parseOptions(slabPoolOptionsSchema, options, "pool options");
    this.slabBytes = settings.slabBytes;
    this.#prefault = settings.prefault;
    this.#quarantineMs = settings.quarantineMs;
    this.#range = new AddressRange(Math.floor(settings.budgetBytes / settings.slabBytes) * this.slabBytes);
    try {
      this.#slabs = new Slabs(this.#range, settings);
    } catch (error) {
      this.#range.release();
      throw error;
    }
    this.#slabs.onGrant = (grant) => this.onGrant?.(grant);
    this.#slabs.onFree = () => this.onRoom?.();
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

  /** Rooms given out and not given back, and their bytes with headers. Those in {@link quarantine} are not among them. */
  get occupancy(): { readonly rooms: number; readonly bytes: number } {
    return { rooms: this.#rooms.size, bytes: this.#roomBytes };
  }

  /** Rooms that were given back and cannot be used yet, and how many had to be used before their time. */
  get quarantine(): QuarantineState {
    return { rooms: this.#quarantine.rooms.length, bytes: this.#quarantine.bytes, shortened: this.#shortened };
  }

  /** A new owner without slabs. */
  addOwner(owner: OwnerId): void {
    this.#slabs.addOwner(owner);
  }

  /**
   * The owner can take slabs. When pages are touched ahead, it is granted its first slab ahead too, as long as half of all slabs
   * stay free for whoever needs several.
   * @throws whatever {@link onGrant} throws
   */
  prepareOwner(owner: OwnerId): void {
    if (this.#prefault) this.#slabs.grantAhead(owner);
  }

  /**
   * The owner is gone for good (a process that has been reaped): its slabs go to others as soon as no room is left in them, nor
   * one in quarantine.
   */
  removeOwner(owner: OwnerId): void {
    this.#slabs.removeOwner(owner);
  }

  /** Whether {@link take} would give the owner such a room now. */
  canTake(owner: OwnerId, payloadBytes: number, headerBytes: number = PAGE_BYTES): boolean {
    return !this.#disposed && this.#slabs.canTake(owner, totalBytes(payloadBytes, headerBytes));
  }

  /**
   * Whether a room of that size would fit if these owners were gone, which are idle: whether ending them is worth it.
   * @param headerBytes as for {@link take}
   */
  wouldFitWithout(owners: ReadonlySet<OwnerId>, payloadBytes: number, headerBytes: number = PAGE_BYTES): boolean {
    return this.#slabs.fit(null, owners, totalBytes(payloadBytes, headerBytes)) !== null;
  }

  /**
   * Whether one of these owners, which are idle, will be able to take such a room, or would if all of them were ended, once all
   * quarantine is over: whether it is enough to wait for that.
   */
  wouldFitLater(owners: ReadonlySet<OwnerId>, payloadBytes: number, headerBytes: number = PAGE_BYTES): boolean {
    return this.#fitIf(this.#quarantine.rooms, owners, totalBytes(payloadBytes, headerBytes)) !== null;
  }

  /**
   * Has {@link spareRooms} given up until {@link wouldFitLater} holds: of as few of the first ones as will do, those that are in
   * the way; none when even all of them would not do.
   * @returns whether it holds now
   */
  giveUpSpareRooms(
    payloadBytes: number,
    headerBytes: number = PAGE_BYTES,
    owners: ReadonlySet<OwnerId> = NOBODY,
  ): boolean {
    if (this.wouldFitLater(owners, payloadBytes, headerBytes)) return true;
    const spare = (this.spareRooms?.() ?? []).map((entry) => ({ ...entry, ...this.#ownedExtentOf(entry.room) }));
    const needed = fewestThatFit(spare, (some) =>
      this.#fitIf([...this.#quarantine.rooms, ...some], owners, totalBytes(payloadBytes, headerBytes)),
    );
    if (!needed) return false;
    for (const entry of needed.some) if (isInTheWay(needed.fit, entry, this.slabBytes)) entry.giveUp();
    return true;
  }

  /**
   * Ends quarantine, oldest first, until one of these owners can take such a room, or could if all of them were ended. Only what
   * is in the way of that room is ended; nothing when it would not help.
   * @returns whether there is such a place now
   */
  shortenQuarantine(
    payloadBytes: number,
    headerBytes: number = PAGE_BYTES,
    owners: ReadonlySet<OwnerId> = NOBODY,
  ): boolean {
    const byteLength = totalBytes(payloadBytes, headerBytes);
    const needed = fewestThatFit(this.#quarantine.rooms, (some) => this.#fitIf(some, owners, byteLength));
    if (!needed) return false;
    const ended = needed.some.filter((room) => isInTheWay(needed.fit, room, this.slabBytes));
    this.#quarantine.remove(new Set(ended));
    this.#shortened += ended.length;
    for (const room of ended) this.#slabs.giveBack(room);
    return true;
  }

  /** Whether the owner has slabs in which there is no room. */
  hasEmptySlabs(owner: OwnerId): boolean {
    return this.#slabs.hasEmptySlabs(owner);
  }

  /**
   * Memory for a tensor in the owner's slabs, with at least `headerBytes` in front of it. Another slab is given to the
   * owner when its own are full. This process itself, which does not wait in line for room, gets it at the cost of
   * {@link spareRooms} and of quarantine, when there is no other.
   * @param payloadBytes bytes of the tensor
   * @param headerBytes bytes that go in front of the tensor for hashing, one page unless said otherwise
   * @throws MediaError medium_exceeds_pool when it can never fit, no_room when it does not fit now, closed; what
   *   {@link onGrant} throws when the owner cannot be told of a slab
   */
  take(owner: OwnerId, payloadBytes: number, headerBytes: number = PAGE_BYTES): Room {
    this.#checkOpen();
    if (!Number.isSafeInteger(payloadBytes) || payloadBytes <= 0) {
      throw new MediaError("invalid_argument", "a room has at least one byte");
    }
    if (!this.#slabs.isAlive(owner)) throw new MediaError("closed", "the owner of the room is gone");
    const header = roundToPages(headerBytes);
    const byteLength = header + roundToPages(payloadBytes);
    if (byteLength > this.budgetBytes) {
      throw new MediaError(
        "medium_exceeds_pool",
        `${byteLength} bytes can never fit a pool of ${this.budgetBytes} bytes`,
      );
    }
    const offset = this.#slabs.take(owner, byteLength) ?? this.#takeUnderPressure(owner, payloadBytes, headerBytes);
    if (offset === null) {
      if (owner === HOST_OWNER) this.onHostRefused?.(payloadBytes, headerBytes);
      throw new MediaError("no_room", `The pool has no room for ${byteLength} bytes now`);
    }
    this.#roomBytes += byteLength;
    const start = offset + header;
    const payload = this.#range.view(start, payloadBytes);
    const room: Room = new Room({ offset, byteLength }, header, this.#range.address + start, payload, (returned) => {
      if (returned.isLast) this.#rooms.delete(room);
      this.#giveBack(owner, returned);
    });
    this.#rooms.set(room, owner);
    return room;
  }

  /** Ends all rooms, deregisters, gives the memory back; idempotent. Views that are still held read as zeros from then on. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#quarantine.dispose();
    for (const room of this.#rooms.keys()) room.dispose();
    this.#slabs.dispose();
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

  #giveBack(owner: OwnerId, { extent, describedUntil }: ReturnedExtent): void {
    this.#roomBytes -= extent.byteLength;
    if (this.#disposed) return;
    const until = describedUntil === null ? 0 : describedUntil + this.#quarantineMs;
    if (until > performance.now()) {
      this.#quarantine.add({ owner, extent, until });
      this.onRoom?.();
    } else {
      this.#slabs.giveBack({ owner, extent });
    }
  }

  #takeUnderPressure(owner: OwnerId, payloadBytes: number, headerBytes: number): number | null {
    if (owner !== HOST_OWNER) return null;
    const byteLength = totalBytes(payloadBytes, headerBytes);
    if (!this.giveUpSpareRooms(payloadBytes, headerBytes, HOST)) return null;
    if (!this.shortenQuarantine(payloadBytes, headerBytes, HOST)) return null;
    return this.#slabs.take(owner, byteLength);
  }

  /** Where there would be a place for one of these owners, or without all of them, if this space were given back. */
  #fitIf(given: readonly OwnedExtent[], owners: ReadonlySet<OwnerId>, byteLength: number): Fit | null {
    for (const owner of owners) {
      const fit = this.#slabs.fit(owner, NOBODY, byteLength, given);
      if (fit) return fit;
    }
    return this.#slabs.fit(null, owners, byteLength, given);
  }

  #ownedExtentOf(room: Room): OwnedExtent {
    const { offset, byteLength } = room;
    return { owner: this.#rooms.get(room) ?? HOST_OWNER, extent: { offset, byteLength } };
  }
}

function totalBytes(payloadBytes: number, headerBytes: number): number {
  return roundToPages(headerBytes) + roundToPages(payloadBytes);
}
