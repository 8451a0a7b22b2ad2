import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { imageOptionsSchema } from "../../src/decode/image/options.ts";
import { type Decoded, DecoderPool } from "../../src/decode/index.ts";
import type { DecoderPoolOptions } from "../../src/decode/options.ts";
import { type Room, SlabPool, type SlabPoolOptions } from "../../src/nixl/index.ts";
import { PROJECT } from "../support/cli.ts";
import { mediaPath, noisePng } from "../support/media.ts";
import { eventually } from "../support/processes.ts";

const MEBIBYTE = 1024 * 1024;
const LONG_MS = 600_000;
const NONE = { ffmpegPath: null, turboJpegPath: null, webpPath: null };
/** Of a slab of 1 MiB, with the page in front: all; all but 140 KB; nearly half; little. */
const WHOLE = await noisePng(600, 580);
const LARGE = await noisePng(600, 500);
const HALF = await noisePng(400, 400);
const SMALL = await noisePng(60, 50);

interface Open {
  readonly slabs: SlabPool;
  readonly pool: DecoderPool<Room>;
  decode(encoded: Uint8Array, signal?: AbortSignal): Promise<Decoded<Room>>;
}
const opened: Open[] = [];

/** Decoders, one unless said otherwise, with two slabs of 1 MiB. */
async function open(decoders: DecoderPoolOptions = {}, memory: SlabPoolOptions = {}): Promise<Open> {
  const slabs = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: 2 * MEBIBYTE, quarantineMs: LONG_MS, ...memory });
  const pool = await DecoderPool.open<Room>(slabs, NONE, { children: 1, ...decoders });
  const request = { kind: "image", settings: imageOptionsSchema.parse({}), hashVideo: false } as const;
  const open = { slabs, pool, decode: (png: Uint8Array, signal?: AbortSignal) => pool.decode(request, png, signal) };
  opened.push(open);
  return open;
}

/** Takes all of the memory; what it is given back as is free at once. */
async function fill({ decode }: Open, encoded = WHOLE): Promise<Room[]> {
  return [(await decode(encoded)).room, (await decode(encoded)).room];
}

/** Has a medium wait for room; it is in line when this resolves. */
async function waiting(
  open: Open,
  encoded: Uint8Array,
  signal?: AbortSignal,
): Promise<{ job: Promise<Decoded<Room>> }> {
  const before = open.pool.roomQueueLength;
  const job = open.decode(encoded, signal);
  job.catch(() => {});
  await eventually("it waits for room", () => open.pool.roomQueueLength === before + 1);
  return { job };
}

function expectNothingLeft({ pool, slabs }: Open): void {
  expect([pool.roomQueueLength, pool.queueLength]).toEqual([0, 0]);
  expect(slabs.occupancy).toEqual({ rooms: 0, bytes: 0 });
}

afterEach(async () => {
  for (const { pool, slabs } of opened.splice(0)) {
    await pool.dispose();
    slabs.dispose();
  }
});

