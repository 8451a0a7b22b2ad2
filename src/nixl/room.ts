/** Registered memory for one tensor. */
import { roundToPages } from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";
import type { Extent } from "./extents.ts";

/** Registered memory for one tensor; `dispose()` gives it back. */
export class Room implements Disposable {
  #extent: Extent | null;
  #payload: Uint8Array;
  readonly #giveBack: (extent: Extent, last: boolean) => void;

  constructor(
    /** All of the room in the pool, header included, whole pages. */
    extent: Extent,
    /** Bytes in front of the payload, whole pages. */
    readonly headerBytes: number,
    /** Address of the payload in this process: what readers are told. A multiple of the page size. */
    readonly address: number,
    payload: Uint8Array,
    giveBack: (extent: Extent, last: boolean) => void,
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

  /** Bytes of the tensor. */
  get payloadBytes(): number {
    return this.#payload.byteLength;
  }

  get disposed(): boolean {
    return this.#extent === null;
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
    if (tail.byteLength > 0) this.#giveBack(tail, false);
  }

  dispose(): void {
    const extent = this.#extent;
    this.#extent = null;
    if (extent) this.#giveBack(extent, true);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
