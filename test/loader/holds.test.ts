import { afterEach, describe, expect, spyOn, test } from "bun:test";
import { join } from "node:path";
import { MediaLoader, type MediaLoaderOptions, MediaReader, NixlAgent } from "../../src/index.ts";
import { mediaBytes, mediaPath } from "../support/media.ts";
import { eventually } from "../support/processes.ts";

const OPTIONS: MediaLoaderOptions = { decoders: { children: 1 }, pool: { quarantineMs: 50 } };
const READ_LINES = join(import.meta.dir, "../support/read_lines.ts");
const warnings = spyOn(console, "warn").mockImplementation(() => {});

afterEach(() => warnings.mockClear());

/** What a reader in another process says of each line. */
async function readElsewhere(lines: string[], options: object = {}): Promise<{ verified?: boolean; error?: string }[]> {
  const child = Bun.spawn([process.execPath, READ_LINES, JSON.stringify(options)], {
    stdin: Buffer.from(lines.map((line) => `${line}\n`).join("")),
    stdout: "pipe",
  });
  const text = await child.stdout.text();
  return text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));
}

describe("a descriptor that nobody gives back", () => {
  test("counts as leaked after its time, is logged, and its memory comes back after quarantine", async () => {
    await using loader = await MediaLoader.create({ ...OPTIONS, maxHoldMs: 100 });
    const descriptor = await loader.load(await mediaBytes("odd.jpg"));
    await eventually("the hold ends", () => loader.stats.holds.leaked === 1);
    expect(descriptor.localPayload).toBeNull();
    expect(descriptor.renew()).toBe(false);
    expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
    await eventually("quarantine ends", () => loader.stats.pool.quarantinedRooms === 0);
    expect(warnings).toHaveBeenCalledTimes(1);
    expect(String(warnings.mock.calls[0]?.[0])).toContain("500499 bytes was neither disposed of nor renewed");
    expect(String(warnings.mock.calls[0]?.[0])).not.toContain("b64:");
    descriptor.dispose();
    expect(loader.stats.holds).toEqual({ held: 0, leaked: 1, releasedByReaders: 0 });
  });

  test("may be renewed for as long as it is needed", async () => {
    await using loader = await MediaLoader.create({ ...OPTIONS, maxHoldMs: 400 });
    using renewed = await loader.load(await mediaBytes("odd.jpg"));
    using forgotten = await loader.load(await mediaBytes("rgb.png"));
    await eventually("the other one's time is up", async () => {
      expect(renewed.renew()).toBe(true);
      return forgotten.localPayload === null;
    });
    expect(renewed.localPayload?.byteLength).toBe(500_499);
    expect(loader.stats.holds).toMatchObject({ held: 1, leaked: 1 });
  });

  test("does not keep the program running", async () => {
    const program = `import { MediaLoader } from ${JSON.stringify(join(import.meta.dir, "../../src/index.ts"))};
      const loader = await MediaLoader.create({ decoders: { children: 1 } });
      globalThis.held = await loader.load({ path: ${JSON.stringify(mediaPath("rgb.png"))} });
      loader.agent; console.log("held");`;
    const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "pipe" });
    expect(await child.stdout.text()).toContain("held");
    expect(await child.exited).toBe(0);
  });
});

describe("quarantine", () => {
  test("begins when a descriptor is given back", async () => {
    await using loader = await MediaLoader.create({ ...OPTIONS, pool: { quarantineMs: 60_000 } });
    (await loader.load(await mediaBytes("odd.jpg"))).dispose();
    expect(loader.stats.pool).toMatchObject({ rooms: 0, quarantinedRooms: 1, quarantineShortened: 0 });
  });

  test.each([
    ["was given back just now still has to wait", 60_000, 1],
    ["was given back long ago has waited in the cache", 10, 0],
  ])("of what is evicted and %s", async (_, quarantineMs, quarantinedRooms) => {
    // The cache holds the photo or the other picture, not both.
    await using loader = await MediaLoader.create({ ...OPTIONS, cache: { bytes: 507_904 }, pool: { quarantineMs } });
    (await loader.load(await mediaBytes("odd.jpg"))).dispose();
    await Bun.sleep(30);
    using _other = await loader.load(await mediaBytes("rgb.png"));
    expect(loader.stats.cache.evictions).toBe(1);
    expect(loader.stats.pool).toMatchObject({ rooms: 1, quarantinedRooms });
  });
});

