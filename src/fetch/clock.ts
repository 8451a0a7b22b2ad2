/** When a fetch has to end: its caller's signal, the time it may take, and the silence of an origin. */
import { MediaError } from "../errors.ts";

/** One way to end that comes from outside. */
export interface Ending {
  readonly signal: AbortSignal;
  /** What the fetch fails with. */
  readonly error: () => MediaError;
}

/**
 * One signal for all that ends a fetch; its reason is the MediaError that the fetch fails with. `dispose()` stops the timers and lets
 * go of the callers' signals.
 */
export class FetchClock implements Disposable {
  readonly #controller = new AbortController();
  readonly #cleanUps: (() => void)[] = [];
  readonly #idleSeconds: number;
  #idleTimer: NodeJS.Timeout | undefined;

  /** @param limits seconds; a timeout of null is none */
  constructor(limits: { timeout: number | null; idle_timeout: number }, endings: readonly Ending[]) {
    this.#idleSeconds = limits.idle_timeout;
    for (const { signal, error } of endings) {
      const end = (): void => this.#end(error());
      if (signal.aborted) end();
      signal.addEventListener("abort", end, { once: true });
      this.#cleanUps.push(() => signal.removeEventListener("abort", end));
    }
    if (limits.timeout !== null) this.#limit(limits.timeout);
    if (this.signal.aborted) this.dispose();
  }

  /** Aborted once the fetch has to end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The origin has been heard of, or is asked for the first time: from now on it may be silent for so long. */
  touch(): void {
    if (this.signal.aborted) return;
    if (this.#idleTimer) {
      this.#idleTimer.refresh();
      return;
    }
    const text = `The origin sent nothing for ${this.#idleSeconds} s`;
    this.#idleTimer = setTimeout(() => this.#end(new MediaError("fetch_timeout", text)), this.#idleSeconds * 1000);
  }

  /** Nothing is expected of an origin for a while. */
  rest(): void {
    clearTimeout(this.#idleTimer);
    this.#idleTimer = undefined;
  }

  /** Runs at once when the fetch has to end; the returned object takes it back. */
  onEnd(action: () => void): Disposable {
    const { signal } = this;
    if (signal.aborted) action();
    else signal.addEventListener("abort", action, { once: true });
    return { [Symbol.dispose]: () => signal.removeEventListener("abort", action) };
  }

  dispose(): void {
    this.rest();
    for (const cleanUp of this.#cleanUps.splice(0)) cleanUp();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #limit(seconds: number): void {
    const error = (): MediaError => new MediaError("fetch_timeout", `The fetch took longer than ${seconds} s`);
    const timer = setTimeout(() => this.#end(error()), seconds * 1000);
    this.#cleanUps.push(() => clearTimeout(timer));
  }

  #end(error: MediaError): void {
    if (this.signal.aborted) return;
    this.dispose();
    this.#controller.abort(error);
  }
}
