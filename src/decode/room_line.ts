/**
 * The line of media that wait for room: each knows how large a room it needs, since a decoder was refused it.
 *
 * Strictly in order: who stands in front is helped first, by what a cache gives back, by ending children that sit on empty
 * slabs, by waiting, and after a while by ending quarantine early. Where the one in front does not fit, a larger one does not
 * either, and smaller ones must not take what it waits for. A medium that leaves the line takes its room with it to the child,
 * so that it is not refused a second time.
 */
import { roundToPages } from "../../ffi/memory.ts";
import { asMediaError, MediaError } from "../errors.ts";
import { type DecoderChild, isPeerGone } from "./decoder_child.ts";
import type { RoomRefused } from "./jobs.ts";
import type { RoomMemory, RoomSource } from "./rooms.ts";
import { heldBytes, type WaitingJob } from "./waiting_line.ts";

/** How much longer a medium waits when children are just being replaced to make room for it, ms. */
const REPLACEMENT_MS = 2000;

/** How many media wait for room, and how long. */
export interface RoomLineLimits {
  readonly roomQueueLimit: number;
  readonly roomTimeoutMs: number;
  readonly quarantinePatienceMs: number;
}

/** The children that the line gives its media to. */
export interface LineDecoders<Memory extends RoomMemory> {
  idle(): readonly DecoderChild<Memory>[];
  living(): readonly DecoderChild<Memory>[];
  /** As {@link Children.retireForRoom}. */
  retireForRoom(payloadBytes: number, headerBytes: number): Promise<unknown> | null;
  /** Runs a job in an idle child, in a room that is the job's from then on. */
  start(job: WaitingJob<Memory>, child: DecoderChild<Memory>, room: Memory): void;
}

interface Waiter<Memory extends RoomMemory> {
  readonly job: WaitingJob<Memory>;
  readonly refusal: RoomRefused;
  /** Whether it has not waited long enough yet for others' quarantine to be ended. */
  isPatient: boolean;
  isOverdue: boolean;
  timers: ReturnType<typeof setTimeout>[];
}

/** Media that wait for room, in the order in which they came, which is not that of their refusals. */
export class RoomLine<Memory extends RoomMemory> {
  readonly #rooms: RoomSource<Memory>;
  readonly #limits: RoomLineLimits;
  readonly #decoders: LineDecoders<Memory>;
  readonly #waiters: Waiter<Memory>[] = [];
  #retirement: Promise<unknown> | null = null;

  constructor(rooms: RoomSource<Memory>, limits: RoomLineLimits, decoders: LineDecoders<Memory>) {
    this.#rooms = rooms;
    this.#limits = limits;
    this.#decoders = decoders;
  }

  get length(): number {
    return this.#waiters.length;
  }

  /** Encoded bytes that wait in this process. */
  get heldBytes(): number {
    return this.#waiters.reduce((sum, { job }) => sum + heldBytes(job.encoded), 0);
  }

  /** Those that wait now; the line may change while they are looked at. */
  jobs(): readonly WaitingJob<Memory>[] {
    return this.#waiters.map(({ job }) => job);
  }

