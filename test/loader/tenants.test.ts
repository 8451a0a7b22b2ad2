import { describe, expect, test } from "bun:test";
import { MediaLoader } from "../../src/index.ts";
import { mediaBytes } from "../support/media.ts";
import { LOCAL, startMediaOrigin } from "../support/media_origin.ts";
import { startOrigin } from "../support/origin.ts";
import { eventually } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

const NOTHING = { loads: 0, bytes: 0 };
/** Room of test/media/odd.jpg: 333 × 501 × 3 bytes and one page for the hash, in whole pages. */
const PHOTO_BYTES = 507_904;

describe("the bytes of a tenant", () => {
  test("are bounded, whoever else has room, and come back with its descriptors", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, tenants: { maxBytes: PHOTO_BYTES + 20_000 } });
    const photo = await mediaBytes("odd.jpg");
    const first = await loader.load(photo, { tenant: "alice" });
    expect(loader.usageOf("alice")).toEqual({ loads: 0, bytes: PHOTO_BYTES });
    const error = await refusal(loader.load(photo, { tenant: "alice" }));
    expect(error).toMatchObject({ code: "quota_exceeded", status: 429, retryable: true, retryAfter: 1 });
    using small = await loader.load(await mediaBytes("rgb.png"), { tenant: "alice" });
    using others = await loader.load(photo, { tenant: "bob" });
    using nobodys = await loader.load(photo);
    expect([small, others, nobodys].every(({ localPayload }) => localPayload !== null)).toBe(true);
    expect(loader.occupancy.rooms).toBe(4); // what was refused is not kept
    first.dispose();
    using again = await loader.load(photo, { tenant: "alice" });
    expect(again.localPayload).not.toBeNull();
  });

  test("count a tensor once, however many of the tenant's descriptors share it", async () => {
    await using loader = await MediaLoader.create({
      ...LOCAL,
      cache: { bytes: 2 ** 22 },
      tenants: { maxBytes: PHOTO_BYTES },
    });
    const photo = await mediaBytes("odd.jpg");
    const descriptors = await Promise.all(Array.from({ length: 20 }, () => loader.load(photo, { tenant: "alice" })));
    expect(loader.usageOf("alice")).toEqual({ loads: 0, bytes: PHOTO_BYTES });
    for (const descriptor of descriptors.slice(1)) descriptor.dispose();
    expect(loader.usageOf("alice")).toEqual({ loads: 0, bytes: PHOTO_BYTES });
    descriptors[0]?.dispose();
    expect(loader.usageOf("alice")).toEqual(NOTHING);
    expect(loader.stats.tenants).toBe(0);
  });

  test("come back when one medium of a request is too much: the request has all or nothing", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, tenants: { maxBytes: PHOTO_BYTES } });
    using origin = await startMediaOrigin();
    const content = ["/rgb.png", "/gray.png", "/odd.jpg"].map((path) => ({
      type: "image_url",
      image_url: { url: origin.url(path) },
    }));
    const request = { messages: [{ role: "user", content }] };
    const error = await refusal(loader.loadMessages(request, { tenant: "alice" }));
    expect(error).toMatchObject({ code: "quota_exceeded", status: 429 });
    expect(loader.usageOf("alice")).toEqual(NOTHING);
    expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
    using loaded = await loader.loadMessages(request, { tenant: undefined });
    expect(loaded.descriptors.length).toBe(3);
  });

  test("come back when a descriptor's time is up", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, maxHoldMs: 50, tenants: { maxBytes: PHOTO_BYTES } });
    await loader.load(await mediaBytes("odd.jpg"), { tenant: "alice" });
    await eventually("the hold ends", () => loader.stats.tenants === 0);
    expect(loader.usageOf("alice")).toEqual(NOTHING);
  });
});

describe("the loads of a tenant", () => {
  test("are bounded, and count no more once they failed or were given up", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, tenants: { maxLoads: 2 } });
    using stuck = await startOrigin((socket) => socket.write("HTTP/1.1 200 OK\r\n"));
    const controller = new AbortController();
    const { signal } = controller;
    const loads = ["/a", "/b"].map((path) => refusal(loader.load(stuck.url(path), { tenant: "alice", signal })));
    await eventually("the origin is asked", () => stuck.connections === 2);
    expect(loader.usageOf("alice")).toEqual({ loads: 2, bytes: 0 });
    const error = await refusal(loader.load(stuck.url("/c"), { tenant: "alice" }));
    expect(error).toMatchObject({ code: "quota_exceeded", status: 429 });
    expect(error.message).toContain("2 loads");
    expect(stuck.connections).toBe(2);
    (await loader.load(await mediaBytes("rgb.png"), { tenant: "bob" })).dispose();
    controller.abort();
    await Promise.all(loads);
    expect(loader.usageOf("alice")).toEqual(NOTHING);
    await refusal(loader.load(new Uint8Array(1), { tenant: "alice" }));
    expect(loader.stats.tenants).toBe(0);
  });

  test("are no reason to refuse a request that has more media than that: they come in turn", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, tenants: { maxLoads: 2 } });
    using origin = await startMediaOrigin();
    const content = Array.from({ length: 9 }, (_, index) => ({
      type: "image_url",
      image_url: { url: origin.url(`/rgb.png?${index}`) },
    }));
    using loaded = await loader.loadMessages({ messages: [{ role: "user", content }] }, { tenant: "alice" });
    expect(loaded.descriptors.length).toBe(9);
    expect(loader.usageOf("alice").loads).toBe(0);
  });
});

test("a request keeps the loads that it began: what else its tenant asks for meanwhile does not make it fail", async () => {
  await using loader = await MediaLoader.create({ ...LOCAL, tenants: { maxLoads: 1 } });
  using origin = await startMediaOrigin();
  const content = Array.from({ length: 20 }, (_, index) => ({
    type: "image_url",
    image_url: { url: origin.url(`/rgb.png?${index}`) },
  }));
  const request = { messages: [{ role: "user", content }] };
  const loading = loader.loadMessages(request, { tenant: "alice" });
  let isLoading = true;
  void loading.finally(() => {
    isLoading = false;
  });
  const others: string[] = [];
  while (isLoading) {
    const other = await refusal(loader.load(new Uint8Array(1), { tenant: "alice" }));
    others.push(other.code);
    await new Promise(setImmediate);
  }
  using loaded = await loading;
  expect(loaded.descriptors.length).toBe(20);
  expect(others.length).toBeGreaterThan(20);
  expect(new Set(others)).toEqual(new Set(["quota_exceeded"]));
});

test("a request without media asks for no loads", async () => {
  await using loader = await MediaLoader.create({ ...LOCAL, tenants: { maxLoads: 1 } });
  using stuck = await startOrigin((socket) => socket.write("HTTP/1.1 200 OK\r\n"));
  const controller = new AbortController();
  const load = refusal(loader.load(stuck.url("/a"), { tenant: "alice", signal: controller.signal }));
  await eventually("the origin is asked", () => stuck.connections === 1);
  const named = { type: "image_url", image_url: null, uuid: "there already" };
  using loaded = await loader.loadMessages(
    { messages: [{ role: "user", content: ["text", named] }] },
    { tenant: "alice" },
  );
  expect(loaded.descriptors).toEqual([]);
  controller.abort();
  await load;
});

test.each([["", 5, {}]])("a tenant is named by a text that is not empty: not by %p", async (tenant) => {
  await using loader = await MediaLoader.create({ ...LOCAL, decoders: { children: 1 } });
  const error = await refusal(loader.load(new Uint8Array(1), { tenant: tenant as string }));
  expect(error).toMatchObject({ code: "invalid_options" });
});
