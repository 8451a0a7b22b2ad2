/** Turning and mirroring by the eight values of EXIF's orientation (CIPA DC-008, 4.6.5, tag 274). */
import type { Pixels } from "../decoders/libvips.ts";
import type { PixelSize } from "../image_header.ts";

/** 1 is upright. From 5 on rows and columns change places. */
export type Orientation = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;

export function isOrientation(value: number): value is Orientation {
  return Number.isInteger(value) && value >= 1 && value <= 8;
}

/** Size of a picture when it stands upright. */
export function uprightSize({ width, height }: PixelSize, orientation: Orientation): PixelSize {
  return orientation >= 5 ? { width: height, height: width } : { width, height };
}

/** Which values begin at the file's last column, and at its last row: those run backwards when the picture is upright. */
const FROM_RIGHT: ReadonlySet<Orientation> = new Set([2, 3, 7, 8]);
const FROM_BOTTOM: ReadonlySet<Orientation> = new Set([3, 4, 6, 7]);

/** The picture upright; pixels are moved, never resampled. */
export function turnUpright(picture: Pixels, orientation: Orientation): Pixels {
  if (orientation === 1) return picture;
  const { width, height, channels, bytes } = picture;
  const size = uprightSize(picture, orientation);
  const upright = new Uint8Array(bytes.length);
  const columnStep = FROM_RIGHT.has(orientation) ? -channels : channels;
  const rowStep = (FROM_BOTTOM.has(orientation) ? -1 : 1) * width * channels;
  const origin = (columnStep < 0 ? (width - 1) * channels : 0) + (rowStep < 0 ? (height - 1) * width * channels : 0);
  const [stepX, stepY] = orientation >= 5 ? [rowStep, columnStep] : [columnStep, rowStep];
  for (let y = 0, to = 0; y < size.height; y++) {
    for (let x = 0, from = origin + y * stepY; x < size.width; x++, from += stepX) {
      for (let channel = 0; channel < channels; channel++) upright[to++] = bytes[from + channel] ?? 0;
    }
  }
  return { ...size, channels, bytes: upright };
}
