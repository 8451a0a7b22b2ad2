/** Work that is wanted by several at once runs once. */
import { ABORTED, unlessAborted } from "../abort.ts";
import { MediaError } from "../errors.ts";
import type { SharedTensor } from "./shared_tensor.ts";

/** One piece of work under way, and how many wait for it. */
interface Flight {
  readonly outcome: Promise<SharedTensor>;
  readonly controller: AbortController;
  waiters: number;
  /** What came of it: the flight has it until nobody waits any more. */
  tensor: SharedTensor | null;
}

/** Loads by key. */
export class Flights {
  readonly #flights = new Map<string, Flight>();
  #joined = 0;

  /** Pieces of work under way. */
  get size(): number {
    return this.#flights.size;
  }

  /** Loads that found their work under way already. */
  get joined(): number {
    return this.#joined;
  }

  /**
   * What `start` gives, which is called, at once, only when nobody is at that key's work yet. The work is given up when all who
   * wait for it have given up; the last of them waits until it has ended.
   * @param start is given the signal by which the work is given up
   * @returns a tensor that the caller releases
   * @throws MediaError aborted, and what `start` throws
   */
  async join(
    key: string,
    start: (signal: AbortSignal) => Promise<SharedTensor>,
    signal: AbortSignal | undefined,
  ): Promise<SharedTensor> {
    if (signal?.aborted) throw abortedError();
    let flight = this.#flights.get(key);
    if (flight) this.#joined += 1;
    else flight = this.#begin(key, start);
    flight.waiters += 1;
    try {
      const outcome = await unlessAborted(flight.outcome, signal);
      if (outcome !== ABORTED) return outcome.retain();
    } finally {
      this.#leave(key, flight);
    }
    // What was begun for nobody else must have come to its end: its bytes may be the caller's.
    if (flight.waiters === 0) await flight.outcome.catch(() => {});
    throw abortedError();
  }

  #begin(key: string, start: (signal: AbortSignal) => Promise<SharedTensor>): Flight {
    const controller = new AbortController();
    const flight: Flight = { outcome: start(controller.signal), controller, waiters: 0, tensor: null };
    this.#flights.set(key, flight);
    flight.outcome.then(
      (tensor) => {
        this.#end(key, flight);
        if (flight.waiters === 0) tensor.release();
        else flight.tensor = tensor;
      },
      () => this.#end(key, flight),
    );
    return flight;
  }

  #leave(key: string, flight: Flight): void {
    flight.waiters -= 1;
    if (flight.waiters > 0) return;
    this.#end(key, flight); // whoever comes now begins anew
    flight.controller.abort();
    flight.tensor?.release();
    flight.tensor = null;
  }

  #end(key: string, flight: Flight): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
  }
}

export function abortedError(): MediaError {
  return new MediaError("aborted", "The caller gave up before the medium was loaded");
}
