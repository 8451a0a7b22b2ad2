/** How large a picture becomes that may have only so many pixels. */

/** Sides of a picture, pixels. */
export interface PixelSize {
  readonly width: number;
  readonly height: number;
}

/** The largest size of the same aspect that has no more than `maxPixels`; the picture's own when that is small enough. */
export function scaledSize({ width, height }: PixelSize, maxPixels: number): PixelSize {
  if (width * height <= maxPixels) return { width, height };
  const scale = Math.sqrt(maxPixels / (width * height));
  const short = Math.max(1, Math.floor(Math.min(width, height) * scale));
  // A line's short side is a pixel already, so that the long one gives way for both.
  const long = Math.max(1, Math.min(Math.floor(Math.max(width, height) * scale), Math.floor(maxPixels / short)));
  return width < height ? { width: short, height: long } : { width: long, height: short };
}