describe("media that are refused room wait in line", () => {
  test("and get it in the order in which they came, one for each that is given back", async () => {
    const line = await open();
    const held = await fill(line);
    const order: number[] = [];
    const jobs: Promise<void>[] = [];
    for (let index = 0; index < 4; index++) {
      const { job } = await waiting(line, LARGE);
      jobs.push(
        job.then(({ room }) => {
          order.push(index);
          held.push(room);
        }),
      );
    }
    for (let index = 0; index < 4; index++) {
      held.shift()?.dispose();
      await jobs[index];
      expect(order.length).toBe(index + 1);
    }
    expect(order).toEqual([0, 1, 2, 3]);
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });

  test("and smaller media that come later do not take what is on its way to them, though there is room now", async () => {
    const line = await open({ quarantinePatienceMs: LONG_MS });
    const held = await fill(line, LARGE);
    held[0]?.publish();
    held.shift()?.dispose(); // for the large one, when its quarantine is over
    const order: string[] = [];
    const jobs = [await waiting(line, LARGE), await waiting(line, SMALL)].map(async ({ job }, index) => {
      held.push((await job).room);
      order.push(index === 0 ? "large" : "small");
    });
    expect(order).toEqual([]);
    held.shift()?.dispose();
    await Promise.all(jobs);
    expect(order).toEqual(["large", "small"]);
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });

  test("and do not keep smaller ones waiting for what nobody can tell when it comes", async () => {
    const line = await open({ quarantinePatienceMs: 20 });
    const held = await fill(line, LARGE);
    const large = await waiting(line, LARGE);
    const larger = await waiting(line, WHOLE);
    for (let index = 0; index < 3; index++) held.push((await line.decode(SMALL)).room);
    expect(line.pool.roomQueueLength).toBe(2);
    for (const room of held.splice(0)) room.dispose();
    for (const { job } of [large, larger]) held.push((await job).room);
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });

  test("and those behind them that need less go first when there is room for those alone", async () => {
    const line = await open();
    const held = [...(await fill(line, HALF)), ...(await fill(line, HALF))];
    const large = await waiting(line, LARGE);
    const half = await waiting(line, HALF);
    held.shift()?.dispose();
    held.push((await half.job).room);
    expect(line.pool.roomQueueLength).toBe(1);
    for (const room of held) room.dispose();
    (await large.job).room.dispose();
    expectNothingLeft(line);
  });

  test("each decoded once it has its room, by whichever child can have it", async () => {
    const line = await open({ children: 2 }, { budgetBytes: 4 * MEBIBYTE });
    const held = await Promise.all([1, 2, 3, 4].map(async () => (await line.decode(WHOLE)).room));
    const jobs = Array.from({ length: 20 }, () => line.decode(WHOLE));
    await eventually("all of them wait", () => line.pool.roomQueueLength === 20);
    for (const room of held) room.dispose();
    for (const job of jobs) {
      const { room, tensor } = await job;
      expect(tensor.shape).toEqual([580, 600, 3]);
      room.dispose();
    }
    expectNothingLeft(line);
  });

  test("until their time is over, and are refused then", async () => {
    const line = await open({ roomTimeoutMs: 100 });
    const held = await fill(line);
    const { job } = await waiting(line, LARGE);
    await expect(job).rejects.toMatchObject({ code: "no_room", status: 503, retryable: true, retryAfter: 1 });
    for (const room of held) room.dispose();
    expectNothingLeft(line);
    (await line.decode(LARGE)).room.dispose();
  });

  test.each([{ roomTimeoutMs: 0 }, { roomQueueLimit: 0 }])("not at all where %p says so", async (options) => {
    const line = await open(options);
    const held = await fill(line);
    await expect(line.decode(LARGE)).rejects.toMatchObject({ code: "no_room" });
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });

  test("as many as may, and one more is refused while they are not lost", async () => {
    const line = await open({ roomQueueLimit: 2 });
    const held = await fill(line);
    const jobs = [await waiting(line, LARGE), await waiting(line, HALF)];
    await expect(line.decode(SMALL)).rejects.toMatchObject({ code: "no_room", retryAfter: 1 });
    for (const room of held) room.dispose();
    for (const { job } of jobs) (await job).room.dispose();
    expectNothingLeft(line);
  });

  test("but not those that can never fit", async () => {
    const line = await open();
    await expect(line.decode(await noisePng(1100, 900))).rejects.toMatchObject({ code: "medium_exceeds_pool" });
    expectNothingLeft(line);
  });
});

