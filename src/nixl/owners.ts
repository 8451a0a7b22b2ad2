/** Who slabs belong to, and what an owner is told of one. */

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
