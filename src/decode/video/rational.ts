/** Exact fractions, as containers state time bases and frame rates. */

/** A fraction of two safe integers; `den` is more than 0. */
export interface Rational {
  readonly num: number;
  readonly den: number;
}

/** The fraction in lowest terms. */
export function reduced(num: number, den: number): Rational {
  let [divisor, rest] = [Math.abs(num), Math.abs(den)];
  while (rest !== 0) [divisor, rest] = [rest, divisor % rest];
  return divisor === 0 ? { num, den } : { num: num / divisor, den: den / divisor };
}

export function sameRational(a: Rational, b: Rational): boolean {
  return BigInt(a.num) * BigInt(b.den) === BigInt(b.num) * BigInt(a.den);
}

/**
 * `value × num / den` in integers, rounded to the nearest, halves away from zero: how libavutil rescales timestamps.
 * @param value not negative
 */
export function rescaled(value: number, num: number, den: number): number {
  const divisor = BigInt(den);
  return Number((BigInt(value) * BigInt(num) + divisor / 2n) / divisor);
}
