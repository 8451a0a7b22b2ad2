/** A decoded tensor that several descriptors and the cache share; its room is given back by the last of them. */
import type { DecodedTensor } from "../decode/index.ts";
import { MediaError } from "../errors.ts";
import type { Room } from "../nixl/index.ts";

/** Whoever makes one has it; everybody else retains it, and all release it. */
export class SharedTensor {
  readonly room: Room;
  readonly tensor: DecodedTensor;
  /** Bytes that it takes in the pool. */
  readonly roomBytes: number;
  #users = 1;
  #describedUntil: number | null = null;

  constructor(room: Room, tensor: DecodedTensor) {
    this.room = room;
    this.tensor = tensor;
    this.roomBytes = room.byteLength;
  }

  /** Descriptors, loads and caches that have it. */
  get users(): number {
    return this.#users;
  }

  /** Another user. @throws MediaError closed when the last one has gone already */
  retain(): this {
    if (this.#users === 0) throw new MediaError("closed", "the tensor was given back");
    this.#users += 1;
    return this;
  }

  /** A descriptor of it has ended: from now on nobody new should begin to read through that one. */
  noteDescriptorEnded(): void {
    this.#describedUntil = performance.now();
  }

  /** One user less; the last one gives the room back. A reader of the last descriptor that ended may be late, which the pool waits for. */
  release(): void {
    if (this.#users === 0) return;
    this.#users -= 1;
    if (this.#users === 0) this.room.dispose(this.#describedUntil ?? performance.now());
  }
}
