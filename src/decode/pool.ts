/** Decoder children and the line of media that wait for one. */
import { availableParallelism } from "node:os";
import { z } from "zod";
import { type ErrorCode, MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import { type Decoded, DecoderChild, JobNotTaken } from "./decoder_child.ts";
import { fingerprint } from "./fingerprint.ts";
import type { DecodeRequest } from "./protocol.ts";
import type { RoomMemory, RoomSource } from "./rooms.ts";

/** Children that may die one after another before they begin with a job, until it fails. */
const MAXIMUM_REFUSALS = 8;

/** Settings of the decoder children. */
export const decoderPoolOptionsSchema = z.strictObject({
  children: z.int().min(1).max(256).optional().describe("Decoder processes; default one per core, at most 4"),
  queueLimit: z.int().nonnegative().default(1024).describe("Media that may wait for a decoder; more are refused"),
  jobTimeoutMs: z.int().positive().default(120_000).describe("Time after which a decoder is killed, ms"),
});
export type DecoderPoolOptions = z.input<typeof decoderPoolOptionsSchema>;

/** Children beyond so many are for servers that ask for them. */
const MAXIMUM_DEFAULT_CHILDREN = 4;

const FINGERPRINTED: ReadonlySet<ErrorCode> = new Set(["decoder_crashed", "decoder_timeout"]);

interface WaitingJob<Memory extends RoomMemory> {
  readonly request: DecodeRequest;
  readonly encoded: Uint8Array;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (decoded: Decoded<Memory>) => void;
  readonly reject: (error: unknown) => void;
  /** Children whose slabs had no room for it. */
  readonly refusedBy: Set<DecoderChild<Memory>>;
}

/** Runs decode jobs in child processes, one at a time in each. Owned by whoever opened it. */
export class DecoderPool<Memory extends RoomMemory> {
  readonly #settings: z.output<typeof decoderPoolOptionsSchema>;
  readonly #rooms: RoomSource<Memory>;
  readonly #ffmpegPath: string | null;
  readonly #childCount: number;
  #children: DecoderChild<Memory>[] = [];
  readonly #waiting: WaitingJob<Memory>[] = [];
  /** Owner 0 is the parent itself. */
  #nextOwner = 1;
  #disposed = false;

  private constructor(rooms: RoomSource<Memory>, ffmpegPath: string | null, options: DecoderPoolOptions) {
    this.#settings = parseOptions(decoderPoolOptionsSchema, options, "decoder options");
    this.#childCount = this.#settings.children ?? Math.min(availableParallelism(), MAXIMUM_DEFAULT_CHILDREN);
    this.#rooms = rooms;
    this.#ffmpegPath = ffmpegPath;
    rooms.onGrant = (grant) => this.#children.find((child) => child.owner === grant.owner)?.grant(grant);
  }

  /**
   * Starts the children and waits until they can take work.
   * @param ffmpegPath program for clips, or null when there is none
   * @throws MediaError decoder_failed when they do not start; invalid_options
   */
  static async open<Memory extends RoomMemory>(
    rooms: RoomSource<Memory>,
    ffmpegPath: string | null,
    options: DecoderPoolOptions = {},
  ): Promise<DecoderPool<Memory>> {
    const pool = new DecoderPool(rooms, ffmpegPath, options);
    try {
      pool.#startChildren();
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
   * Decodes one medium in a child. The encoded bytes are copied when a child takes them up; until then they must not change.
   * @returns the tensor and its room, which the caller gives back
   * @throws MediaError what the decoder says; decoder_crashed, decoder_timeout, overloaded, aborted, closed, no_room
   */
  async decode(request: DecodeRequest, encoded: Uint8Array, signal?: AbortSignal): Promise<Decoded<Memory>> {
    if (this.#disposed) throw closedError();
    if (signal?.aborted) throw abortedError();
    if (this.#waiting.length >= this.#settings.queueLimit && !this.#children.some((child) => child.idle)) {
      throw new MediaError("overloaded", `${this.#waiting.length} media wait to be decoded already`);
    }
    const { promise, resolve, reject } = Promise.withResolvers<Decoded<Memory>>();
    const job: WaitingJob<Memory> = { request, encoded, signal, resolve, reject, refusedBy: new Set() };
    const leave = (): void => {
      const index = this.#waiting.indexOf(job);
      if (index >= 0) this.#waiting.splice(index, 1);
      if (index >= 0) reject(abortedError());
    };
    signal?.addEventListener("abort", leave, { once: true });
    this.#waiting.push(job);
    this.#startChildren();
    this.#assign();
    return promise.finally(() => signal?.removeEventListener("abort", leave));
  }

  /** Kills the children and waits until they are reaped; running and waiting jobs fail. Idempotent. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    for (const job of this.#waiting.splice(0)) job.reject(closedError());
    const children = this.#children;
    this.#children = [];
    for (const child of children) child.kill(closedError());
    await Promise.all(children.map((child) => child.gone));
  }

  /** Starts as many children as are missing. */
  #startChildren(): void {
    while (this.#children.length < this.#childCount) {
      const child = new DecoderChild<Memory>(this.#nextOwner++, this.#rooms, {
        ffmpegPath: this.#ffmpegPath,
        poolBytes: this.#rooms.budgetBytes,
        jobTimeoutMs: this.#settings.jobTimeoutMs,
      });
      this.#children.push(child);
      child.ready.then(
        () => this.#assign(),
        () => {},
      );
      void child.gone.then(() => this.#replace(child));
    }
  }

  /** Replaces a child that is gone. One that never became ready is not: the next medium tries again, not a loop. */
  #replace(dead: DecoderChild<Memory>): void {
    this.#children = this.#children.filter((child) => child !== dead);
    if (this.#disposed) return;
    if (dead.started) {
      this.#startChildren();
    } else if (this.#children.length === 0) {
      for (const job of this.#waiting.splice(0)) dead.ready.catch(job.reject);
    }
  }

  #assign(): void {
    for (const job of [...this.#waiting]) {
      const child = this.#children.find((candidate) => candidate.idle && !job.refusedBy.has(candidate));
      if (child) {
        this.#waiting.splice(this.#waiting.indexOf(job), 1);
        void this.#run(job, child);
      } else if (!this.#children.some((candidate) => candidate.idle)) {
        return;
      }
    }
  }

  /** Another child may have room, or may live longer than the one that was gone before it began. */
  #mayGoElsewhere(job: WaitingJob<Memory>, error: unknown): boolean {
    if (this.#disposed || job.signal?.aborted || job.refusedBy.size > MAXIMUM_REFUSALS) return false;
    if (error instanceof JobNotTaken) return true;
    const others = this.#children.some((other) => !job.refusedBy.has(other));
    return others && error instanceof MediaError && error.code === "no_room";
  }

  async #run(job: WaitingJob<Memory>, child: DecoderChild<Memory>): Promise<void> {
    try {
      job.resolve(await child.run(job.request, job.encoded, job.signal));
    } catch (error) {
      job.refusedBy.add(child);
      if (this.#mayGoElsewhere(job, error)) this.#waiting.unshift(job);
      else job.reject(await withFingerprint(error instanceof JobNotTaken ? error.crash : error, job.encoded));
    }
    this.#assign();
  }
}

/** A crash or a hang is worth looking into: the error then says which medium it was. */
async function withFingerprint(error: unknown, encoded: Uint8Array): Promise<unknown> {
  if (!(error instanceof MediaError) || !FINGERPRINTED.has(error.code)) return error;
  return new MediaError(error.code, `${error.message} [${await fingerprint(encoded)}]`, { cause: error.cause });
}

function closedError(): MediaError {
  return new MediaError("closed", "The loader was disposed");
}

function abortedError(): MediaError {
  return new MediaError("aborted", "The caller gave up before the medium was decoded");
}
