/** How long descriptors keep their memory: until they are disposed of, a reader says that it is done, or the time is up. */
import { randomBytes } from "node:crypto";
import type { ReleasableLease } from "../nixl/index.ts";
import type { SharedTensor } from "./shared_tensor.ts";

/** Bytes of a release key: nobody guesses it. */
const RELEASE_KEY_BYTES = 16;

/** Counts since the loader was created, and what is held now. */
export interface HoldStats {
  /** Descriptors that keep memory now. */
  readonly held: number;
  /** Descriptors whose time was up before anybody gave them back. */
  readonly leaked: number;
  /** Descriptors that their readers gave back. */
  readonly releasedByReaders: number;
}

/** One descriptor's hold on a tensor. */
class Hold implements ReleasableLease {
  /** What a reader gives it back with; null when readers are not to. */
  readonly releaseKey: string | null;
  readonly #tensor: SharedTensor;
  readonly #end: (hold: Hold) => void;
  readonly #expire: (hold: Hold) => void;
  readonly #maxHoldMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #released = false;

  constructor(
    tensor: SharedTensor,
    releaseKey: string | null,
    maxHoldMs: number,
    end: (hold: Hold) => void,
    expire: (hold: Hold) => void,
  ) {
    this.#tensor = tensor;
    this.releaseKey = releaseKey;
    this.#maxHoldMs = maxHoldMs;
    this.#end = end;
    this.#expire = expire;
    this.#startTimer();
  }

  get bytes(): Uint8Array {
    return this.#tensor.room.payload;
  }

  get released(): boolean {
    return this.#released || this.#tensor.room.disposed;
  }

  /** The whole time again, from now. @returns false when the memory was given back */
  renew(): boolean {
    if (this.released) return false;
    clearTimeout(this.#timer);
    this.#startTimer();
    return true;
  }

  dispose(): void {
    if (this.#released) return;
    this.#released = true;
    clearTimeout(this.#timer);
    this.#tensor.noteDescriptorEnded();
    this.#tensor.release();
    this.#end(this);
  }

  #startTimer(): void {
    this.#timer = setTimeout(() => this.#expire(this), this.#maxHoldMs);
    this.#timer.unref(); // what is held is no reason for the program to go on
  }
}

/** All holds of one loader. */
export class Holds {
  readonly #maxHoldMs: number;
  readonly #givesKeys: boolean;
  readonly #held = new Set<Hold>();
  readonly #byKey = new Map<string, Hold>();
  #leaked = 0;
  #releasedByReaders = 0;

  /**
   * @param maxHoldMs after which a descriptor counts as leaked and its memory is given back, ms
   * @param givesKeys whether readers may give memory back
   */
  constructor(maxHoldMs: number, givesKeys: boolean) {
    this.#maxHoldMs = maxHoldMs;
    this.#givesKeys = givesKeys;
  }

  get stats(): HoldStats {
    return { held: this.#held.size, leaked: this.#leaked, releasedByReaders: this.#releasedByReaders };
  }

  /**
   * A descriptor's lease on a tensor, of which it takes over the caller's share.
   * @param onEnd called once, when it is over, in whichever way
   */
  begin(tensor: SharedTensor, onEnd: () => void): ReleasableLease {
    const key = this.#givesKeys ? randomBytes(RELEASE_KEY_BYTES).toString("hex") : null;
    const end = (hold: Hold): void => {
      this.#held.delete(hold);
      if (key !== null) this.#byKey.delete(key);
      onEnd();
    };
    const hold = new Hold(tensor, key, this.#maxHoldMs, end, (expired) => this.#leak(expired));
    this.#held.add(hold);
    if (key !== null) this.#byKey.set(key, hold);
    return hold;
  }

  /** A reader left a message: when it is a release key, the descriptor that carried it is given back. */
  releaseByKey(message: string): void {
    const hold = this.#byKey.get(message);
    if (!hold) return;
    this.#releasedByReaders += 1;
    hold.dispose();
  }

  /** Ends all holds. */
  dispose(): void {
    for (const hold of [...this.#held]) hold.dispose();
  }

  #leak(hold: Hold): void {
    this.#leaked += 1;
    console.warn(
      `nixl-media: a descriptor of ${hold.bytes.byteLength} bytes was neither disposed of nor renewed for ${this.#maxHoldMs / 1000} s; its memory is given back`,
    );
    hold.dispose();
  }
}
