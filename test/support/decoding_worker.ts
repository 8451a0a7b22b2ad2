/** A Worker that decodes the pictures it is sent, many times, and answers with their content hashes. */
import { decode } from "./images.ts";

declare const self: Worker;

self.onmessage = async ({ data }: MessageEvent<{ pictures: Uint8Array[]; rounds: number }>) => {
  const hashes = new Set<string | null>();
  for (let round = 0; round < data.rounds; round++) {
    for (const picture of data.pictures) {
      hashes.add((await decode(picture)).tensor.contentHash);
      hashes.add((await decode(picture, { max_pixels: 500, to_srgb: true })).tensor.contentHash);
    }
  }
  self.postMessage([...hashes]);
};
