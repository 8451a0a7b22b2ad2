/** Decoder children and the lines of media that wait for one, or for memory. */
import { availableParallelism } from "node:os";
import type { z } from "zod";
import type { EncodedMedium } from "../encoded.ts";
import { type ErrorCode, MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import { Children } from "./children.ts";
import type { NativeDecoders } from "./contract.ts";
import type { DecoderChild } from "./decoder_child.ts";
import { fingerprint } from "./fingerprint.ts";
import { type Decoded, JobNotTaken, RoomRefused } from "./jobs.ts";
import { type DecoderPoolOptions, decoderPoolOptionsSchema } from "./options.ts";
import type { DecodeRequest } from "./protocol.ts";
import { RoomLine } from "./room_line.ts";
import type { RoomMemory, RoomSource } from "./rooms.ts";
import { overloadedError, type WaitingJob, WaitingLine } from "./waiting_line.ts";

/** Threads for one medium beyond so many bring it little. */
const MAXIMUM_DEFAULT_THREADS = 4;

/** Failures that are worth looking into: the error then says which medium it was. */
const FINGERPRINTED: ReadonlySet<ErrorCode> = new Set(["decoder_crashed", "decoder_timeout"]);

/** Runs decode jobs in child processes, one at a time in each. Owned by whoever opened it. */
export class DecoderPool<Memory extends RoomMemory> {
  readonly #settings: z.output<typeof decoderPoolOptionsSchema>;
  readonly #children: Children<Memory>;
  /** Media that wait for a decoder. */
  readonly #waiting: WaitingLine<Memory>;
  /** Media that wait for memory. */
  readonly #roomLine: RoomLine<Memory>;
  /** Whether the lines will be looked at in a moment. */
  #isDispatchDue = false;
  #arrivals = 0;
  /** Threads that running jobs may use. */
  #threadsInUse = 0;
  #disposed = false;

  private constructor(
    rooms: RoomSource<Memory>,
    native: NativeDecoders,
    options: DecoderPoolOptions,
    program: string | undefined,
  ) {
    this.#settings = parseOptions(decoderPoolOptionsSchema, options, "decoder options");
    const everyTwoSlabs = Math.max(1, Math.floor(rooms.budgetBytes / rooms.slabBytes / 2));
    const count = this.#settings.children ?? Math.min(availableParallelism(), everyTwoSlabs);
    const children = new Children(
      rooms,
      { count, native, options: this.#settings, program },
      {
        onChange: () => this.#dispatch(),
        onFailure: (error) => this.#failWaiting(error),
        isShortOfRoom: () => this.#roomLine.length > 0,
      },
    );
    this.#children = children;
    this.#waiting = new WaitingLine(this.#settings);
    this.#roomLine = new RoomLine(rooms, this.#settings, {
      idle: () => children.idle(),
      living: () => children.living(),
      retireForRoom: (payloadBytes, headerBytes) => children.retireForRoom(payloadBytes, headerBytes),
      start: (job, child, room) => void this.#run(job, child, room),
    });
    rooms.onRoom = () => this.#dispatchSoon();
    rooms.onHostRefused = (payloadBytes, headerBytes) => void children.retireForRoom(payloadBytes, headerBytes);
  }

  /**
   * Starts the children and waits until they can take work.
   * @param native where the children find what they decode with
   * @param program the children's program, when it is another than the decoder (for tests)
   * @throws MediaError decoder_failed when they do not start; invalid_options
   */
  static async open<Memory extends RoomMemory>(
    rooms: RoomSource<Memory>,
    native: NativeDecoders,
    options: DecoderPoolOptions = {},
    program?: string,
  ): Promise<DecoderPool<Memory>> {
    const pool = new DecoderPool(rooms, native, options, program);
    try {
      await pool.#children.open();
      return pool;
    } catch (error) {
      await pool.dispose();
      throw error;
    }
  }

  /** Media that wait for a decoder. */
  get queueLength(): number {
    return this.#waiting.length;
  }

  /** Media that wait for memory. */
  get roomQueueLength(): number {
    return this.#roomLine.length;
  }

  /** Process ids of the children, for watching them. */
  get childPids(): number[] {
    return this.#children.living().map((child) => child.pid);
  }

  /**
   * Decodes one medium in a child. The encoded bytes are copied when a child takes them up, and must not change until this
   * settles; a file stays the caller's to close, then.
   * @returns the tensor and its room, which the caller gives back
   * @throws MediaError what the decoder says; decoder_crashed, decoder_timeout, overloaded, aborted, closed, no_room
   */
  async decode(request: DecodeRequest, encoded: EncodedMedium, signal?: AbortSignal): Promise<Decoded<Memory>> {
    if (this.#disposed) throw closedError();
    if (signal?.aborted) throw abortedError();
    if (this.#children.idle().length === 0 || this.#roomLine.length > 0) {
      this.#waiting.checkSpace(encoded, this.#roomLine.heldBytes);
    }
    const { promise, resolve, reject } = Promise.withResolvers<Decoded<Memory>>();
    const job: WaitingJob<Memory> = {
      request,
      encoded,
      signal,
      resolve,
      reject,
      arrival: this.#arrivals++,
      refusedAt: null,
      refusal: null,
      wasNotTaken: false,
      deadline: undefined,
    };
    const abort = (): void => {
      if (!this.#waiting.remove(job) && !this.#roomLine.remove(job)) return;
      reject(abortedError());
      this.#dispatchSoon(); // the next one in line may need less room
    };
    signal?.addEventListener("abort", abort, { once: true });
    this.#waiting.add(job);
    this.#startDeadline(job);
    this.#children.fill();
    this.#dispatch();
    return promise.finally(() => {
      clearTimeout(job.deadline);
      signal?.removeEventListener("abort", abort);
    });
  }

  /** Kills the children and waits until they are reaped; running and waiting jobs fail. Idempotent. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    this.#failWaiting(closedError());
    await this.#children.dispose(closedError);
  }

  #failWaiting(error: unknown): void {
    for (const job of this.#waiting.jobs()) if (this.#waiting.remove(job)) job.reject(error);
    for (const job of this.#roomLine.jobs()) if (this.#roomLine.remove(job)) job.reject(error);
  }

  /** Those who gave room back go on first: it may happen anywhere, also while a child is given a job. */
  #dispatchSoon(): void {
    if (this.#isDispatchDue || this.#roomLine.length === 0) return;
    this.#isDispatchDue = true;
    queueMicrotask(() => {
      this.#isDispatchDue = false;
      this.#dispatch();
    });
  }

  /** Gives waiting jobs to idle children, in turn; first those that were refused room before. */
  #dispatch(): void {
    if (this.#disposed) return;
    this.#roomLine.serve();
    for (const job of this.#waiting.jobs()) {
      const [child] = this.#children.idle();
      if (!child && !this.#children.isGivenUp) return;
      this.#waiting.remove(job);
      if (child) void this.#run(job, child, null);
      else job.reject(new MediaError("decoder_failed", "There is no decoder to decode the medium"));
    }
  }

  async #run(job: WaitingJob<Memory>, child: DecoderChild<Memory>, room: Memory | null): Promise<void> {
    const { request, encoded, signal } = job;
    const threads = this.#threadsForOne();
    this.#threadsInUse += threads;
    // Who waited for room had its turn: what it asks for is not held back for those behind it.
    const isHeldBack = (payloadBytes: number, headerBytes?: number): boolean =>
      room === null && this.#roomLine.isHeldBack(payloadBytes, headerBytes);
    const running = child.run({ request, encoded, threads, signal, room, isHeldBack });
    const failure = await running.then(job.resolve, (error: unknown) => ({ error }));
    this.#threadsInUse -= threads;
    if (failure) await this.#failed(job, failure.error);
    this.#children.recycleIfWorn(child);
    this.#dispatch();
  }

  /** A job that failed for want of room, or before it began, gets another chance; others are told. */
  async #failed(job: WaitingJob<Memory>, error: unknown): Promise<void> {
    // One that was in line before and asks for something else now may go on doing so, but not for ever.
    const isTimeLeft = performance.now() - (job.refusedAt ?? performance.now()) <= this.#settings.roomTimeoutMs;
    if (error instanceof RoomRefused && error.refusal.code === "no_room" && isTimeLeft) {
      job.refusal = error;
      this.#putBack(job);
    } else if (error instanceof JobNotTaken && !job.wasNotTaken) {
      job.wasNotTaken = true;
      this.#putBack(job);
    } else {
      job.reject(await withFingerprint(callersError(error), job.encoded));
    }
  }

  /** So many threads as there are processors without one, at least one: what runs already keeps what it has. */
  #threadsForOne(): number {
    const most = this.#settings.threadsPerMedium ?? MAXIMUM_DEFAULT_THREADS;
    return Math.max(1, Math.min(most, availableParallelism() - this.#threadsInUse));
  }

  /** Back into its line, unless nobody wants it any more. */
  #putBack(job: WaitingJob<Memory>): void {
    if (this.#disposed || job.signal?.aborted) {
      job.reject(this.#disposed ? closedError() : abortedError());
    } else if (job.refusal) {
      this.#roomLine.add(job, job.refusal);
    } else {
      this.#waiting.addFirst(job);
      this.#startDeadline(job); // the first one may have passed meanwhile
    }
  }

  #startDeadline(job: WaitingJob<Memory>): void {
    clearTimeout(job.deadline);
    job.deadline = setTimeout(() => {
      if (this.#waiting.remove(job)) job.reject(overloadedError("waited too long"));
    }, this.#settings.queueTimeoutMs);
  }
}

/** What the caller is to see of an error that is internal to this folder. */
function callersError(error: unknown): unknown {
  if (error instanceof RoomRefused) return error.refusal;
  return error instanceof JobNotTaken ? error.crash : error;
}

async function withFingerprint(error: unknown, encoded: EncodedMedium): Promise<unknown> {
  if (!(error instanceof MediaError) || !FINGERPRINTED.has(error.code)) return error;
  return new MediaError(error.code, `${error.message} [${await fingerprint(encoded)}]`, { cause: error.cause });
}

function closedError(): MediaError {
  return new MediaError("closed", "The loader was disposed");
}

function abortedError(): MediaError {
  return new MediaError("aborted", "The caller gave up before the medium was decoded");
}
