import { expect, test } from "bun:test";
import { decode, media } from "../../support/images.ts";

test("decoders work in several Workers at a time, and give what they give elsewhere", async () => {
  const pictures = await Promise.all(["odd.jpg", "jpg_icc_swapped.jpg", "rgba16.png", "rgb.avif"].map(media));
  const expected: (string | null)[] = [];
  for (const picture of pictures) {
    expected.push((await decode(picture)).tensor.contentHash);
    expected.push((await decode(picture, { max_pixels: 500, to_srgb: true })).tensor.contentHash);
  }
  const answers = await Promise.all(
    [1, 2, 3].map(async () => {
      const worker = new Worker(new URL("../../support/decoding_worker.ts", import.meta.url).href);
      try {
        return await new Promise<unknown>((resolve, reject) => {
          worker.onmessage = ({ data }) => resolve(data);
          worker.onerror = ({ message }) => reject(new Error(message));
          worker.postMessage({ pictures, rounds: 20 });
        });
      } finally {
        worker.terminate();
      }
    }),
  );
  expect(answers).toEqual([expected, expected, expected]);
});