describe("release keys", () => {
  const KEYS: MediaLoaderOptions = { ...OPTIONS, releaseKeys: true, agent: { drainIntervalMs: 10 } };

  test("give back once: what comes after the first time is ignored", async () => {
    await using loader = await MediaLoader.create({ ...KEYS, cache: { bytes: 2 ** 20 } });
    using first = await loader.load(await mediaBytes("rgb.png"));
    using second = await loader.load(await mediaBytes("rgb.png"));
    await readElsewhere([first.toWire(), first.toWire(), first.toWire()]);
    await eventually("the notifications are taken", () => loader.agent.notificationsTaken === 3);
    expect(loader.stats.holds).toEqual({ held: 1, leaked: 0, releasedByReaders: 1 });
    expect(second.localPayload).not.toBeNull();
    first.dispose();
    expect(second.localPayload).not.toBeNull();
  });

  test("are carried only when the loader hands them out", async () => {
    await using loader = await MediaLoader.create(OPTIONS);
    using without = await loader.load(await mediaBytes("rgb.png"));
    expect(without.releaseKey).toBeNull();
    expect(without.toWire()).not.toContain("release_key");
    await using giving = await MediaLoader.create(KEYS);
    using one = await giving.load(await mediaBytes("rgb.png"));
    using other = await giving.load(await mediaBytes("rgb.png"));
    expect(one.releaseKey).toMatch(/^[0-9a-f]{32}$/);
    expect(one.releaseKey).not.toBe(other.releaseKey);
    expect(JSON.parse(one.toWire()).release_key).toBe(one.releaseKey);
  });

  test("give memory back as soon as a reader elsewhere has read, and only that descriptor's", async () => {
    await using loader = await MediaLoader.create(KEYS);
    using read = await loader.load(await mediaBytes("odd.jpg"));
    using unread = await loader.load(await mediaBytes("rgb.png"));
    expect(await readElsewhere([read.toWire()])).toMatchObject([{ verified: true }]);
    await eventually("the room is given back", () => loader.stats.holds.releasedByReaders === 1);
    expect(read.localPayload).toBeNull();
    expect(unread.localPayload).not.toBeNull();
    expect(loader.stats.holds).toEqual({ held: 1, leaked: 0, releasedByReaders: 1 });
  });

  test("are not used by a reader that is told so, nor by one that leaves something else", async () => {
    await using loader = await MediaLoader.create(KEYS);
    using descriptor = await loader.load(await mediaBytes("rgb.png"));
    const taken = loader.agent.notificationsTaken;
    expect(await readElsewhere([descriptor.toWire(), descriptor.toWire()], { release: false })).toMatchObject([
      { verified: true },
      { verified: true },
    ]);
    await readElsewhere([descriptor.toWire()], { notification: "0123456789abcdef0123456789abcdef" });
    await eventually("the notifications are taken", () => loader.agent.notificationsTaken === taken + 3);
    expect(loader.stats.holds.releasedByReaders).toBe(0);
    expect(descriptor.localPayload).not.toBeNull();
  });

  test("give back a share only, while others have the same tensor", async () => {
    await using loader = await MediaLoader.create({ ...KEYS, cache: { bytes: 2 ** 20 } });
    using first = await loader.load(await mediaBytes("rgb.png"));
    using second = await loader.load(await mediaBytes("rgb.png"));
    expect(second.nixlDescriptor.addr).toBe(first.nixlDescriptor.addr);
    await readElsewhere([first.toWire()]);
    await eventually("the first is given back", () => loader.stats.holds.releasedByReaders === 1);
    expect(first.localPayload).toBeNull();
    expect(await readElsewhere([second.toWire()])).toMatchObject([{ verified: true }]);
  });
});

test("notifications are taken on a timer without release keys too", async () => {
  await using loader = await MediaLoader.create({ ...OPTIONS, agent: { drainIntervalMs: 10 } });
  using descriptor = await loader.load(await mediaBytes("rgb.png"));
  using reader = await MediaReader.open();
  for (let index = 0; index < 5; index++) (await reader.read(descriptor)).dispose();
  await eventually("five are taken", () => loader.agent.notificationsTaken === 5);
  expect(loader.agent).toBeInstanceOf(NixlAgent);
  expect(descriptor.localPayload).not.toBeNull();
});
