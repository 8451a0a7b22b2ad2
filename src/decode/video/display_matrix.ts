/** How a container wants pictures to be turned before they are shown, and ffmpeg's filters that do so. */

/** `a b c d` of a transformation by which the point (x, y) goes to (ax + cy, bx + dy); y points down. */
export type Matrix = readonly [a: number, b: number, c: number, d: number];

export interface Turn {
  /** In the order in which they are applied. */
  readonly filters: readonly string[];
  /** Whether width becomes height. */
  readonly swapsSides: boolean;
}

export const NOT_TURNED: Turn = { filters: [], swapsSides: false };

/** First `matrix`, then `next`. */
export function product(matrix: Matrix, next: Matrix | null): Matrix {
  if (!next) return matrix;
  const [a, b, c, d] = matrix;
  const [e, f, g, h] = next;
  return [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h];
}

/** Quarter turns and mirrorings. What is left of a matrix (scale, slant, other angles) is not done. */
export function turnOfMatrix([a, b, c, d]: Matrix): Turn {
  if (b === 0 && c === 0) {
    return { filters: [...(a < 0 ? ["hflip"] : []), ...(d < 0 ? ["vflip"] : [])], swapsSides: false };
  }
  if (a !== 0 || d !== 0) return NOT_TURNED;
  // ffmpeg's names: a quarter turn, and "_flip" for upside down after it.
  const name = b > 0 ? (c > 0 ? "cclock_flip" : "clock") : c > 0 ? "cclock" : "clock_flip";
  return { filters: [`transpose=dir=${name}`], swapsSides: true };
}
