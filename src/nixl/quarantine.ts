/** Rooms that were given back and that readers may still be reading: not free before their time is over. */
import type { Extent } from "./extents.ts";

/** A room, or the tail of one, in quarantine. */
export interface QuarantinedRoom {
  /** Whose slabs it lies in. */
  readonly owner: number;
  readonly extent: Extent;
  /** When its time is over, as `performance.now()` counts. */
  readonly until: number;
}

/** Rooms that were given back and rest for the sake of slow readers. */
export interface QuarantineState {
  readonly rooms: number;
  /** With headers. */
  readonly bytes: number;
  /** Rooms whose time was cut short since there was no other room: a slow reader of one may have read something else. */
  readonly shortened: number;
}

/** Rooms in quarantine, the one that leaves it first in front. Its timer keeps no process alive. */
export class Quarantine {
  readonly #rooms: QuarantinedRoom[] = [];
  readonly #onOver: (room: QuarantinedRoom) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #bytes = 0;

  /** @param onOver told of each room whose time is over, which is in quarantine no more */
  constructor(onOver: (room: QuarantinedRoom) => void) {
    this.#onOver = onOver;
  }

  /** In the order in which they leave. */
  get rooms(): readonly QuarantinedRoom[] {
    return this.#rooms;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(room: QuarantinedRoom): void {
    // Most rooms come in the order in which they leave, so the place is looked for from the end.
    const index = this.#rooms.findLastIndex((other) => other.until <= room.until) + 1;
    this.#rooms.splice(index, 0, room);
    this.#bytes += room.extent.byteLength;
    if (index === 0) this.#arm();
  }

  /** Takes rooms out before their time. The caller deals with them. */
  remove(rooms: ReadonlySet<QuarantinedRoom>): void {
    for (let index = this.#rooms.length - 1; index >= 0; index--) {
      const room = this.#rooms[index];
      if (!room || !rooms.has(room)) continue;
      this.#rooms.splice(index, 1);
      this.#bytes -= room.extent.byteLength;
    }
    this.#arm();
  }

  /** Stops; the memory is about to be unmapped. */
  dispose(): void {
    clearTimeout(this.#timer);
    this.#rooms.length = 0;
    this.#bytes = 0;
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const [first] = this.#rooms;
    if (!first) return;
    this.#timer = setTimeout(() => this.#end(), Math.max(1, Math.ceil(first.until - performance.now())));
    this.#timer.unref();
  }

  #end(): void {
    const now = performance.now();
    const younger = this.#rooms.findIndex((room) => room.until > now);
    const over = this.#rooms.splice(0, younger < 0 ? this.#rooms.length : younger);
    for (const room of over) this.#bytes -= room.extent.byteLength;
    this.#arm();
    for (const room of over) this.#onOver(room);
  }
}
