/** The parent's side of one decoder child: starts it, feeds it one job at a time, and knows when it is gone. */
import { NativeStatus } from "../../ffi/native.ts";
import { startOf } from "../encoded.ts";
import { asMediaError, MediaError } from "../errors.ts";
import { checkAnswer } from "./answer.ts";
import { ChildChannel } from "./child_channel.ts";
import { ChildProcess } from "./child_process.ts";
import type { NativeDecoders } from "./contract.ts";
import { type ChildTask, type Decoded, JobNotTaken, RoomRefused, type RunningJob } from "./jobs.ts";
import { type ChildMessage, childMessageSchema, type ParentMessage, type RoomPlace } from "./protocol.ts";
import { roomAhead } from "./room_ahead.ts";
import type { RoomMemory, RoomSource, SlabGrant } from "./rooms.ts";

/** A child that is not ready by then never will be. */
const START_TIMEOUT_MS = 60_000;

/** −1000 − EPIPE and −1000 − ECONNRESET. */
const PEER_GONE_STATUSES: ReadonlySet<number> = new Set([-1032, -1104]);

/** Settings that every child is started with. */
export interface ChildSettings {
  readonly native: NativeDecoders;
  readonly poolBytes: number;
  readonly jobTimeoutMs: number;
  readonly memoryLimitBytes: number;
  /** Called with what the server's owner should know. */
  readonly onWarning: (message: string) => void;
  /** Called when the child has said how much memory it holds. */
  readonly onMemory: () => void;
  /** The child's program; another one in tests of what a child that was taken over can do. */
  readonly program?: string;
}

/** One decoder child. It is not reused after its process has ended. */
export class DecoderChild<Memory extends RoomMemory> {
  readonly owner: number;
  /** Settles when the child can take jobs; rejects when it died before. */
  readonly ready: Promise<void>;
  /** Resolves when the process has been reaped and its memory given back. */
  readonly gone: Promise<void>;
  readonly #rooms: RoomSource<Memory>;
  readonly #settings: ChildSettings;
  readonly #process: ChildProcess;
  readonly #channel = new ChildChannel();
  readonly #becameReady = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #startTimer: ReturnType<typeof setTimeout>;
  #endTimer: ReturnType<typeof setInterval> | undefined;
  #job: RunningJob<Memory> | null = null;
  #nextJob = 1;
  #alive = true;
  #started = false;
  #retiring = false;
  /** Killed, though it may not have been reaped yet. */
  #ending = false;
  #jobs = 0;
  #privateBytes = 0;

