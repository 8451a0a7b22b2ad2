/** What an image decodes to, according to its header. */
export interface ImageHeader {
  /** Pixels, more than 0. Where a file holds several pictures (ICO, AVIF) or a frame beside its screen, the largest. */
  readonly width: number;
  /** Pixels, more than 0. */
  readonly height: number;
  /** Channels of the decoded picture: 1 grey, 2 grey + alpha, 3 RGB, 4 RGBA. Never fewer than the decoder makes. */
  readonly channels: number;
  /** Bytes that the decoder makes for each sample, before 16-bit samples are rounded to 8. */
  readonly bytesPerSample: 1 | 2;
  /** A kind within the format that takes another decoder. */
  readonly variant?: "cmyk" | "palette" | "bigtiff";
}
