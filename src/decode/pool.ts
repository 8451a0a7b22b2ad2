/** Decoder children and the line of media that wait for one. */
import { availableParallelism } from "node:os";
import type { z } from "zod";
import type { EncodedMedium } from "../encoded.ts";
import { type ErrorCode, MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import type { NativeDecoders } from "./contract.ts";
import { DecoderChild } from "./decoder_child.ts";
import { fingerprint } from "./fingerprint.ts";
import { type Decoded, JobNotTaken, RoomRefused } from "./jobs.ts";
import { type DecoderPoolOptions, decoderPoolOptionsSchema } from "./options.ts";
import type { DecodeRequest } from "./protocol.ts";
import type { RoomMemory, RoomSource } from "./rooms.ts";
import { overloadedError, type WaitingJob, WaitingLine } from "./waiting_line.ts";

/** Threads for one medium beyond so many bring it little. */
const MAXIMUM_DEFAULT_THREADS = 4;

/** Children in a row that may fail to start before those who wait for one are told. */
const MOST_FAILED_STARTS = 3;

/** Different warnings of decoders that are passed on. */
const MOST_WARNINGS = 20;

/** Pause before children that the system refused to start are tried again, ms. */
const RESTART_DELAY_MS = 1000;

/** Failures that are worth looking into: the error then says which medium it was. */
const FINGERPRINTED: ReadonlySet<ErrorCode> = new Set(["decoder_crashed", "decoder_timeout"]);

/** Runs decode jobs in child processes, one at a time in each. Owned by whoever opened it. */
export class DecoderPool<Memory extends RoomMemory> {
  readonly #settings: z.output<typeof decoderPoolOptionsSchema>;
  readonly #rooms: RoomSource<Memory>;
  readonly #native: NativeDecoders;
  readonly #program: string | undefined;
  readonly #childCount: number;
  #children: DecoderChild<Memory>[] = [];
  readonly #waiting: WaitingLine<Memory>;
  /** Children in a row that never became ready. */
  #failedStarts = 0;
  /** Threads that running jobs may use. */
  #threadsInUse = 0;
  readonly #warnings = new Set<string>();
  /** Children that will make way for a fresh one. */
  readonly #worn = new WeakSet<DecoderChild<Memory>>();
  #retry: ReturnType<typeof setTimeout> | undefined;
  /** Owner 0 is the parent itself. */
  #nextOwner = 1;
  #disposed = false;

  private constructor(
    rooms: RoomSource<Memory>,
    native: NativeDecoders,
    options: DecoderPoolOptions,
    program: string | undefined,
  ) {
    this.#settings = parseOptions(decoderPoolOptionsSchema, options, "decoder options");
    this.#waiting = new WaitingLine(this.#settings);
    const everyTwoSlabs = Math.max(1, Math.floor(rooms.budgetBytes / rooms.slabBytes / 2));
    this.#childCount = this.#settings.children ?? Math.min(availableParallelism(), everyTwoSlabs);
    this.#rooms = rooms;
    this.#native = native;
    this.#program = program;
    rooms.onGrant = (grant) => this.#children.find((child) => child.owner === grant.owner)?.grant(grant);
    rooms.onHostRefused = (payloadBytes, headerBytes) => void this.#makeRoom(payloadBytes, headerBytes);
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
      while (pool.#children.length < pool.#childCount) pool.#startChild();
      await Promise.all(pool.#children.map((child) => child.ready));
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

  /** Process ids of the children, for watching them. */
  get childPids(): number[] {
    return this.#children.filter((child) => child.alive).map((child) => child.pid);
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
    if (!this.#children.some((child) => child.idle)) this.#waiting.checkSpace(encoded);
    const { promise, resolve, reject } = Promise.withResolvers<Decoded<Memory>>();
    const job: WaitingJob<Memory> = {
      request,
      encoded,
      signal,
      resolve,
      reject,
      refusedBy: new Set(),
      refusal: null,
      madeRoom: false,
      wasNotTaken: false,
    };
    const leave = (error: MediaError): void => {
      if (this.#waiting.remove(job)) reject(error);
    };
    const abort = (): void => leave(abortedError());
    const deadline = setTimeout(() => leave(overloadedError("waited too long")), this.#settings.queueTimeoutMs);
    signal?.addEventListener("abort", abort, { once: true });
    this.#waiting.add(job);
    this.#startChildren();
    this.#dispatch();
    return promise.finally(() => {
      clearTimeout(deadline);
      signal?.removeEventListener("abort", abort);
    });
  }

  /** Kills the children and waits until they are reaped; running and waiting jobs fail. Idempotent. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#retry);
    this.#failWaiting(closedError());
    for (const child of this.#children) child.kill(closedError());
    await Promise.all(this.#children.map((child) => child.gone));
  }

  /**
   * Starts as many children as are missing. What the system refuses now is tried again a little later; until then those that
   * live do the work.
   */
  #startChildren(): void {
    try {
      while (!this.#disposed && this.#children.length < this.#childCount) this.#startChild();
    } catch (error) {
      this.#startChildrenLater();
      if (this.#children.length === 0) this.#failWaiting(error);
    }
  }

  #startChildrenLater(): void {
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#startChildren();
    }, RESTART_DELAY_MS);
  }

  #startChild(): DecoderChild<Memory> {
    const child: DecoderChild<Memory> = new DecoderChild<Memory>(this.#nextOwner++, this.#rooms, {
      native: this.#native,
      poolBytes: this.#rooms.budgetBytes,
      jobTimeoutMs: this.#settings.jobTimeoutMs,
      memoryLimitBytes: this.#settings.memoryLimitBytes,
      onWarning: (message) => this.#warn(message),
      onMemory: () => this.#recycleIfWorn(child),
      ...(this.#program === undefined ? {} : { program: this.#program }),
    });
    this.#children.push(child);
    child.ready.then(
      () => {
        this.#failedStarts = 0;
        this.#prepare(child);
        this.#dispatch();
      },
      () => {},
    );
    void child.gone.then(() => this.#replace(child));
    return child;
  }

  /** Every decoder says the same of a library that it cannot use; and one that was taken over may say anything. */
  #warn(message: string): void {
    const line = message.replace(/[^ -~]+/g, " ");
    if (this.#warnings.size >= MOST_WARNINGS || this.#warnings.has(line)) return;
    this.#warnings.add(line);
    console.warn(`nixl-media: a decoder says: ${line}`);
  }

  #prepare(child: DecoderChild<Memory>): void {
    try {
      this.#rooms.prepareOwner(child.owner);
    } catch {
      // A child that could not be told of a slab is being ended.
    }
  }

  /** Starts a fresh child beside one that has done its share; the old one works until the fresh one can. */
  #recycleIfWorn(child: DecoderChild<Memory>): void {
    const { recycleAfterJobs, recycleAboveBytes } = this.#settings;
    const isWorn = child.jobs >= recycleAfterJobs || child.privateBytes > recycleAboveBytes;
    if (!isWorn || this.#disposed || !child.alive || this.#worn.has(child)) return;
    this.#worn.add(child);
    // When there is no other one to be had it goes on, and is looked at again a little later.
    const goOn = (): void => void setTimeout(() => this.#worn.delete(child), RESTART_DELAY_MS).unref();
    try {
      this.#startChild().ready.then(() => child.retire(), goOn);
    } catch {
      goOn();
    }
  }

  /**
   * Replaces a child that is gone; one that never became ready or died before it had a job a little later, so that nothing that
   * ends children makes a loop of it. When several in a row never became ready, those who wait are told, and the next medium
   * tries again.
   */
  #replace(dead: DecoderChild<Memory>): void {
    this.#children = this.#children.filter((child) => child !== dead);
    if (this.#disposed) return;
    if (dead.started && (dead.jobs > 0 || dead.isRetired)) {
      this.#startChildren();
    } else if (dead.started || ++this.#failedStarts < MOST_FAILED_STARTS || this.#children.length > 0) {
      this.#startChildrenLater();
    } else {
      this.#failedStarts = 0;
      dead.ready.catch((error: unknown) => this.#failWaiting(error));
      return;
    }
    this.#dispatch();
  }

  #failWaiting(error: unknown): void {
    for (const job of this.#waiting.jobs()) if (this.#waiting.remove(job)) job.reject(error);
  }

  /** Gives waiting jobs to idle children, in turn. */
  #dispatch(): void {
    if (this.#disposed) return;
    const isRestartDue = this.#children.length === 0 && this.#retry !== undefined;
    for (const job of this.#waiting.jobs()) {
      const candidates = this.#children.filter((child) => !job.refusedBy.has(child));
      const child = candidates.find((candidate) => candidate.idle);
      if (child) {
        this.#waiting.remove(job);
        void this.#run(job, child);
      } else if (candidates.length === 0 && !isRestartDue) {
        this.#waiting.remove(job);
        void this.#lastResort(job);
      }
    }
  }

  async #run(job: WaitingJob<Memory>, child: DecoderChild<Memory>): Promise<void> {
    const threads = this.#threadsForOne();
    this.#threadsInUse += threads;
    try {
      job.resolve(await child.run(job.request, job.encoded, threads, job.signal));
    } catch (error) {
      if (error instanceof RoomRefused && error.refusal.code === "no_room") {
        job.refusedBy.add(child);
        job.refusal = error;
        this.#putBack(job);
      } else if (error instanceof JobNotTaken && !job.wasNotTaken) {
        job.wasNotTaken = true;
        this.#putBack(job);
      } else {
        job.reject(await withFingerprint(callersError(error), job.encoded));
      }
    } finally {
      this.#threadsInUse -= threads;
    }
    this.#recycleIfWorn(child);
    this.#dispatch();
  }

  /** So many threads as there are processors without one, at least one: what runs already keeps what it has. */
  #threadsForOne(): number {
    const most = this.#settings.threadsPerMedium ?? MAXIMUM_DEFAULT_THREADS;
    return Math.max(1, Math.min(most, availableParallelism() - this.#threadsInUse));
  }

  /** No child had room. When idle ones sit on empty slabs, new ones take their place, once. */
  async #lastResort(job: WaitingJob<Memory>): Promise<void> {
    const { refusal, madeRoom } = job;
    if (!refusal || madeRoom || !(await this.#makeRoom(refusal.payloadBytes, refusal.headerBytes))) {
      job.reject(refusal?.refusal ?? new MediaError("decoder_failed", "There is no decoder to decode the medium"));
      return;
    }
    job.madeRoom = true;
    job.refusedBy.clear();
    this.#putBack(job);
    this.#dispatch();
  }

  /**
   * A slab stays with its child as long as the child lives, empty or not. When that leaves no room, idle children with
   * empty slabs are ended and replaced.
   * @returns whether it was done; not when it would not have helped
   */
  async #makeRoom(payloadBytes: number, headerBytes: number): Promise<boolean> {
    const idle = this.#children.filter((child) => child.idle && this.#rooms.hasEmptySlabs(child.owner));
    const owners = new Set(idle.map((child) => child.owner));
    if (idle.length === 0 || !this.#rooms.wouldFitWithout(owners, payloadBytes, headerBytes)) return false;
    for (const child of idle) child.retire();
    await Promise.all(idle.map((child) => child.gone));
    return true;
  }

  /** Back to the head of the line, unless nobody wants it any more. */
  #putBack(job: WaitingJob<Memory>): void {
    if (this.#disposed || job.signal?.aborted) {
      job.reject(this.#disposed ? closedError() : abortedError());
      return;
    }
    this.#waiting.addFirst(job);
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
