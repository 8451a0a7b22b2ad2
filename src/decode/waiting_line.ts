/** Media that wait for a decoder child, within limits. */
import { type EncodedMedium, startOf } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import type { Decoded, RoomRefused } from "./jobs.ts";
import type { DecodeRequest } from "./protocol.ts";
import type { RoomMemory } from "./rooms.ts";

/** A medium on its way to a child, and what it has met so far. */
export interface WaitingJob<Memory extends RoomMemory> {
  readonly request: DecodeRequest;
  readonly encoded: EncodedMedium;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (decoded: Decoded<Memory>) => void;
  readonly reject: (error: unknown) => void;
  /** Grows from one medium to the next. */
  readonly arrival: number;
  /** When it was first refused a room, as `performance.now()` counts; null while it was not. */
  refusedAt: number | null;
  /** The last refusal. */
  refusal: RoomRefused | null;
  /** Whether a child was gone before it began with it. */
  wasNotTaken: boolean;
  /** Runs while it waits for a decoder. */
  deadline: ReturnType<typeof setTimeout> | undefined;
}

/** Jobs in the order in which they came, and the memory that they hold. */
export class WaitingLine<Memory extends RoomMemory> {
  readonly #limits: { readonly queueLimit: number; readonly queueBytes: number };
  readonly #jobs: WaitingJob<Memory>[] = [];
  #bytes = 0;

  constructor(limits: { readonly queueLimit: number; readonly queueBytes: number }) {
    this.#limits = limits;
  }

  get length(): number {
    return this.#jobs.length;
  }

  /** Those that wait now; the line may change while they are looked at. */
  jobs(): readonly WaitingJob<Memory>[] {
    return [...this.#jobs];
  }

  /**
   * @param otherBytes what is held by those who wait elsewhere
   * @throws MediaError overloaded when one more would be too many
   */
  checkSpace(encoded: EncodedMedium, otherBytes: number): void {
    const { queueLimit, queueBytes } = this.#limits;
    const bytes = this.#bytes + otherBytes;
    if (this.#jobs.length >= queueLimit) throw overloadedError(`${queueLimit} media wait already`);
    if (bytes + heldBytes(encoded) > queueBytes) throw overloadedError(`${bytes} bytes wait already`);
  }

  add(job: WaitingJob<Memory>): void {
    this.#bytes += heldBytes(job.encoded);
    this.#jobs.push(job);
  }

  addFirst(job: WaitingJob<Memory>): void {
    this.#bytes += heldBytes(job.encoded);
    this.#jobs.unshift(job);
  }

  /** @returns whether it was waiting */
  remove(job: WaitingJob<Memory>): boolean {
    const index = this.#jobs.indexOf(job);
    if (index < 0) return false;
    this.#jobs.splice(index, 1);
    this.#bytes -= heldBytes(job.encoded);
    return true;
  }
}

export function overloadedError(reason: string): MediaError {
  return new MediaError("overloaded", `No decoder is free for the medium: ${reason}`);
}

/** Memory that a waiting medium takes in this process, bytes: of a file, its beginning. */
export function heldBytes(encoded: EncodedMedium): number {
  return startOf(encoded).byteLength;
}
