/** Channels of a picture: 1 grey, 2 grey + alpha, 3 RGB, 4 RGBA. */
export type ChannelCount = 1 | 2 | 3 | 4;

export function isChannelCount(channels: number): channels is ChannelCount {
  return channels === 1 || channels === 2 || channels === 3 || channels === 4;
}

export type { PixelSize } from "../scaled_size.ts";

/** What an image decodes to, according to its header. */
export interface ImageHeader {
  /** Pixels, more than 0. Where a file holds several pictures (ICO, AVIF) or a frame beside its screen, the largest. */
  readonly width: number;
  /** Pixels, more than 0. */
  readonly height: number;
  /** Of the tensor; where the header leaves it open, the most that it can be. */
  readonly channels: ChannelCount;
  /**
   * Bytes that the decoder itself makes of each pixel. More than `channels` where 16-bit samples are rounded to 8 on
   * their way into the tensor, or where the decoder makes channels that are dropped.
   */
  readonly bytesPerPixel: number;
  /** A kind within the format that takes another decoder. */
  readonly variant?: "cmyk" | "palette" | "bigtiff" | "jpeg";
}
