/** Ending what consists of several native parts: one that fails must not keep the others from being ended. */
import { MediaError } from "../errors.ts";

/**
 * Runs every step, in order, whatever the ones before it threw.
 * @param what names what is ended in the message, e.g. "the reader"
 * @throws MediaError nixl_failed when any step threw, with an AggregateError of what they threw as its cause
 */
export function runEveryStep(what: string, steps: Iterable<() => void>): void {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === 0) return;
  const message = `${errors.length} of the steps that end ${what} failed`;
  throw new MediaError("nixl_failed", message, { cause: new AggregateError(errors, message) });
}
