/** Medians and percentiles, and numbers that can be read. */

/** @param share 0.5 for the median; between two values the nearer one */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(share * (sorted.length - 1))))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Four significant digits. */
export function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
