/** How late the event loop is: what all that a process serves besides would feel. */
import { percentile, rounded } from "./statistics.ts";

const TIMER_MS = 1;

/** By how much timers were late, ms. */
export interface Lateness {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
}

/** By how much each of a row of timers of 1 ms is late, until `isOver` says so after one, ms. */
export async function latenesses(isOver: () => boolean): Promise<number[]> {
  const late: number[] = [];
  while (!isOver()) {
    const start = performance.now();
    await new Promise((resolve) => setTimeout(resolve, TIMER_MS));
    late.push(performance.now() - start - TIMER_MS);
  }
  return late;
}

/** The same for so many milliseconds. */
export function latenessesFor(milliseconds: number): Promise<number[]> {
  const end = performance.now() + milliseconds;
  return latenesses(() => performance.now() >= end);
}

export function latenessOf(late: readonly number[]): Lateness {
  const at = (share: number): number => rounded(Math.max(0, percentile(late, share)));
  return { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}
