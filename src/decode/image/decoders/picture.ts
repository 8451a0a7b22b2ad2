import type { ChannelCount } from "../image_header.ts";

/** What every decoder gives back. */
export interface DecodedPicture {
  readonly width: number;
  readonly height: number;
  readonly channels: ChannelCount;
  /**
   * Writes the picture as 8-bit samples, rows from the top, channels interleaved: the one copy on its way.
   * @param payload exactly width × height × channels bytes
   */
  writeTo(payload: Uint8Array): void;
}
