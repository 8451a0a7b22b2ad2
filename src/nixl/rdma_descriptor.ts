/** From a tensor to the descriptor that a worker reads it by. */
import { MediaError } from "../errors.ts";
import { type DecodedMedia, MediaDescriptor, type PayloadLease, type TensorInfo } from "../tensor/index.ts";
import { watchForgotten } from "./forgotten.ts";
import { HOST_OWNER } from "./owners.ts";
import type { Room } from "./room.ts";
import type { SlabPool } from "./slab_pool.ts";

/** A room as what keeps a descriptor's payload. */
class RoomLease implements PayloadLease {
  readonly #room: Room;

  constructor(room: Room) {
    this.#room = room;
    watchForgotten(this, room);
  }

  get bytes(): Uint8Array {
    return this.#room.payload;
  }

  get released(): boolean {
    return this.#room.disposed;
  }

  dispose(): void {
    this.#room.dispose();
  }
}

/** A lease whose holder may be told by a reader that it has read. */
export interface ReleasableLease extends PayloadLease {
  /** What the reader says then; null when it is not to. */
  readonly releaseKey: string | null;
}

/**
 * The descriptor of a tensor that lies in a room, which readers may know from then on.
 * @param contentHash 16 hex digits, or null to leave it out
 * @param lease what keeps the room for the descriptor, which owns it from then on; by default the room itself
 */
export function describeRoom(
  pool: SlabPool,
  room: Room,
  info: TensorInfo,
  contentHash: string | null,
  lease?: ReleasableLease,
): MediaDescriptor {
  const nixlMetadata = pool.metadataText;
  room.publish();
  return new MediaDescriptor(
    {
      nixl_metadata: nixlMetadata,
      nixl_descriptor: { addr: room.address, size: room.payloadBytes, mem_type: "Dram", device_id: 0 },
      shape: [...info.shape],
      dtype: info.dtype,
      metadata: info.metadata,
      ...(contentHash === null ? {} : { content_hash: contentHash }),
      ...(lease?.releaseKey ? { release_key: lease.releaseKey } : {}),
    },
    lease ?? new RoomLease(room),
  );
}

/**
 * Puts a tensor of this process into registered memory (one copy) and describes it. The content hash goes over as it is:
 * it is not computed here, since this runs on the caller's event loop.
 * @returns a descriptor that keeps the memory until it is disposed
 * @throws MediaError registration_failed for an empty payload; no_room, medium_exceeds_pool
 */
export function intoRdmaDescriptor(media: DecodedMedia, pool: SlabPool): MediaDescriptor {
  if (media.bytes.byteLength === 0) {
    throw new MediaError(
      "registration_failed",
      "The storage could not be registered with NIXL: an empty payload has no address",
    );
  }
  const room = pool.take(HOST_OWNER, media.bytes.byteLength);
  try {
    room.payload.set(media.bytes);
    return describeRoom(pool, room, media.info, media.contentHash);
  } catch (error) {
    room.dispose();
    throw error;
  }
}
