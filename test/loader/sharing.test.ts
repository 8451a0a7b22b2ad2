import { afterEach, describe, expect, test } from "bun:test";
import { MediaDecoder, type MediaDescriptor, MediaLoader, type MediaLoaderOptions } from "../../src/index.ts";
import { mediaBytes, noisePng } from "../support/media.ts";
import { LOCAL, startMediaOrigin } from "../support/media_origin.ts";
import { answer, startOrigin } from "../support/origin.ts";
import { eventually } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

const CACHED: MediaLoaderOptions = { ...LOCAL, cache: { bytes: 64 * 2 ** 20 } };
const held: MediaDescriptor[] = [];

afterEach(() => {
  for (const descriptor of held.splice(0)) descriptor.dispose();
});

async function loadAll(loader: MediaLoader, sources: Parameters<MediaLoader["load"]>[0][]): Promise<MediaDescriptor[]> {
  const descriptors = await Promise.all(sources.map((source) => loader.load(source)));
  held.push(...descriptors);
  return descriptors;
}

function addressesOf(descriptors: readonly MediaDescriptor[]): Set<number> {
  return new Set(descriptors.map((descriptor) => descriptor.nixlDescriptor.addr));
}

function dataUrl(bytes: Uint8Array): string {
  return `data:image/png;base64,${Buffer.from(bytes).toString("base64")}`;
}

test.each([
  ["with a cache", CACHED],
  ["without one", LOCAL],
])("a hundred loads of one URL at a time are one fetch, one decode and one room, %s", async (_, options) => {
  await using loader = await MediaLoader.create(options);
  using origin = await startMediaOrigin(50);
  const descriptors = await loadAll(
    loader,
    Array.from({ length: 100 }, () => origin.url("/odd.jpg")),
  );
  expect(origin.connections).toBe(1);
  expect(addressesOf(descriptors).size).toBe(1);
  expect(new Set(descriptors.map(({ contentHash }) => contentHash)).size).toBe(1);
  expect(loader.stats.cache).toMatchObject({ misses: 1, joined: 99 });
  expect(loader.occupancy.rooms).toBe(1);
  expect(loader.stats.holds.held).toBe(100);
  for (const descriptor of descriptors.slice(1)) descriptor.dispose();
  expect(descriptors[0]?.localPayload?.byteLength).toBe(descriptors[0]?.byteLength);
});

test("without a cache the room goes with the last descriptor, and the next load fetches again", async () => {
  await using loader = await MediaLoader.create(LOCAL);
  using origin = await startMediaOrigin();
  for (const descriptor of await loadAll(loader, [origin.url("/rgb.png"), origin.url("/rgb.png")]))
    descriptor.dispose();
  expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
  await loadAll(loader, [origin.url("/rgb.png")]);
  expect(origin.connections).toBe(2);
});

test("the same picture under ten URLs, as a data URL, as bytes and as a file is decoded once", async () => {
  await using loader = await MediaLoader.create(CACHED);
  using origin = await startMediaOrigin();
  const bytes = await mediaBytes("rgb.png");
  const descriptors = await loadAll(loader, [
    ...Array.from({ length: 10 }, (_, index) => origin.url(`/rgb.png?${index}`)),
    dataUrl(bytes),
    bytes,
    new URL(dataUrl(bytes)),
    { path: new URL("../media/rgb.png", import.meta.url).pathname },
  ]);
  expect(origin.connections).toBe(10);
  expect(loader.stats.cache.misses).toBe(1);
  expect(addressesOf(descriptors).size).toBe(1);
  expect(loader.occupancy.rooms).toBe(1);
  // Later, one after the other, it is still there, and no URL is asked for again.
  await loadAll(loader, [origin.url("/rgb.png?3"), dataUrl(bytes)]);
  expect(origin.connections).toBe(10);
  expect(loader.stats.cache).toMatchObject({ misses: 1, entries: 1 });
});

test("other settings make another tensor, settings of another modality do not", async () => {
  await using loader = await MediaLoader.create({ ...CACHED, video: { num_frames: 2 } });
  using origin = await startMediaOrigin();
  const part = { type: "video_url", video_url: { url: origin.url("/h264.mp4") } } as const;
  const load = async (options: Parameters<MediaLoader["load"]>[1]) => {
    const descriptor = await loader.load(part, options);
    held.push(descriptor);
    return descriptor;
  };
  const two = await load({});
  const three = await load({ mediaIoKwargs: { video: { num_frames: 3 } } });
  const hashed = await load({ hashVideo: true });
  const again = await load({ mediaIoKwargs: { image: {} } });
  expect([two.shape[0], three.shape[0], hashed.shape[0]]).toEqual([2, 3, 2]);
  expect([two.contentHash, three.contentHash]).toEqual([null, null]);
  expect(hashed.contentHash).toMatch(/^[0-9a-f]{16}$/);
  expect(again.nixlDescriptor.addr).toBe(two.nixlDescriptor.addr);
  expect(loader.stats.cache.misses).toBe(3);
});

