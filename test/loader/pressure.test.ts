import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import {
  type MediaDescriptor,
  MediaError,
  MediaLoader,
  type MediaLoaderOptions,
  MediaReader,
} from "../../src/index.ts";
import { noisePng } from "../support/media.ts";
import { descendantsOf, eventually, openDescriptors } from "../support/processes.ts";

const MEBIBYTE = 2 ** 20;
const READ_LINES = join(import.meta.dir, "../support/read_lines.ts");
/** Eight slabs; a picture of 6 MB takes most of one. */
const SMALL: MediaLoaderOptions = {
  pool: { slabBytes: 8 * MEBIBYTE, budgetBytes: 64 * MEBIBYTE },
  decoders: { children: 2, queueBytes: 2 ** 31 },
};
const PICTURES = await Promise.all(
  Array.from({ length: 12 }, async (_, index) => ({ encoded: await noisePng(1500, 1330 + index), index })),
);

function pictureOf(index: number): Uint8Array {
  return PICTURES[index % PICTURES.length]?.encoded ?? new Uint8Array();
}

async function settled(loader: MediaLoader): Promise<void> {
  await eventually("all quarantine is over", () => loader.stats.pool.quarantinedRooms === 0, 10_000);
  expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
  expect(loader.stats).toMatchObject({
    holds: { held: 0, leaked: 0 },
    waiting: { forDecoder: 0, forRoom: 0 },
    pool: { rooms: 0, quarantinedBytes: 0 },
  });
}

describe.each([
  ["as it is by default", {}],
  ["without quarantine", { quarantineMs: 0 }],
  ["scrubbed", { scrub: true }],
])("a pool of 64 MiB and 200 loads of 6 MB, %s", (_, pool) => {
  test("all succeed in turn or fail with 503, and pixels never change while they are held", async () => {
    await using loader = await MediaLoader.create({ ...SMALL, pool: { ...SMALL.pool, ...pool } });
    using reader = await MediaReader.open();
    const names = new Map<number, string>();
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, async (_, index) => {
        try {
          using descriptor = await loader.load(pictureOf(index));
          const name = descriptor.contentHash ?? "";
          expect(names.get(index % PICTURES.length) ?? name).toBe(name);
          names.set(index % PICTURES.length, name);
          const [first] = await Promise.all([reader.read(descriptor), Bun.sleep(50)]);
          using before = first;
          using after = await reader.read(descriptor);
          return before.verified && after.verified ? "verified" : "changed";
        } catch (error) {
          if (!(error instanceof MediaError)) throw error;
          expect(error).toMatchObject({ status: 503, retryable: true, retryAfter: 1 });
          return error.code;
        }
      }),
    );
    expect(outcomes.filter((outcome) => !["verified", "no_room", "overloaded"].includes(outcome))).toEqual([]);
    expect(outcomes.filter((outcome) => outcome === "verified").length).toBeGreaterThan(100);
    expect(names.size).toBe(PICTURES.length);
    await settled(loader);
  }, 120_000);
});

test("when nobody gives anything back, those who wait are told after their time, and the next ones get room again", async () => {
  await using loader = await MediaLoader.create({
    ...SMALL,
    decoders: { ...SMALL.decoders, roomTimeoutMs: 300, roomQueueLimit: 4 },
  });
  const held: MediaDescriptor[] = [];
  const outcomes = await Promise.all(
    Array.from({ length: 24 }, async (_, index) => {
      try {
        held.push(await loader.load(pictureOf(index)));
        return "held";
      } catch (error) {
        if (!(error instanceof MediaError)) throw error;
        return `${error.code} ${error.status} ${error.retryAfter}`;
      }
    }),
  );
  expect(outcomes.filter((outcome) => outcome === "held").length).toBe(8);
  expect(outcomes.filter((outcome) => outcome === "no_room 503 1").length).toBe(16);
  expect(loader.stats.waiting).toEqual({ forDecoder: 0, forRoom: 0 });
  for (const descriptor of held) descriptor.dispose();
  (await loader.load(pictureOf(0))).dispose();
  await settled(loader);
}, 60_000);