  /** Puts a job in line, or starts or fails it at once. One that was in line before gets back to its place. */
  add(job: WaitingJob<Memory>, refusal: RoomRefused): void {
    const now = performance.now();
    job.refusedAt ??= now;
    const since = job.refusedAt;
    const waiter: Waiter<Memory> = { job, refusal, isPatient: true, isOverdue: false, timers: [] };
    const isBefore = (other: Waiter<Memory>): boolean => other.job.arrival < job.arrival;
    this.#waiters.splice(this.#waiters.findLastIndex(isBefore) + 1, 0, waiter);
    const { roomTimeoutMs, quarantinePatienceMs, roomQueueLimit } = this.#limits;
    const patienceMs = since + Math.min(quarantinePatienceMs, roomTimeoutMs) - now;
    waiter.isPatient = patienceMs > 0;
    if (waiter.isPatient) waiter.timers.push(setTimeout(() => this.#losePatience(waiter), patienceMs));
    waiter.timers.push(setTimeout(() => this.#expire(waiter), Math.max(0, since + roomTimeoutMs - now)));
    this.serve();
    const isHelped = this.#retirement !== null && this.#waiters[0] === waiter;
    if (this.#waiters.length <= roomQueueLimit || isHelped || !this.#waiters.includes(waiter)) return;
    this.#fail(waiter, `${this.#waiters.length - 1} media wait for room already`);
  }

  /** Takes a job out of the line. @returns whether it was in it */
  remove(job: WaitingJob<Memory>): boolean {
    const index = this.#waiters.findIndex((waiter) => waiter.job === job);
    const waiter = this.#waiters[index];
    if (!waiter) return false;
    for (const timer of waiter.timers) clearTimeout(timer);
    this.#waiters.splice(index, 1);
    return true;
  }

  /** Whether a room of that size is not to be given to somebody who comes now, since one who waits could use it. */
  isHeldBack(payloadBytes: number, headerBytes = 1): boolean {
    const bytes = totalBytes({ payloadBytes, headerBytes });
    return this.#waiters.some((waiter) => totalBytes(waiter.refusal) >= bytes);
  }

  /** Starts those in front that can have their room now. */
  serve(): void {
    for (let head = this.#waiters[0]; head; head = this.#waiters[0]) {
      const child = this.#childFor(head);
      if (!child) return;
      const { payloadBytes, headerBytes } = head.refusal;
      try {
        const room = this.#rooms.take(child.owner, payloadBytes, headerBytes);
        this.remove(head.job);
        this.#decoders.start(head.job, child, room);
      } catch (error) {
        // A child that was gone already is no idle one any more; the next one is tried.
        if (error instanceof MediaError && isPeerGone(error.cause) && !child.idle) continue;
        this.remove(head.job);
        head.job.reject(asMediaError(error, "system_failed", "No memory could be given to the decoder"));
      }
    }
  }

  /** An idle child that can have the waiter's room, if need be after others gave way. */
  #childFor(waiter: Waiter<Memory>): DecoderChild<Memory> | undefined {
    const { payloadBytes, headerBytes } = waiter.refusal;
    const canTake = (child: DecoderChild<Memory>): boolean =>
      this.#rooms.canTake(child.owner, payloadBytes, headerBytes);
    const ready = (): DecoderChild<Memory> | undefined => this.#decoders.idle().find(canTake);
    const idle = this.#decoders.idle();
    const child = ready();
    if (child || idle.length === 0 || this.#retirement) return child;
    const living = this.#decoders.living();
    if (waiter.isPatient && living.some(canTake)) return undefined; // as soon as that one is idle
    const idleOwners = ownersOf(idle);
    // A busy child is counted on for a while only: nobody knows how long it works.
    this.#evict(waiter, waiter.isPatient ? ownersOf(living) : idleOwners);
    const helped = ready();
    if (helped || this.#retire(waiter) || waiter.isPatient) return helped;
    if (!this.#rooms.shortenQuarantine(payloadBytes, headerBytes, idleOwners)) return undefined;
    const atLast = ready();
    if (!atLast) this.#retire(waiter);
    return atLast;
  }

  /** Has rooms given back that are only kept for later use, until it is enough to wait for the end of quarantine. */
  #evict({ refusal: { payloadBytes, headerBytes } }: Waiter<Memory>, owners: ReadonlySet<number>): void {
    while (!this.#rooms.wouldFitLater(owners, payloadBytes, headerBytes) && this.#rooms.onShortage?.()) {}
  }

  #retire({ refusal: { payloadBytes, headerBytes } }: Waiter<Memory>): boolean {
    const retirement = this.#decoders.retireForRoom(payloadBytes, headerBytes);
    if (!retirement) return false;
    this.#retirement = retirement;
    void retirement.then(() => {
      this.#retirement = null;
      this.serve();
    });
    return true;
  }

  #losePatience(waiter: Waiter<Memory>): void {
    waiter.isPatient = false;
    this.serve();
  }

  #expire(waiter: Waiter<Memory>): void {
    waiter.isPatient = false;
    this.serve();
    if (!this.#waiters.includes(waiter)) return;
    if (this.#retirement && !waiter.isOverdue) {
      waiter.isOverdue = true;
      waiter.timers.push(setTimeout(() => this.#expire(waiter), REPLACEMENT_MS));
      return;
    }
    this.#fail(waiter, `none came free in ${this.#limits.roomTimeoutMs} ms`);
    this.serve();
  }

  #fail({ job, refusal }: Waiter<Memory>, reason: string): void {
    this.remove(job);
    job.reject(new MediaError("no_room", `${refusal.refusal.message}: ${reason}`));
  }
}

function ownersOf<Memory extends RoomMemory>(children: readonly DecoderChild<Memory>[]): ReadonlySet<number> {
  return new Set(children.map((child) => child.owner));
}

function totalBytes({ payloadBytes, headerBytes }: { payloadBytes: number; headerBytes: number }): number {
  return roundToPages(payloadBytes) + roundToPages(headerBytes);
}
