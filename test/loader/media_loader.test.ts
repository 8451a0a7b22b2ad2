import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type MediaDescriptor, MediaError, MediaLoader, MediaReader, type MediaSource } from "../../src/index.ts";
import { mediaBytes, mediaPath } from "../support/media.ts";
import { LOCAL } from "../support/media_origin.ts";
import { startOrigin } from "../support/origin.ts";
import { eventually } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";
import references from "../vectors/media.json" with { type: "json" };

let loader: MediaLoader;
let reader: MediaReader;

beforeAll(async () => {
  loader = await MediaLoader.create({ video: { num_frames: 4 }, decoders: { children: 2 } });
  reader = await MediaReader.open();
});

afterAll(async () => {
  reader.dispose();
  await loader.dispose();
});

test("a photo becomes a descriptor that a reader reads", async () => {
  using descriptor = await loader.load({ path: mediaPath("odd.jpg") });
  using read = await reader.read(descriptor.toWire());
  expect(read.verified).toBe(true);
  expect(descriptor.contentHash).toBe(references["odd.jpg"].reference.content_hash);
  expect(Buffer.compare(read.bytes, descriptor.localPayload ?? new Uint8Array())).toBe(0);
});

test.each(["h264.mp4", "vp9.mp4"] as const)(
  "%s becomes a descriptor that a reader reads, the same as everywhere in the fleet",
  async (name) => {
    using descriptor = await loader.load({ path: mediaPath(name) }, { hashVideo: true });
    using read = await reader.read(descriptor.toWire());
    const reference = references[name].reference.num_frames_4;
    expect(read.verified).toBe(true);
    expect(descriptor.toJSON()).toMatchObject(reference);
    expect(descriptor.videoDimensions()).toEqual({ frames: 4, width: 160, height: 120 });
  },
);

test("clips get a hash only when it is asked for", async () => {
  using descriptor = await loader.load({ path: mediaPath("h264.mp4") });
  expect(descriptor.contentHash).toBeNull();
  expect(descriptor.toWire()).not.toContain("content_hash");
  using read = await reader.read(descriptor.toWire());
  expect(read.verified).toBeNull();
});

test("the same picture by path, bytes, buffer and data URL has one name and one metadata text", async () => {
  const bytes = await mediaBytes("rgb.png");
  const sources: MediaSource[] = [
    { path: mediaPath("rgb.png") },
    bytes,
    new Uint8Array(bytes).buffer,
    `data:image/jpeg;base64,${Buffer.from(bytes).toString("base64")}`,
    new URL(`data:image/png;base64,${Buffer.from(bytes).toString("base64")}`),
  ];
  const descriptors = await Promise.all(sources.map((source) => loader.load(source)));
  expect(new Set(descriptors.map((descriptor) => descriptor.contentHash)).size).toBe(1);
  expect(new Set(descriptors.map((descriptor) => descriptor.nixlMetadata)).size).toBe(1);
  for (const descriptor of descriptors) descriptor.dispose();
});

test("two hundred live descriptors carry the same metadata text, shorter than 1000 characters", async () => {
  const path = mediaPath("odd.jpg");
  const descriptors = await Promise.all(Array.from({ length: 200 }, () => loader.load({ path })));
  const texts = new Set(descriptors.map((descriptor) => descriptor.nixlMetadata));
  expect(texts.size).toBe(1);
  expect([...texts][0]?.length).toBeLessThan(1000);
  expect(new Set(descriptors.map((descriptor) => descriptor.nixlDescriptor.addr)).size).toBe(200);
  using read = await reader.read(descriptors[199]?.toWire());
  expect(read.verified).toBe(true);
  for (const descriptor of descriptors) descriptor.dispose();
  expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
});

test("payloads begin on a page", async () => {
  using image = await loader.load({ path: mediaPath("rgb.png") });
  using clip = await loader.load({ path: mediaPath("h264.mp4") });
  expect(image.nixlDescriptor.addr % 4096).toBe(0);
  expect(clip.nixlDescriptor.addr % 4096).toBe(0);
});

describe("what is wrong with the source gets a code and leaves nothing behind", () => {
  const folder = mkdtempSync(join(tmpdir(), "media-loader-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  async function codeOf(source: unknown): Promise<string> {
    let descriptor: MediaDescriptor;
    try {
      descriptor = await loader.load(source as MediaSource);
    } catch (error) {
      if (!(error instanceof MediaError)) throw error;
      expect(error.status).toBe(400);
      expect(error.message.length).toBeLessThan(500);
      return error.code;
    }
    descriptor.dispose();
    return "none";
  }

  afterAll(() => expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 }));

  test("a bare string is a URL, never a path", async () => {
    expect(await codeOf(mediaPath("odd.jpg"))).toBe("url_invalid");
    expect(await codeOf(`file://${mediaPath("odd.jpg")}`)).toBe("url_refused");
  });

  test.each([
    ["a missing file", { path: mediaPath("no such file.jpg") }, "file_unreadable"],
    ["a name that looks like an object store's", { path: "s3://bucket/key" }, "file_unreadable"],
    ["a folder", { path: mediaPath("") }, "file_unreadable"],
    ["a device that never ends", { path: "/dev/zero" }, "file_unreadable"],
    ["no bytes", new Uint8Array(0), "media_empty"],
    ["text", Buffer.from("this is no picture"), "media_unsupported"],
    ["a bad data URL", "data:image/png;base64,not!!!base64!!!", "data_url_invalid"],
    ["a URL of this machine", "http://127.0.0.1/a.jpg", "url_refused"],
    ["a URL that is no medium's", "ftp://example.com/a.jpg", "url_refused"],
    ["a number", 5, "invalid_argument"],
    ["nothing", null, "invalid_argument"],
    ["an object without a path", {}, "invalid_argument"],
  ])("%s", async (_, source, code) => {
    expect(await codeOf(source)).toBe(code);
  });

  test("an MP4 cut at 60 %", async () => {
    const clip = await mediaBytes("h264.mp4");
    expect(await codeOf(clip.subarray(0, Math.floor(clip.length * 0.6)))).toBe("media_corrupt");
  });

  test("a JPEG without its end", async () => {
    const photo = await mediaBytes("odd.jpg");
    expect(await codeOf(photo.subarray(0, photo.length - 128))).toBe("media_corrupt");
    expect(await codeOf(photo.subarray(0, photo.length / 2))).toBe("media_corrupt");
  });
});

