/** How many requests run at the same time, from one origin and in all; the others wait in line, which is bounded. */
import { MediaError } from "../errors.ts";
import type { FetchClock } from "./clock.ts";

export interface TurnLimits {
  readonly max_fetches: number;
  readonly max_fetches_per_origin: number;
  readonly max_waiting_fetches: number;
}

interface Waiting {
  readonly origin: string;
  readonly start: () => void;
}

/** Turns are given in the order in which they were asked for, save that one whose origin is busy lets others by. */
export class Turns {
  readonly #limits: TurnLimits;
  readonly #activeOf = new Map<string, number>();
  readonly #line: Waiting[] = [];
  #active = 0;

  constructor(limits: TurnLimits) {
    this.#limits = limits;
  }

  get active(): number {
    return this.#active;
  }

  get waiting(): number {
    return this.#line.length;
  }

  /**
   * @param isUnderWay it has had a turn before: it goes to the front, however many wait
   * @returns the turn, disposed of when it is over
   * @throws MediaError overloaded, or the clock's
   */
  async take(origin: string, clock: FetchClock, isUnderWay: boolean): Promise<Disposable> {
    clock.signal.throwIfAborted();
    if (this.#isFree(origin)) return this.#start(origin);
    const { max_waiting_fetches } = this.#limits;
    if (!isUnderWay && this.#line.length >= max_waiting_fetches) {
      throw new MediaError("overloaded", `${this.#line.length} fetches wait already`);
    }
    const turn = Promise.withResolvers<Disposable>();
    const waiting: Waiting = { origin, start: () => turn.resolve(this.#start(origin)) };
    if (isUnderWay) this.#line.unshift(waiting);
    else this.#line.push(waiting);
    using _ = clock.onEnd(() => {
      const index = this.#line.indexOf(waiting);
      if (index < 0) return; // its turn has come
      this.#line.splice(index, 1);
      turn.reject(clock.signal.reason);
    });
    return await turn.promise;
  }

  #isFree(origin: string): boolean {
    const { max_fetches, max_fetches_per_origin } = this.#limits;
    return this.#active < max_fetches && (this.#activeOf.get(origin) ?? 0) < max_fetches_per_origin;
  }

  #start(origin: string): Disposable {
    this.#count(origin, 1);
    let isOver = false;
    return {
      [Symbol.dispose]: () => {
        if (isOver) return;
        isOver = true;
        this.#count(origin, -1);
        this.#startNext();
      },
    };
  }

  #startNext(): void {
    const index = this.#line.findIndex(({ origin }) => this.#isFree(origin));
    if (index >= 0) this.#line.splice(index, 1)[0]?.start();
  }

  #count(origin: string, change: 1 | -1): void {
    this.#active += change;
    const active = (this.#activeOf.get(origin) ?? 0) + change;
    if (active === 0) this.#activeOf.delete(origin);
    else this.#activeOf.set(origin, active);
  }
}
