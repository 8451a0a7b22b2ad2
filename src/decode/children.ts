/** The decoder children of a pool: as many as there should be, each replaced when it is gone or has done its share. */
import type { z } from "zod";
import type { MediaError } from "../errors.ts";
import type { NativeDecoders } from "./contract.ts";
import { DecoderChild } from "./decoder_child.ts";
import type { decoderPoolOptionsSchema } from "./options.ts";
import type { RoomMemory, RoomSource } from "./rooms.ts";

/** Children in a row that may fail to start before those who wait for one are told. */
const MOST_FAILED_STARTS = 3;

/** Different warnings of decoders that are passed on. */
const MOST_WARNINGS = 20;

/** Pause before children that the system refused to start are tried again, ms. */
const RESTART_DELAY_MS = 1000;

/** What children are started with. */
export interface ChildrenSettings {
  readonly count: number;
  readonly native: NativeDecoders;
  readonly options: z.output<typeof decoderPoolOptionsSchema>;
  /** The children's program, when it is another than the decoder. */
  readonly program: string | undefined;
}

/** What the one who has work for children is told. */
export interface ChildrenEvents {
  /** A child became idle, or one is gone. */
  readonly onChange: () => void;
  /** There is no child, and none can be started. */
  readonly onFailure: (error: unknown) => void;
  /** Whether slabs are needed for media that wait: then none is granted ahead. */
  readonly isShortOfRoom: () => boolean;
}

/** Children, those that start or end included. */
export class Children<Memory extends RoomMemory> {
  readonly #rooms: RoomSource<Memory>;
  readonly #settings: ChildrenSettings;
  readonly #events: ChildrenEvents;
  #all: DecoderChild<Memory>[] = [];
  /** Children in a row that never became ready. */
  #failedStarts = 0;
  readonly #warnings = new Set<string>();
  /** Children that will make way for a fresh one. */
  readonly #worn = new WeakSet<DecoderChild<Memory>>();
  #retry: ReturnType<typeof setTimeout> | undefined;
  /** Owner 0 is the parent itself. */
  #nextOwner = 1;
  #disposed = false;

  constructor(rooms: RoomSource<Memory>, settings: ChildrenSettings, events: ChildrenEvents) {
    this.#rooms = rooms;
    this.#settings = settings;
    this.#events = events;
    rooms.onGrant = (grant) => this.#all.find((child) => child.owner === grant.owner)?.grant(grant);
  }

  /** Starts all and waits until they can take work. @throws MediaError decoder_failed, decoder_crashed */
  async open(): Promise<void> {
    while (this.#all.length < this.#settings.count) this.#start();
    await Promise.all(this.#all.map((child) => child.ready));
  }

  /** Those that can be given a job. */
  idle(): readonly DecoderChild<Memory>[] {
    return this.#all.filter((child) => child.idle);
  }

  /** All whose process has not been reaped. */
  living(): readonly DecoderChild<Memory>[] {
    return this.#all.filter((child) => child.alive);
  }

  /** Whether there is none, and none will be started by itself. */
  get isGivenUp(): boolean {
    return this.#all.length === 0 && this.#retry === undefined;
  }

  /**
   * Starts as many children as are missing. What the system refuses now is tried again a little later; until then those that
   * live do the work.
   */
  fill(): void {
    try {
      while (!this.#disposed && this.#all.length < this.#settings.count) this.#start();
    } catch (error) {
      this.#fillLater();
      if (this.#all.length === 0) this.#events.onFailure(error);
    }
  }

  /**
   * A slab stays with its child as long as the child lives, empty or not. When that leaves no room, idle children with
   * empty slabs are ended and replaced.
   * @returns what resolves when they are gone; null when nothing was done, since it would not have helped
   */
  retireForRoom(payloadBytes: number, headerBytes: number): Promise<unknown> | null {
    const empty = this.idle().filter((child) => this.#rooms.hasEmptySlabs(child.owner));
    const owners = new Set(empty.map((child) => child.owner));
    if (empty.length === 0 || !this.#rooms.wouldFitWithout(owners, payloadBytes, headerBytes)) return null;
    for (const child of empty) child.retire();
    return Promise.all(empty.map((child) => child.gone));
  }

  /** Starts a fresh child beside one that has done its share; the old one works until the fresh one can. */
  recycleIfWorn(child: DecoderChild<Memory>): void {
    const { recycleAfterJobs, recycleAboveBytes } = this.#settings.options;
    const isWorn = child.jobs >= recycleAfterJobs || child.privateBytes > recycleAboveBytes;
    if (!isWorn || this.#disposed || !child.alive || this.#worn.has(child)) return;
    this.#worn.add(child);
    // When there is no other one to be had it goes on, and is looked at again a little later.
    const goOn = (): void => void setTimeout(() => this.#worn.delete(child), RESTART_DELAY_MS).unref();
    try {
      this.#start().ready.then(() => child.retire(), goOn);
    } catch {
      goOn();
    }
  }

  /** Kills all and waits until they are reaped; running jobs fail with what `failure` gives. */
  async dispose(failure: () => MediaError): Promise<void> {
    this.#disposed = true;
    clearTimeout(this.#retry);
    for (const child of this.#all) child.kill(failure());
    await Promise.all(this.#all.map((child) => child.gone));
  }

  #fillLater(): void {
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.fill();
    }, RESTART_DELAY_MS);
  }

  #start(): DecoderChild<Memory> {
    const { native, options, program } = this.#settings;
    const child: DecoderChild<Memory> = new DecoderChild<Memory>(this.#nextOwner++, this.#rooms, {
      native,
      poolBytes: this.#rooms.budgetBytes,
      jobTimeoutMs: options.jobTimeoutMs,
      memoryLimitBytes: options.memoryLimitBytes,
      onWarning: (message) => this.#warn(message),
      onMemory: () => this.recycleIfWorn(child),
      ...(program === undefined ? {} : { program }),
    });
    this.#all.push(child);
    child.ready.then(
      () => {
        this.#failedStarts = 0;
        if (!this.#events.isShortOfRoom()) this.#prepare(child);
        this.#events.onChange();
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

  /**
   * Replaces a child that is gone; one that never became ready or died before it had a job a little later, so that nothing that
   * ends children makes a loop of it. When several in a row never became ready, those who wait are told, and the next medium
   * tries again.
   */
  #replace(dead: DecoderChild<Memory>): void {
    this.#all = this.#all.filter((child) => child !== dead);
    if (this.#disposed) return;
    if (dead.started && (dead.jobs > 0 || dead.isRetired)) {
      this.fill();
    } else if (dead.started || ++this.#failedStarts < MOST_FAILED_STARTS || this.#all.length > 0) {
      this.#fillLater();
    } else {
      this.#failedStarts = 0;
      dead.ready.catch((error: unknown) => this.#events.onFailure(error));
      return;
    }
    this.#events.onChange();
  }
}