test("what is wanted as another kind is not what the cache has", async () => {
  await using loader = await MediaLoader.create(CACHED);
  using origin = await startMediaOrigin();
  const url = origin.url("/rgb.png");
  await loadAll(loader, [{ type: "image_url", image_url: { url } }, url]);
  const error = await refusal(loader.load({ type: "video_url", video_url: { url } }));
  expect(error).toMatchObject({ code: "media_unsupported", status: 400 });
  const clip = await refusal(loader.load({ type: "image_url", image_url: { url: origin.url("/h264.mp4") } }));
  expect(clip).toMatchObject({ code: "media_unsupported", status: 400 });
});

describe("the cache", () => {
  test("keeps to its bytes: what was used longest ago goes first", async () => {
    const names = ["rgb.png", "odd.jpg", "gray.png", "rgb.tiff"];
    await using measuring = await MediaLoader.create(CACHED);
    await loadAll(measuring, await Promise.all(names.map((name) => mediaBytes(name))));
    const bytes = measuring.stats.cache.bytes - 1;
    expect(measuring.stats.cache.entries).toBe(4);

    await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes } });
    for (const name of names) (await loader.load(await mediaBytes(name))).dispose();
    expect(loader.stats.cache).toMatchObject({ evictions: 1, entries: 3, misses: 4, hits: 0 });
    expect(loader.stats.cache.bytes).toBe(loader.occupancy.bytes);
    expect(loader.stats.cache.bytes).toBeLessThanOrEqual(bytes);
    (await loader.load(await mediaBytes("odd.jpg"))).dispose();
    expect(loader.stats.cache).toMatchObject({ misses: 4, hits: 1 });
    (await loader.load(await mediaBytes("rgb.png"))).dispose();
    expect(loader.stats.cache).toMatchObject({ misses: 5, hits: 1 });
  });

  test("does not give up a tensor that is larger than itself for anything, nor take it", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes: 300_000 } });
    (await loader.load(await mediaBytes("gray.png"))).dispose();
    (await loader.load(await mediaBytes("odd.jpg"))).dispose(); // 500 kB
    expect(loader.stats.cache).toMatchObject({ entries: 1, evictions: 0 });
  });

  test("has a tensor for as long as a descriptor needs it, evicted or not", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes: 507_904 } });
    const [photo] = await loadAll(loader, [await mediaBytes("odd.jpg")]);
    const before = Buffer.from(photo?.localPayload ?? []);
    (await loader.load(await mediaBytes("rgb.png"))).dispose();
    expect(loader.stats.cache.evictions).toBe(1);
    expect(Buffer.compare(before, photo?.localPayload ?? new Uint8Array())).toBe(0);
    photo?.dispose();
    expect(loader.occupancy.rooms).toBe(1);
  });

  test("gives way when the pool is full", async () => {
    const pool = { slabBytes: 2 ** 20, budgetBytes: 2 ** 21, quarantineMs: 0 };
    await using loader = await MediaLoader.create({
      ...LOCAL,
      pool,
      decoders: { children: 1 },
      cache: { bytes: 2 ** 22 },
    });
    // Four of them fit.
    for (const height of [399, 400, 401, 402, 403, 404, 405, 406]) {
      (await loader.load(await noisePng(400, height))).dispose();
    }
    expect(loader.stats.cache).toMatchObject({ evictions: 4, entries: 4, misses: 8 });
    expect(loader.stats.pool.quarantineShortened).toBe(0);
  });

  test("does not keep failures", async () => {
    await using loader = await MediaLoader.create(CACHED);
    let isThere = false;
    const body = await mediaBytes("rgb.png");
    using origin = await startOrigin((socket) => socket.end(isThere ? answer(body) : answer("", { status: 503 })));
    expect(await refusal(loader.load(origin.url()))).toMatchObject({ code: "origin_refused", status: 400 });
    expect((await refusal(loader.load(origin.url()))).message).toContain("503");
    isThere = true;
    await loadAll(loader, [origin.url()]);
    expect(origin.connections).toBe(3);
  });

  test("is not changed by what the program does with its bytes afterwards", async () => {
    await using loader = await MediaLoader.create(CACHED);
    const bytes = new Uint8Array(await mediaBytes("rgb.png"));
    const loading = loader.load(bytes);
    bytes.fill(0);
    const [first] = await Promise.all([loading]);
    held.push(first);
    const [second] = await loadAll(loader, [await mediaBytes("rgb.png")]);
    expect(second?.contentHash).toBe(first.contentHash);
    expect(second?.nixlDescriptor.addr).toBe(first.nixlDescriptor.addr);
  });

  test("gives nothing to one who has given up already", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes: 2 ** 24 } });
    using origin = await startMediaOrigin();
    using _kept = await loader.load(origin.url("/rgb.png"));
    const error = await refusal(loader.load(origin.url("/rgb.png"), { signal: AbortSignal.abort() }));
    expect(error.code).toBe("aborted");
    expect(loader.stats.holds.held).toBe(1);
  });

  test("refuses bytes that somebody else has taken over, as without one", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes: 2 ** 24 } });
    const bytes = new Uint8Array(await mediaBytes("rgb.png"));
    structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
    const error = await refusal(loader.load(bytes));
    await using without = await MediaLoader.create(LOCAL);
    expect(error.code).toBe((await refusal(without.load(bytes))).code);
    expect(error.status).toBe(400);
  });

  test.each([
    ["0.0625", true],
    ["0", false],
    ["-1", false],
    ["many", false],
    ["", false],
    ["0x1", false],
    ["Infinity", false],
    ["1e-5", false], // some kilobytes: less than the picture
    ["1e300", true],
  ])("is as large as the environment says: %p", async (gibibytes, isKept) => {
    const before = process.env.DYN_MULTIMODAL_LOADER_CACHE_GB;
    process.env.DYN_MULTIMODAL_LOADER_CACHE_GB = gibibytes;
    try {
      await using loader = await MediaLoader.create(LOCAL);
      (await loader.load(await mediaBytes("rgb.png"))).dispose();
      expect(loader.stats.cache.entries).toBe(isKept ? 1 : 0);
    } finally {
      if (before === undefined) delete process.env.DYN_MULTIMODAL_LOADER_CACHE_GB;
      else process.env.DYN_MULTIMODAL_LOADER_CACHE_GB = before;
    }
  });
});

