/** What the decoder pool needs of the memory it decodes into; src/nixl's slab pool is one. */

/** Memory for one tensor. */
export interface RoomMemory extends Disposable {
  /** Where the header bytes begin, counted from the start of all slabs. */
  readonly offset: number;
  /** Bytes in front of the payload. */
  readonly headerBytes: number;
  readonly payloadBytes: number;
  /** Gives back what lies behind the first `payloadBytes` bytes. */
  shrink(payloadBytes: number): void;
  dispose(): void;
}

/** A slab that was given to an owner. */
export interface SlabGrant {
  readonly owner: number;
  readonly offset: number;
  readonly byteLength: number;
  readonly fd: number;
  /** Whether the owner is to touch its pages at once, so that no page fault falls into a job. */
  readonly prefault: boolean;
}

/** Where rooms come from. Each decoder child is an owner; a slab is mapped in one child only. */
export interface RoomSource<Memory extends RoomMemory> {
  /** Bytes of one slab. */
  readonly slabBytes: number;
  /** Bytes of all slabs. */
  readonly budgetBytes: number;
  addOwner(owner: number): void;
  /** The owner can take slabs, and may be granted its first one ahead. @throws what {@link onGrant} throws */
  prepareOwner(owner: number): void;
  /** The owner's process has been reaped. */
  removeOwner(owner: number): void;
  /** @throws MediaError no_room, medium_exceeds_pool */
  take(owner: number, payloadBytes: number, headerBytes?: number): Memory;
  /** Whether {@link take} would give the owner such a room now. */
  canTake(owner: number, payloadBytes: number, headerBytes?: number): boolean;
  /** Whether the owner has slabs in which there is no room. */
  hasEmptySlabs(owner: number): boolean;
  /** Whether a room of that size would fit if these owners, which are idle, were gone. */
  wouldFitWithout(owners: ReadonlySet<number>, payloadBytes: number, headerBytes?: number): boolean;
  /** Whether one of these owners, which are idle, could take it later, or without them it would fit, when quarantine is over. */
  wouldFitLater(owners: ReadonlySet<number>, payloadBytes: number, headerBytes?: number): boolean;
  /**
   * Has rooms given back that are only kept for later use, no more than needed, until {@link wouldFitLater} holds; none when it
   * would not help. @returns whether it holds now
   */
  giveUpSpareRooms(payloadBytes: number, headerBytes: number, owners: ReadonlySet<number>): boolean;
  /**
   * Ends the quarantine of rooms, oldest first and no more than needed, until one of these owners can take such a room or it
   * would fit without them. @returns whether that is so now
   */
  shortenQuarantine(payloadBytes: number, headerBytes: number, owners: ReadonlySet<number>): boolean;
  /** Called for each slab before the first room in it. */
  onGrant: ((grant: SlabGrant) => void) | null;
  /** Called when this process itself, which is no decoder's owner, was refused a room. */
  onHostRefused: ((payloadBytes: number, headerBytes: number) => void) | null;
  /** Called when a room that was refused may be had now; in the middle of things, so nothing is to be taken at once. */
  onRoom: (() => void) | null;
}