test("a cache gives way to those who wait, and nobody fails", async () => {
  await using loader = await MediaLoader.create({ ...SMALL, cache: { bytes: 64 * MEBIBYTE } });
  using reader = await MediaReader.open();
  for (let round = 0; round < 3; round++) {
    await Promise.all(
      PICTURES.map(async ({ encoded }) => {
        using descriptor = await loader.load(encoded);
        using read = await reader.read(descriptor);
        expect(read.verified).toBe(true);
      }),
    );
  }
  const { cache, pool } = loader.stats;
  expect(cache.evictions).toBeGreaterThan(0);
  expect(pool.rooms).toBe(cache.entries);
  expect(pool.bytes).toBe(cache.bytes);
}, 60_000);

describe("a reader that begins right before the descriptor is given back", () => {
  /** Disposes of each descriptor as soon as a reader in another process has its line, while other loads want its memory. */
  async function race(options: MediaLoaderOptions, count: number) {
    await using loader = await MediaLoader.create(options);
    const child = Bun.spawn([process.execPath, READ_LINES], { stdin: "pipe", stdout: "pipe" });
    const answers = child.stdout.text();
    for (let index = 0; index < count; index++) {
      const descriptor = await loader.load(pictureOf(index));
      child.stdin.write(`${descriptor.toWire()}\n`);
      await child.stdin.flush();
      descriptor.dispose();
    }
    await child.stdin.end();
    const lines = (await answers).split("\n").filter((line) => line.startsWith("{"));
    const wrong = lines.map((line) => JSON.parse(line)).filter(({ verified }) => verified !== true);
    return { read: lines.length, wrong: wrong.length, shortened: loader.stats.pool.quarantineShortened };
  }

  test("gets what was there as long as quarantine was not cut short", async () => {
    const patient = { ...SMALL.decoders, quarantinePatienceMs: 5000, roomTimeoutMs: 20_000 };
    const outcome = await race({ ...SMALL, decoders: patient }, 24);
    expect(outcome).toEqual({ read: 24, wrong: 0, shortened: 0 });
  }, 120_000);

  test("may get something else only when the counter says that it was", async () => {
    const impatient = { ...SMALL.decoders, quarantinePatienceMs: 0 };
    const { read, wrong, shortened } = await race({ ...SMALL, decoders: impatient }, 60);
    expect(read).toBe(60);
    expect(shortened).toBeGreaterThan(0);
    expect(wrong).toBeLessThanOrEqual(shortened);
  }, 120_000);
});

test("readers that are killed in the middle of a read cost the loader nothing", async () => {
  await using loader = await MediaLoader.create({ ...SMALL, pool: { ...SMALL.pool, quarantineMs: 20 } });
  const descriptors = openDescriptors();
  const children = descendantsOf(process.pid).length;
  for (let round = 0; round < 10; round++) {
    using descriptor = await loader.load(pictureOf(round));
    const reader = Bun.spawn([process.execPath, READ_LINES], { stdin: "pipe", stdout: "pipe" });
    reader.stdin.write(`${descriptor.toWire()}\n`.repeat(200));
    await reader.stdin.flush();
    for await (const _ of reader.stdout) break; // the first ones are read
    reader.kill("SIGKILL");
    await reader.exited;
  }
  await settled(loader);
  using reader = await MediaReader.open();
  using descriptor = await loader.load(pictureOf(0));
  using read = await reader.read(descriptor);
  expect(read.verified).toBe(true);
  await eventually("no process is left", () => descendantsOf(process.pid).length === children);
  // UCX keeps a connection for each reader that was there.
  expect(openDescriptors()).toBeLessThan(descriptors + 100);
}, 120_000);