describe("of several who wait for one medium", () => {
  test("one may give up, and the others get it", async () => {
    await using loader = await MediaLoader.create(LOCAL);
    using origin = await startMediaOrigin(100);
    const controller = new AbortController();
    const first = refusal(loader.load(origin.url("/odd.jpg"), { signal: controller.signal }));
    const second = loadAll(loader, [origin.url("/odd.jpg")]);
    await eventually("the origin is asked", () => origin.connections === 1);
    controller.abort();
    expect(await first).toMatchObject({ code: "aborted" });
    const [descriptor] = await second;
    expect(descriptor?.shape).toEqual([333, 501, 3]);
    expect(origin.connections).toBe(1);
  });

  test("all may give up: the fetch ends, nothing is left, and the next one begins anew", async () => {
    await using loader = await MediaLoader.create(LOCAL);
    let isSilent = true;
    const body = await mediaBytes("odd.jpg");
    using origin = await startOrigin(
      (socket) => void (isSilent ? socket.write("HTTP/1.1 200 OK\r\n") : socket.end(answer(body))),
    );
    const controllers = [new AbortController(), new AbortController()];
    const loads = controllers.map(({ signal }) => refusal(loader.load(origin.url(), { signal })));
    await eventually("the origin is asked", () => origin.connections === 1);
    for (const controller of controllers) controller.abort();
    expect((await Promise.all(loads)).map(({ code }) => code)).toEqual(["aborted", "aborted"]);
    await eventually("the connection is closed", () => origin.open === 0);
    expect(loader.stats.fetches).toEqual({ active: 0, waiting: 0 });
    expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
    isSilent = false;
    await loadAll(loader, [origin.url()]);
    expect(origin.connections).toBe(2);
  });

  test("all learn of a failure", async () => {
    await using loader = await MediaLoader.create(CACHED);
    using origin = await startMediaOrigin(50);
    const errors = await Promise.all(
      Array.from({ length: 5 }, () => refusal(loader.load(origin.url("/bad_truncated.jpg")))),
    );
    expect(errors.map(({ code }) => code)).toEqual(Array.from({ length: 5 }, () => "media_corrupt"));
    expect(origin.connections).toBe(1);
    expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
  });
});

test("a decoder without agent fetches under the same policy", async () => {
  await using decoder = await MediaDecoder.open(LOCAL);
  using origin = await startMediaOrigin();
  using lease = await decoder.decode({ type: "image_url", image_url: { url: origin.url("/rgb.png") } });
  expect(lease.media.info.shape).toEqual([43, 61, 3]);
  await using strict = await MediaDecoder.open({ decoders: { children: 1 } });
  expect(await refusal(strict.decode(origin.url("/rgb.png")))).toMatchObject({ code: "url_refused" });
  expect(origin.connections).toBe(1);
});