describe("options", () => {
  test.each([
    [{ vidoe: {} }],
    [{ video: { num_framez: 4 } }],
    [{ video: { fps: 1, num_frames: 2 } }],
    [{ image: { limits: { max_image_width: -1 } } }],
    [{ pool: { slabBytes: 1 } }],
    [{ decoders: { children: 0 } }],
    [{ agent: { progressDelayMicroseconds: -1 } }],
  ])("%p are refused before anything is started", async (options) => {
    await expect(MediaLoader.create(options as never)).rejects.toMatchObject({ code: "invalid_options", status: 400 });
  });

  test("that cannot even be read are refused", async () => {
    const hostile = new Proxy(
      {},
      {
        ownKeys() {
          throw new Error("no keys");
        },
      },
    );
    await expect(MediaLoader.create(hostile)).rejects.toMatchObject({ code: "invalid_options" });
  });

  test("that timers cannot count to are refused", async () => {
    for (const options of [{ decoders: { jobTimeoutMs: 2 ** 31 } }, { agent: { drainIntervalMs: 2 ** 40 } }]) {
      await expect(MediaLoader.create(options)).rejects.toMatchObject({ code: "invalid_options" });
    }
  });

  test("of a load are checked too", async () => {
    await expect(loader.load({ path: mediaPath("odd.jpg") }, { hashvideo: true } as never)).rejects.toMatchObject({
      code: "invalid_options",
    });
  });

  test("are limits of this server", async () => {
    await using strict = await MediaLoader.create({
      image: { limits: { max_image_width: 100 } },
      video: { limits: { max_alloc: 1000 } },
      decoders: { children: 1 },
    });
    await expect(strict.load({ path: mediaPath("odd.jpg") })).rejects.toMatchObject({ code: "limit_exceeded" });
    await expect(strict.load({ path: mediaPath("h264.mp4") })).rejects.toMatchObject({ code: "limit_exceeded" });
    (await strict.load({ path: mediaPath("rgb.png") })).dispose();
  });
});

test("what of the fetch policy is given as undefined the environment says", async () => {
  const before = process.env.DYN_MM_MAX_DATA_URL_MB;
  process.env.DYN_MM_MAX_DATA_URL_MB = "1";
  try {
    await using other = await MediaLoader.create({
      decoders: { children: 1 },
      fetch: { max_data_url_bytes: undefined, allow_direct_ip: true },
    });
    const error = await refusal(other.load(`data:;base64,${"A".repeat(2 ** 21)}`));
    expect(error).toMatchObject({ code: "media_too_large", status: 400 });
  } finally {
    if (before === undefined) delete process.env.DYN_MM_MAX_DATA_URL_MB;
    else process.env.DYN_MM_MAX_DATA_URL_MB = before;
  }
});

test("a loader that is disposed of ends the loads that are under way", async () => {
  using stuck = await startOrigin((socket) => socket.write("HTTP/1.1 200 OK\r\n"));
  const other = await MediaLoader.create({ ...LOCAL, video: { num_frames: 4 } });
  const loads = [
    refusal(other.load(stuck.url())),
    refusal(other.load(stuck.url())),
    refusal(other.load({ path: mediaPath("h264.mp4") })),
    refusal(other.loadMessages({ messages: [{ content: [{ type: "image_url", image_url: stuck.url("/a") }] }] })),
  ];
  await eventually("the origin is asked", () => stuck.connections === 2);
  await other.dispose();
  expect((await Promise.all(loads)).map(({ code }) => code)).toEqual(["closed", "closed", "closed", "closed"]);
  await eventually("the connections are closed", () => stuck.open === 0);
  expect(other.occupancy).toEqual({ rooms: 0, bytes: 0 });
});

test("a disposed loader refuses work, and what it described is void", async () => {
  const other = await MediaLoader.create({ decoders: { children: 1 } });
  const descriptor = await other.load({ path: mediaPath("rgb.png") });
  expect(descriptor.localPayload).not.toBeNull();
  await other.dispose();
  await other.dispose();
  expect(descriptor.localPayload).toBeNull();
  descriptor.dispose();
  await expect(other.load({ path: mediaPath("rgb.png") })).rejects.toMatchObject({ code: "closed" });
});
