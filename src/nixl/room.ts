/** Registered memory for one tensor. */
import { roundToPages } from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";
import type { Extent } from "./extents.ts";

/** A part of a room that comes back to its pool. */
export interface ReturnedExtent {
  readonly extent: Extent;
  /** Whether nothing is left of the room. */
  readonly isLast: boolean;
  /** When the last descriptor of it was given back, as `performance.now()` counts; null when no reader ever knew of it. */
  readonly describedUntil: number | null;
}

/** Registered memory for one tensor; `dispose()` gives it back. */
export class Room implements Disposable {
  #extent: Extent | null;
  #payload: Uint8Array;
  #published = false;
  readonly #giveBack: (returned: ReturnedExtent) => void;

  constructor(
    /** All of the room in the pool, header included, whole pages. */
    extent: Extent,
    /** Bytes in front of the payload, whole pages. */
    readonly headerBytes: number,
    /** Address of the payload in this process: what readers are told. A multiple of the page size. */
    readonly address: number,
    payload: Uint8Array,
    giveBack: (returned: ReturnedExtent) => void,
  ) {
    this.offset = extent.offset;
    this.#extent = extent;
    this.#payload = payload;
    this.#giveBack = giveBack;
  }

  /** Where the header bytes begin in the pool. */
  readonly offset: number;

  /** The tensor. Not to be touched after `dispose()`: the bytes then belong to another tensor. */
  get payload(): Uint8Array {
    return this.#payload;
  }

  /** Bytes that it takes in the pool, header included; 0 when it was given back. */
  get byteLength(): number {
    return this.#extent?.byteLength ?? 0;
  }

  /** Bytes of the tensor. */
  get payloadBytes(): number {
    return this.#payload.byteLength;
  }

  get disposed(): boolean {
    return this.#extent === null;
  }

  /** Whether readers may know the address. */
  get published(): boolean {
    return this.#published;
  }

  /**
   * From now on readers may know the address: the room is not used again at once when it is given back, but waits in
   * quarantine, since a reader that was slow may only then begin to read. @throws MediaError closed
   */
  publish(): void {
    if (!this.#extent) throw new MediaError("closed", "the room was given back");
    this.#published = true;
  }

  /** Gives back what lies behind the first `payloadBytes` bytes. @throws MediaError invalid_argument, closed */
  shrink(payloadBytes: number): void {
    if (!this.#extent) throw new MediaError("closed", "the room was given back");
    if (!(payloadBytes > 0 && payloadBytes <= this.payloadBytes)) {
      throw new MediaError("invalid_argument", `a room of ${this.payloadBytes} bytes cannot shrink to ${payloadBytes}`);
    }
    const kept = this.headerBytes + roundToPages(payloadBytes);
    const tail = { offset: this.offset + kept, byteLength: this.#extent.byteLength - kept };
    this.#payload = this.#payload.subarray(0, payloadBytes);
    this.#extent = { offset: this.offset, byteLength: kept };
    if (tail.byteLength > 0) this.#return(tail, false, performance.now());
  }

  /**
   * Gives the room back; idempotent.
   * @param describedUntil when the last descriptor of it was given back, as `performance.now()` counts: a cache that keeps
   *   the room for longer knows an earlier moment, and the time in quarantine counts from there. Never later than now.
   */
  dispose(describedUntil: number = performance.now()): void {
    const extent = this.#extent;
    this.#extent = null;
    if (extent) this.#return(extent, true, Math.min(describedUntil, performance.now()));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #return(extent: Extent, isLast: boolean, describedUntil: number): void {
    this.#giveBack({ extent, isLast, describedUntil: this.#published ? describedUntil : null });
  }
}

/** A room that is kept for later use only, as a cache keeps it. */
export interface SpareRoom {
  readonly room: Room;
  /** Has its keeper give the room back. */
  readonly giveUp: () => void;
}
