import { afterAll, beforeAll, expect, test } from "bun:test";
import { MediaDecoder } from "../../../src/index.ts";
import { mediaBytes, mediaPath } from "../../support/media.ts";

let decoder: MediaDecoder;

beforeAll(async () => {
  decoder = await MediaDecoder.open({ decoders: { children: 1, jobTimeoutMs: 20_000 }, video: { num_frames: 2 } });
});

afterAll(() => decoder.dispose());

/** The clip with some bytes changed. */
async function changed(name: string, offset: number, bytes: number[]): Promise<Uint8Array> {
  const clip = new Uint8Array(await mediaBytes(name));
  clip.set(bytes, offset);
  return clip;
}

test("a WebM whose damage sends the container's reader round in circles is damaged, not slow", async () => {
  const [child] = decoder.childPids;
  await expect(decoder.decode(await changed("no_duration.webm", 17_415, [8]))).rejects.toMatchObject({
    code: "media_corrupt",
    status: 400,
  });
  expect(decoder.childPids).toEqual([child ?? 0]); // it was not killed for it
});

test("a timestamp that no number can tell from the next is damage, not a search without end", async () => {
  const clip = new Uint8Array(await mediaBytes("resolution_change.ivf"));
  const view = new DataView(clip.buffer);
  // IVF: a header of 32 bytes, then frames of 12 bytes (size, 64-bit timestamp) and their data.
  let last = 32;
  for (let at = 32; at + 12 <= clip.length; at += 12 + view.getUint32(at, true)) last = at;
  view.setBigUint64(last + 4, 1n << 60n, true);
  await expect(decoder.decode(clip)).rejects.toMatchObject({ code: "media_corrupt" });
});

test("the decoder goes on after them", async () => {
  using decoded = await decoder.decode({ path: mediaPath("vp9.webm") });
  expect(decoded.media.info.shape[0]).toBe(2);
});