describe("a medium that waits for room", () => {
  test("leaves the line at once when it is given up, and those behind it go on", async () => {
    const line = await open({ quarantinePatienceMs: LONG_MS });
    const held = await fill(line, LARGE);
    held[0]?.publish();
    held.shift()?.dispose(); // for the large one, when its quarantine is over
    const controller = new AbortController();
    const large = await waiting(line, LARGE, controller.signal);
    const small = await waiting(line, SMALL);
    controller.abort();
    expect(line.pool.roomQueueLength).toBe(1);
    await expect(large.job).rejects.toMatchObject({ code: "aborted" });
    held.push((await small.job).room); // there was room for it all the time
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });

  test("fails when the decoders are disposed of", async () => {
    const line = await open();
    const held = await fill(line);
    const { job } = await waiting(line, LARGE);
    await line.pool.dispose();
    await expect(job).rejects.toMatchObject({ code: "closed" });
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });

  test("is not lost with a child that dies while it waits", async () => {
    const line = await open();
    const held = await fill(line);
    const { job } = await waiting(line, LARGE);
    process.kill(line.pool.childPids[0] ?? 0, "SIGKILL");
    held.shift()?.dispose();
    held.push((await job).room); // in the slab of one that is gone
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });

  test("goes back to its place with its room given back when its child is stopped and killed before it begins", async () => {
    const line = await open();
    const held = await fill(line);
    const { job } = await waiting(line, LARGE);
    const [child = 0] = line.pool.childPids;
    process.kill(child, "SIGSTOP");
    held.shift()?.dispose();
    await eventually("it has its room", () => line.pool.roomQueueLength === 0 && line.slabs.occupancy.rooms === 2);
    process.kill(child, "SIGKILL");
    held.push((await job).room);
    for (const room of held) room.dispose();
    expectNothingLeft(line);
  });
});

describe("memory that rests", () => {
  test("is waited for, and not cut short, when its time is over soon enough", async () => {
    const line = await open({}, { quarantineMs: 200 });
    const held = await fill(line);
    for (const room of held) {
      room.publish();
      room.dispose();
    }
    const { room } = await line.decode(LARGE);
    expect(line.slabs.quarantine.shortened).toBe(0);
    room.dispose();
  });

  test.each([
    ["after a while", { quarantinePatienceMs: 50 }],
    ["in the last moment at the latest", { roomTimeoutMs: 100, quarantinePatienceMs: LONG_MS }],
    ["at once where nobody may wait", { roomTimeoutMs: 0 }],
  ])("is cut short %s, one room for one medium, the oldest", async (_, options) => {
    const line = await open(options);
    const held = await fill(line);
    const second = held.pop();
    for (const room of [second, ...held]) {
      room?.publish();
      room?.dispose();
    }
    const { room } = await line.decode(LARGE);
    expect(line.slabs.quarantine).toMatchObject({ rooms: 1, shortened: 1 });
    expect(room.address).toBe(second?.address ?? 0);
    room.dispose();
  });

  test("in an idle child's slabs is cut short together with the child", async () => {
    const line = await open({ children: 2, quarantinePatienceMs: 20 });
    const [first, second] = await Promise.all([line.decode(HALF), line.decode(HALF)]);
    const pids = new Set(line.pool.childPids);
    for (const { room } of [first, second]) {
      room.publish();
      room.dispose();
    }
    const { room, tensor } = await line.decode(await noisePng(900, 700));
    expect(tensor.shape).toEqual([700, 900, 3]);
    expect(line.slabs.quarantine).toMatchObject({ rooms: 0, shortened: 2 });
    expect(line.pool.childPids.some((pid) => !pids.has(pid))).toBe(true);
    room.dispose();
  });
});

