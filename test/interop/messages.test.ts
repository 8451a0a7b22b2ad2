/** What a chat request becomes is read by Dynamo's own client, as a worker does: from the fields that the worker is sent. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { MediaLoader } from "../../src/index.ts";
import { mediaBytes } from "../support/media.ts";
import { LOCAL, startMediaOrigin } from "../support/media_origin.ts";
import { eventually } from "../support/processes.ts";
import references from "../vectors/media.json" with { type: "json" };
import { PREPARE_TIMEOUT_MS, prepareEnvironment, READER, readLines } from "./dynamo.ts";
import { killStarted } from "./processes.ts";

const TEST_TIMEOUT_MS = 120_000;

beforeAll(prepareEnvironment, PREPARE_TIMEOUT_MS);
afterAll(killStarted);

async function chatRequest(url: (path: string) => string) {
  const inline = `data:image/png;base64,${Buffer.from(await mediaBytes("rgb.png")).toString("base64")}`;
  const content = [
    { type: "text", text: "What do these show?" },
    { type: "image_url", image_url: { url: url("/odd.jpg") } },
    { type: "image_url", image_url: { url: inline } },
    { type: "video_url", video_url: { url: url("/h264.mp4") } },
    { type: "image_url", image_url: { url: url("/lossy.webp") } },
    { type: "audio_url", audio_url: { url: url("/tone.ogg") } },
  ];
  return { messages: [{ role: "user", content }], media_io_kwargs: { video: { num_frames: 4 } } };
}

test.each([false, true])(
  "every decoded medium of a request is read unchanged (release keys: %p)",
  async (releaseKeys) => {
    await using loader = await MediaLoader.create({ ...LOCAL, hashVideo: true, releaseKeys });
    using origin = await startMediaOrigin();
    using loaded = await loader.loadMessages(await chatRequest(origin.url));
    const wire = loaded.toWire();
    const { multi_modal_data, extra_args } = JSON.parse(wire);
    const slots = [...multi_modal_data.image_url, ...multi_modal_data.video_url, ...multi_modal_data.audio_url];
    // The wire's own characters: JavaScript would print a clip's 30.0 as 30, which is another hash.
    const texts = loaded.descriptors.map((descriptor) => descriptor.toWire());
    expect(texts.every((text) => wire.includes(`{"Decoded":${text}}`))).toBe(true);
    const read = await readLines(READER, `${texts.join("\n")}\n`);

    const held = loaded.descriptors.map(({ localPayload }) => localPayload ?? new Uint8Array());
    expect(read.map(({ sha256 }) => sha256)).toEqual(
      held.map((bytes) => createHash("sha256").update(bytes).digest("hex")),
    );
    expect(read.map(({ shape }) => shape)).toEqual(slots.map((slot) => slot.Decoded.shape));
    const { image, video, audio } = extra_args.mm_hashes_by_modality;
    expect(read.map(({ content_hash }) => content_hash)).toEqual([...image, ...video, ...audio]);
    // A worker takes the rate from beside the tagged metadata.
    expect(read.at(-1)).toMatchObject({ dtype: "float32", shape: [24_000, 1], metadata: { sample_rate: 16_000 } });
    expect([...image, ...video]).toEqual([
      references["odd.jpg"].reference.content_hash,
      references["rgb.png"].reference.content_hash,
      references["lossy.webp"].reference.content_hash,
      references["h264.mp4"].reference.num_frames_4.content_hash,
    ]);
    // Dynamo's client knows no release keys: what it leaves gives nothing back, and is taken all the same.
    await eventually("the notifications are taken", () => loader.agent.notificationsTaken >= slots.length);
    expect(loader.stats.holds).toEqual({ held: 5, leaked: 0, releasedByReaders: 0 });
  },
  TEST_TIMEOUT_MS,
);
