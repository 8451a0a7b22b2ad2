/** Who slabs belong to, and what an owner is told of one. */
import type { AgedExtent, FreeExtents } from "./extents.ts";

/** Who may write to a slab: the id of a decoder child, or {@link HOST_OWNER}. */
export type OwnerId = number;
/** This process itself. */
export const HOST_OWNER: OwnerId = 0;

/** A slab, and who has it. */
export interface Slab {
  readonly offset: number;
  readonly fd: number;
  owner: OwnerId | null;
  /** Whether this process had it last. It is not cleared until another owner gets it: most often this process does, again. */
  wasHosts: boolean;
  /** While nobody has it: what it consists of, since readers do not mind whose it is in the meantime. */
  free: readonly AgedExtent[];
}

/** What an owner has to give. */
export interface Owner {
  readonly free: FreeExtents;
  alive: boolean;
}

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