  /** @param owner id under which the child has rooms @throws MediaError system_failed */
  constructor(owner: number, rooms: RoomSource<Memory>, settings: ChildSettings) {
    this.owner = owner;
    this.#rooms = rooms;
    this.#settings = settings;
    this.ready = this.#becameReady.promise;
    this.ready.catch(() => {}); // whoever runs a job sees the failure; nobody may be waiting when it happens
    this.gone = this.#ended.promise;
    try {
      this.#process = new ChildProcess({
        program: settings.program,
        channel: this.#channel.childEnd,
        onMessage: (message) => this.#receive(message),
        onExit: (how) => this.#exited(how),
      });
    } catch (error) {
      this.#channel.dispose();
      throw asMediaError(error, "decoder_failed", "The decoder process could not be started");
    } finally {
      this.#channel.closeChildEnd();
    }
    this.#startTimer = setTimeout(() => this.kill(), START_TIMEOUT_MS);
    rooms.addOwner(owner);
    const { poolBytes, memoryLimitBytes, native } = settings;
    this.#say({ type: "start", poolBytes, memoryLimitBytes, native });
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Whether it can be given a job: started, alive and without one. */
  get idle(): boolean {
    return this.#alive && this.#started && !this.#retiring && !this.#ending && this.#job === null;
  }

  /** Jobs that it was given so far. */
  get jobs(): number {
    return this.#jobs;
  }

  /** Private memory that it held when it last said so, bytes. */
  get privateBytes(): number {
    return this.#privateBytes;
  }

  /** Whether it ever became ready. */
  get started(): boolean {
    return this.#started;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /**
   * Hands a slab to the child, before the first room in it. A child that cannot be told is ended: nobody knows what it has.
   * @throws MediaError system_failed
   */
  grant(grant: SlabGrant): void {
    try {
      this.#channel.grant(grant);
    } catch (error) {
      this.#killUnlessGone(asMediaError(error, "system_failed", "A slab could not be handed to the decoder"));
      throw error;
    }
    const { offset, byteLength, prefault } = grant;
    this.#say({ type: "slab", offset, byteLength, prefault });
  }

  /**
   * Decodes one medium; only while {@link idle}. An abort kills the child.
   * @throws MediaError what the decoder says; decoder_crashed, decoder_timeout, decoder_failed, aborted. JobNotTaken
   */
  run(task: ChildTask<Memory>): Promise<Decoded<Memory>> {
    const { room, signal } = task;
    const { promise, resolve, reject } = Promise.withResolvers<Decoded<Memory>>();
    const timeout = new MediaError("decoder_timeout", `Decoding took longer than ${this.#settings.jobTimeoutMs} ms`);
    const timer = setTimeout(() => this.kill(timeout), this.#settings.jobTimeoutMs);
    const job: RunningJob<Memory> = {
      id: this.#nextJob++,
      task,
      resolve,
      reject,
      timer,
      room,
      refused: null,
      taken: false,
      failure: null,
    };
    this.#job = job;
    this.#jobs += 1;
    const abort = (): void => this.kill(new MediaError("aborted", "The caller gave up while the medium was decoded"));
    signal?.addEventListener("abort", abort, { once: true });
    void this.#handOver(job);
    return promise.finally(() => signal?.removeEventListener("abort", abort));
  }

  async #handOver(job: RunningJob<Memory>): Promise<void> {
    const { id, task } = job;
    const { request, encoded, threads } = task;
    const isWanted = (): boolean => this.#job === job && job.failure === null;
    try {
      const room = this.#roomAhead(job, startOf(encoded));
      const delivery = this.#channel.deliver(encoded, isWanted);
      // What is delivered at once is also said at once.
      const source = typeof delivery === "string" ? delivery : await delivery;
      if (isWanted()) this.#say({ type: "job", id, request, byteLength: encoded.byteLength, source, threads, room });
    } catch (error) {
      if (!isWanted()) return;
      this.#killUnlessGone(asMediaError(error, "system_failed", "The medium could not be handed to the decoder"));
    }
  }

  /** A child that is gone already never saw the medium, which another one can be given: that is no failure of the job. */
  #killUnlessGone(failure: MediaError): void {
    this.kill(isPeerGone(failure.cause) ? null : failure);
  }

  /** Whether it was ended on purpose, not for anything that it did. */
  get isRetired(): boolean {
    return this.#retiring;
  }

  /** It gets no more jobs, and is ended as soon as it has none. */
  retire(): void {
    this.#retiring = true;
    if (!this.#job) this.kill();
  }

  /** SIGKILL. A running job fails with `failure` once the process has been reaped. */
  kill(failure: MediaError | null = null): void {
    if (!this.#alive) return;
    this.#ending = true;
    if (this.#job) this.#job.failure ??= failure;
    this.#endTimer ??= setInterval(() => {}, START_TIMEOUT_MS);
    this.#process.kill();
  }

  #say(message: ParentMessage): void {
    if (!this.#alive) return;
    try {
      this.#process.send(message);
    } catch (error) {
      this.kill(asMediaError(error, "decoder_crashed", "The decoder process is not to be reached"));
    }
  }

  #receive(message: unknown): void {
    const parsed = childMessageSchema.safeParse(message);
    try {
      if (!parsed.success) throw new MediaError("decoder_failed", "The decoder said something that makes no sense");
      this.#handle(parsed.data);
    } catch (error) {
      const isSaid = error instanceof MediaError && error.code === "decoder_failed";
      this.kill(isSaid ? error : new MediaError("decoder_failed", "The decoder misbehaved", { cause: error }));
    }
  }

  #handle(message: ChildMessage): void {
    if (message.type === "ready") {
      this.#started = true;
      clearTimeout(this.#startTimer);
      this.#becameReady.resolve();
      return;
    }
    if (message.type === "warning") {
      this.#settings.onWarning(message.message);
      return;
    }
    if (message.type === "memory") {
      this.#privateBytes = message.privateBytes;
      this.#settings.onMemory();
      return;
    }
    const job = this.#job;
    if (!job || job.id !== message.id || job.failure) return; // of a job that is being given up
    switch (message.type) {
      case "taken":
        job.taken = true;
        return;
      case "need":
        this.#giveRoom(job, message.payloadBytes, message.headerBytes);
        return;
      case "failed":
        this.#failed(job, message);
        return;
      case "done": {
        const room = checkAnswer(job.task.request, message.tensor, job.room);
        room.shrink(message.tensor.byteLength);
        this.#finish(job, () => job.resolve({ tensor: message.tensor, room, timings: message.timings }));
        return;
      }
    }
  }

  /** The room that the job will probably ask for. When there is none now, the decoder is refused it when it asks. */
  #roomAhead(job: RunningJob<Memory>, encoded: Uint8Array): RoomPlace | null {
    if (job.room) return placeOf(job.room);
    const payloadBytes = roomAhead(job.task.request, encoded);
    if (payloadBytes === null || job.task.isHeldBack(payloadBytes)) return null;
    try {
      job.room = this.#rooms.take(this.owner, payloadBytes);
      return placeOf(job.room);
    } catch {
      return null;
    }
  }

  #failed(job: RunningJob<Memory>, { code, message, cause }: Extract<ChildMessage, { type: "failed" }>): void {
    const isRefusal = code === "no_room" || code === "medium_exceeds_pool";
    if (isRefusal && job.refused?.refusal.code !== code) {
      throw new MediaError("decoder_failed", "The decoder complained of a room that it was not refused");
    }
    const error = isRefusal ? job.refused : new MediaError(code, message, cause === null ? {} : { cause });
    this.#finish(job, () => {
      job.room?.dispose();
      if (error) job.reject(error);
    });
  }

  #giveRoom(job: RunningJob<Memory>, payloadBytes: number, headerBytes: number): void {
    job.room?.dispose();
    job.room = null;
    try {
      if (job.task.isHeldBack(payloadBytes, headerBytes)) {
        throw new MediaError("no_room", "The pool has no room for the medium: others wait for it already");
      }
      job.room = this.#rooms.take(this.owner, payloadBytes, headerBytes);
      this.#say({ type: "room", id: job.id, room: placeOf(job.room) });
    } catch (error) {
      const refusal = asMediaError(error, "system_failed", "No memory could be given to the decoder");
      job.refused = new RoomRefused(refusal, payloadBytes, headerBytes);
      this.#say({ type: "refused", id: job.id, code: refusal.code, message: refusal.message });
    }
  }

  #finish(job: RunningJob<Memory>, settle: () => void): void {
    clearTimeout(job.timer);
    this.#job = null;
    settle();
    if (this.#retiring) this.kill();
  }

  /** The process has been reaped: nothing can write to its memory any more. */
  #exited(how: string): void {
    this.#alive = false;
    clearTimeout(this.#startTimer);
    clearInterval(this.#endTimer);
    const { stderr } = this.#process;
    const cause = stderr === "" ? how : `${how}: ${stderr}`;
    this.#becameReady.reject(
      new MediaError("decoder_crashed", "The decoder process ended while it started", { cause }),
    );
    const job = this.#job;
    if (job) {
      const crash = new MediaError("decoder_crashed", `The decoder process died while it decoded the medium (${how})`, {
        cause,
      });
      this.#finish(job, () => {
        job.room?.dispose();
        job.reject(job.failure ?? (job.taken ? crash : new JobNotTaken(crash)));
      });
    }
    this.#rooms.removeOwner(this.owner);
    this.#channel.dispose();
    this.#ended.resolve();
  }
}

function placeOf({ offset, headerBytes, payloadBytes }: RoomMemory): RoomPlace {
  return { offset, headerBytes, payloadBytes };
}

/** Whether a system call failed because nobody is at the other end. */
export function isPeerGone(cause: unknown): boolean {
  return cause instanceof NativeStatus && PEER_GONE_STATUSES.has(cause.status);
}