describe("what a cache keeps", () => {
  /** A cache of all memory, in rooms of which a slab holds two, and how often it is asked for one. */
  async function openWithCache(describedUntil: number | undefined, options: DecoderPoolOptions = {}) {
    const line = await open(options);
    const kept: Room[] = [];
    for (let index = 0; index < 4; index++) kept.push((await line.decode(HALF)).room);
    for (const room of kept) room.publish();
    line.slabs.spareRooms = () =>
      kept.map((room) => ({ room, giveUp: () => kept.splice(kept.indexOf(room), 1)[0]?.dispose(describedUntil) }));
    return { line, kept };
  }

  test("is given back until there is room and no longer", async () => {
    const { line, kept } = await openWithCache(-LONG_MS - 1000);
    const { room } = await line.decode(LARGE);
    expect(kept.length).toBe(2);
    expect(line.slabs.quarantine).toEqual({ rooms: 0, bytes: 0, shortened: 0 });
    room.dispose();
    for (const other of kept) other.dispose();
  });

  test("is not given back for what will be there when quarantine is over", async () => {
    const { line, kept } = await openWithCache(undefined, { quarantinePatienceMs: 50 });
    const { room } = await line.decode(LARGE);
    expect([kept.length, line.slabs.quarantine.shortened]).toEqual([2, 2]);
    room.dispose();
    for (const other of kept) other.dispose();
  });

  test("stays when giving it back would not make the room", async () => {
    const { line, kept } = await openWithCache(-LONG_MS - 1000, { roomTimeoutMs: 50 });
    const held = [kept[0], kept[2]];
    kept.splice(0, 4, ...kept.filter((room) => !held.includes(room)));
    await expect(line.decode(LARGE)).rejects.toMatchObject({ code: "no_room" });
    expect(kept.length).toBe(2);
    for (const room of [...held, ...kept]) room?.dispose();
    expectNothingLeft(line);
  });
});

test("far more pictures than there is room for, each held a while, are all decoded in turn, and none changes meanwhile", async () => {
  const line = await open(
    { children: 2, queueBytes: 2048 * MEBIBYTE },
    { slabBytes: 8 * MEBIBYTE, budgetBytes: 64 * MEBIBYTE, quarantineMs: 2000 },
  );
  const pictures = await Promise.all([1400, 1410, 1420].map((width) => noisePng(width, 1400)));
  const outcomes = new Map<string, number>();
  const hashes = new Map<string, bigint | number>();
  let mostWaiting = 0;
  const load = async (index: number): Promise<void> => {
    const { room, tensor } = await line.decode(pictures[index % 3] ?? SMALL);
    room.publish();
    const name = tensor.contentHash ?? "";
    const before = Bun.hash.xxHash3(room.payload);
    await Bun.sleep(50);
    expect(Bun.hash.xxHash3(room.payload)).toBe(before);
    expect(hashes.get(name) ?? before).toBe(before);
    hashes.set(name, before);
    mostWaiting = Math.max(mostWaiting, line.pool.roomQueueLength);
    room.dispose();
  };
  await Promise.all(
    Array.from({ length: 200 }, async (_, index) => {
      const outcome = await load(index).then(
        () => "decoded",
        (error) => error.code ?? error,
      );
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }),
  );
  expect([...outcomes.keys()].filter((outcome) => outcome !== "decoded" && outcome !== "no_room")).toEqual([]);
  expect(outcomes.get("decoded")).toBeGreaterThan(20);
  expect(hashes.size).toBe(3);
  expect(mostWaiting).toBeGreaterThan(50);
  expectNothingLeft(line);
}, 60_000);

test("a process does not end while a medium waits for room, and its timers do not keep it afterwards", async () => {
  const script = `
    const { DecoderPool } = await import(${JSON.stringify(join(PROJECT, "src/decode/index.ts"))});
    const { imageOptionsSchema } = await import(${JSON.stringify(join(PROJECT, "src/decode/image/options.ts"))});
    const { SlabPool } = await import(${JSON.stringify(join(PROJECT, "src/nixl/index.ts"))});
    const slabs = new SlabPool({ slabBytes: 65536, budgetBytes: 65536 });
    const native = { ffmpegPath: null, turboJpegPath: null, webpPath: null };
    const pool = await DecoderPool.open(slabs, native, { children: 1, roomTimeoutMs: 700, quarantinePatienceMs: 600000 });
    const picture = await Bun.file(${JSON.stringify(mediaPath("rgb.png"))}).bytes();
    const held = [];
    const request = { kind: "image", settings: imageOptionsSchema.parse({}), hashVideo: false };
    for (;;) {
      try { held.push((await pool.decode(request, picture)).room); }
      catch (error) { console.log(error.code, held.length > 0, pool.roomQueueLength); break; }
    }`;
  const run = Bun.spawn([process.execPath, "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  expect(await run.stdout.text()).toBe("no_room true 0\n");
  expect(await run.exited).toBe(0);
});
