/** Waiting that a signal can end. */

/** What {@link unlessAborted} gives when the signal came first. */
export const ABORTED: unique symbol = Symbol("aborted");

/**
 * What a promise gives, or {@link ABORTED} as soon as the signal comes. What the promise stands for may go on in the background;
 * when it fails later, nobody hears of it.
 * @param graceMs how long the promise may still take once the signal has come, ms
 */
export async function unlessAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  graceMs = 0,
): Promise<T | typeof ABORTED> {
  if (!signal) return promise;
  const aborted = Promise.withResolvers<typeof ABORTED>();
  const end = (): void => aborted.resolve(ABORTED);
  const abort = (): void => {
    if (graceMs > 0) setTimeout(end, graceMs);
    else end();
  };
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
    promise.catch(() => {});
  }
}
