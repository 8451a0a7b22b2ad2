/**
 * The line of media that wait for room: each knows how large a room it needs, since a decoder was refused it.
 *
 * Who stands in front is helped first, by what a cache gives back, by ending children that sit on empty slabs, by waiting, and
 * after a while by ending quarantine early. As long as its room is on its way, nobody else takes it. Where there is none to be
 * had before somebody gives theirs back, larger media need not be tried, and smaller ones go first: one that asks for nearly all
 * of the pool does not keep everybody else waiting. A medium that leaves the line takes its room with it to the child, so that
 * it is not refused a second time.
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

  /** Whether a room of that size is not to be given to somebody who comes now, since it is on its way to one who waits. */
  isHeldBack(payloadBytes: number, headerBytes = 1): boolean {
    const bytes = totalBytes({ payloadBytes, headerBytes });
    const ahead = this.#waiters.filter((waiter) => totalBytes(waiter.refusal) >= bytes);
    if (ahead.length === 0 || this.#retirement) return ahead.length > 0;
    // Where there will be a place for a larger one, there will be one for a smaller one too.
    const smallest = (waiters: readonly Waiter<Memory>[]): Waiter<Memory> | undefined =>
      waiters.toSorted((a, b) => totalBytes(a.refusal) - totalBytes(b.refusal))[0];
    const asked = [ahead.filter(({ isPatient }) => isPatient), ahead.filter(({ isPatient }) => !isPatient)].map(
      smallest,
    );
    return asked.some((waiter) => {
      if (!waiter) return false;
      const owners = ownersOf(this.#countedOn(waiter));
      return this.#rooms.wouldFitLater(owners, waiter.refusal.payloadBytes, waiter.refusal.headerBytes);
    });
  }

  /** Starts those that can have their room now: see the head of this file for their order. */
  serve(): void {
    let bytesToBeHad = Number.POSITIVE_INFINITY;
    for (const waiter of [...this.#waiters]) {
      if (totalBytes(waiter.refusal) >= bytesToBeHad) continue;
      const prospect = this.#serveOne(waiter);
      if (prospect === "coming") return;
      if (prospect === "none") bytesToBeHad = totalBytes(waiter.refusal);
    }
  }

  /** Starts or fails a waiter; when it has to go on waiting, says whether its room is on its way. */
  #serveOne(waiter: Waiter<Memory>): "coming" | "none" | "left" {
    const { payloadBytes, headerBytes } = waiter.refusal;
    for (;;) {
      const child = this.#childFor(waiter);
      if (child === "coming" || child === "none") return child;
      try {
        const room = this.#rooms.take(child.owner, payloadBytes, headerBytes);
        this.remove(waiter.job);
        this.#decoders.start(waiter.job, child, room);
        return "left";
      } catch (error) {
        // A child that was gone already is no idle one any more; the next one is tried.
        if (error instanceof MediaError && isPeerGone(error.cause) && !child.idle) continue;
        this.remove(waiter.job);
        waiter.job.reject(asMediaError(error, "system_failed", "No memory could be given to the decoder"));
        return "left";
      }
    }
  }

  /** An idle child that can have the waiter's room, if need be after others gave way. */
  #childFor(waiter: Waiter<Memory>): DecoderChild<Memory> | "coming" | "none" {
    const { payloadBytes, headerBytes } = waiter.refusal;
    const canTake = (child: DecoderChild<Memory>): boolean =>
      this.#rooms.canTake(child.owner, payloadBytes, headerBytes);
    const ready = (): DecoderChild<Memory> | undefined => this.#decoders.idle().find(canTake);
    const idle = this.#decoders.idle();
    if (idle.length === 0 || this.#retirement) return ready() ?? "coming"; // there is nothing to be done until a child is idle
    const countedOn = this.#countedOn(waiter);
    const child = ready();
    if (child) return child;
    if (countedOn.some(canTake)) return "coming"; // as soon as that one is idle
    const isComing = this.#rooms.giveUpSpareRooms(payloadBytes, headerBytes, ownersOf(countedOn));
    const helped = ready();
    if (helped) return helped;
    if (this.#retire(waiter)) return "coming";
    if (!isComing || waiter.isPatient) return isComing ? "coming" : "none";
    this.#rooms.shortenQuarantine(payloadBytes, headerBytes, ownersOf(idle));
    return ready() ?? (this.#retire(waiter) ? "coming" : "none");
  }

  /** A busy child is counted on for a while only: nobody knows how long it works. */
  #countedOn({ isPatient }: Waiter<Memory>): readonly DecoderChild<Memory>[] {
    return isPatient ? this.#decoders.living() : this.#decoders.idle();
  }

  #retire({ refusal: { payloadBytes, headerBytes } }: Waiter<Memory>): boolean {
    const retirement = this.#decoders.retireForRoom(payloadBytes, headerBytes);
    if (!retirement) return false;
    this.#retirement = retirement;
    const goOn = (): void => {
      this.#retirement = null;
      this.serve();
    };
    retirement.then(goOn, goOn);
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
