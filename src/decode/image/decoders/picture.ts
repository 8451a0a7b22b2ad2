/** What every decoder gives back. */
export interface DecodedPicture {
  readonly width: number;
  readonly height: number;
  /** 1 grey, 2 grey + alpha, 3 RGB, 4 RGBA. */
  readonly channels: 1 | 2 | 3 | 4;
  /**
   * Writes the picture as 8-bit samples, rows from the top, channels interleaved: the one copy on its way.
   * @param payload exactly width × height × channels bytes
   */
  writeTo(payload: Uint8Array): void;
}
