import { afterEach, describe, expect, test } from "bun:test";
import { PAGE_BYTES } from "../../ffi/memory.ts";
import { HOST_OWNER, type Room, SlabPool, type SlabPoolOptions } from "../../src/nixl/index.ts";
import { eventually } from "../support/processes.ts";

const SLAB = 16 * PAGE_BYTES;
const WHOLE = SLAB - PAGE_BYTES;
/** Longer than any test takes. */
const LONG_MS = 600_000;
const pools: SlabPool[] = [];

function openPool(slabs: number, options: SlabPoolOptions = {}): SlabPool {
  const pool = new SlabPool({ slabBytes: SLAB, budgetBytes: slabs * SLAB, quarantineMs: LONG_MS, ...options });
  for (const owner of [1, 2]) pool.addOwner(owner);
  pools.push(pool);
  return pool;
}

/** A room that readers know, filled so that it can be told from others. */
function published(pool: SlabPool, owner: number, bytes: number, fill = 7): Room {
  const room = pool.take(owner, bytes);
  room.payload.fill(fill);
  room.publish();
  return room;
}

const isAll = (bytes: Uint8Array, value: number) => bytes.every((byte) => byte === value);
const noRoom = expect.objectContaining({ code: "no_room" });

afterEach(() => {
  for (const pool of pools.splice(0)) pool.dispose();
});

describe("a room that was described and is given back", () => {
  test("keeps its bytes and is not used until its quarantine is over; then it is", async () => {
    const pool = openPool(1, { quarantineMs: 50 });
    const room = published(pool, 1, WHOLE);
    const { payload } = room;
    room.dispose();
    expect(pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
    expect(pool.quarantine).toEqual({ rooms: 1, bytes: SLAB, shortened: 0 });
    expect(() => pool.take(1, 1)).toThrow(noRoom);
    expect(isAll(payload, 7)).toBe(true);
    await eventually("the quarantine is over", () => pool.quarantine.rooms === 0);
    expect(pool.take(1, WHOLE).address).toBe(room.address);
    expect(pool.quarantine).toEqual({ rooms: 0, bytes: 0, shortened: 0 });
  });

  test("waits from the moment of its last descriptor on, which may be long ago", () => {
    const pool = openPool(1, { quarantineMs: 1000 });
    published(pool, 1, 100).dispose(performance.now() - 1001);
    expect(pool.quarantine.rooms).toBe(0);
    pool.take(1, WHOLE);
  });

  test("does not wait for longer when that moment is said to be in the future", async () => {
    const pool = openPool(1, { quarantineMs: 20 });
    published(pool, 1, 100).dispose(performance.now() + LONG_MS);
    await eventually("the quarantine is over", () => pool.quarantine.rooms === 0);
  });

  test("waits with what was cut off from it, too", () => {
    const pool = openPool(1);
    const room = published(pool, 1, WHOLE);
    room.shrink(100);
    expect(pool.quarantine.bytes).toBe(SLAB - 2 * PAGE_BYTES);
    expect(() => pool.take(1, 1)).toThrow(noRoom);
  });

  test("leaves by its own time, not in the order in which it came", async () => {
    const pool = openPool(2, { quarantineMs: 1000 });
    const [late, early] = [published(pool, 1, WHOLE), published(pool, 2, WHOLE)];
    late.dispose();
    early.dispose(performance.now() - 980);
    await eventually("one is free", () => pool.quarantine.rooms === 1);
    expect(pool.canTake(2, WHOLE)).toBe(true);
    expect(pool.canTake(1, WHOLE)).toBe(false);
  });

  test("is free at once where there is no quarantine", () => {
    const pool = openPool(1, { quarantineMs: 0 });
    published(pool, 1, WHOLE).dispose();
    pool.take(1, WHOLE);
  });

  test("cannot be described any more", () => {
    const room = openPool(1).take(1, 1);
    room.dispose();
    expect(() => room.publish()).toThrow(expect.objectContaining({ code: "closed" }));
  });
});

test("a room that nobody knew of is free at once", () => {
  const pool = openPool(1);
  pool.take(1, WHOLE).dispose();
  const room = pool.take(1, WHOLE);
  room.shrink(1);
  pool.take(1, WHOLE - 2 * PAGE_BYTES);
  expect(pool.quarantine).toEqual({ rooms: 0, bytes: 0, shortened: 0 });
});

test("slabs of an owner that is gone go to others when the last quarantine in them is over, and are clear then", async () => {
  const pool = openPool(1, { quarantineMs: 50 });
  const { payload } = published(pool, 1, 100);
  const held = published(pool, 1, 100);
  pool.removeOwner(1);
  held.dispose();
  expect(() => pool.take(2, 100)).toThrow(noRoom);
  await eventually("its quarantine is over", () => pool.quarantine.rooms === 0);
  expect(() => pool.take(2, 100)).toThrow(noRoom); // the first one is still held
  expect(isAll(payload, 7)).toBe(true);
});

test("a slab of an owner that is gone is neither cleared nor given away while a room in it rests", async () => {
  const pool = openPool(1, { quarantineMs: 600_000 });
  const room = published(pool, 1, WHOLE);
  const { payload } = room;
  room.dispose();
  pool.removeOwner(1);
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
  expect([pool.quarantine.rooms, isAll(payload, 7), pool.canTake(2, WHOLE)]).toEqual([1, true, false]);
  expect(pool.shortenQuarantine(WHOLE, PAGE_BYTES, new Set([2]))).toBe(true);
  await eventually("another owner gets it", () => pool.canTake(2, WHOLE));
  expect(isAll(pool.take(2, WHOLE).payload, 0)).toBe(true);
});

describe("rooms are used again", () => {
  test.each([1, HOST_OWNER])("oldest first, in a slab of owner %p", (owner) => {
    const pool = openPool(1);
    using _ = pool.take(owner, 1); // keeps the slab with its owner
    const rooms = [0, 1, 2, 3, 4, 5, 6].map(() => pool.take(owner, PAGE_BYTES));
    const order = [4, 1, 6, 0];
    for (const index of order) rooms[index]?.dispose();
    const addresses = order.map(() => pool.take(owner, PAGE_BYTES).address);
    expect(addresses).toEqual(order.map((index) => rooms[index]?.address ?? 0));
  });

  test("only after what was never used, also where this process gave its slab up in between", () => {
    const pool = openPool(2);
    const addresses = Array.from({ length: 9 }, () => {
      using room = pool.take(HOST_OWNER, PAGE_BYTES);
      return room.address;
    });
    expect(new Set(addresses.slice(0, 8)).size).toBe(8);
    expect(addresses[8]).toBe(addresses[0] ?? 0);
  });
});

describe("under pressure", () => {
  test("quarantine ends oldest first, only where that makes the room, and is counted", () => {
    const pool = openPool(2);
    const [small, ...rest] = [published(pool, 1, 100), published(pool, 1, WHOLE - 2 * PAGE_BYTES)];
    const large = published(pool, 2, WHOLE);
    small.dispose();
    large.dispose();
    for (const room of rest) room.dispose();
    expect(pool.shortenQuarantine(WHOLE, PAGE_BYTES, new Set([1, 2]))).toBe(true);
    // The oldest one is too small and stays; the next one is enough.
    expect(pool.quarantine).toMatchObject({ rooms: 2, shortened: 1 });
    expect([pool.canTake(1, WHOLE), pool.canTake(2, WHOLE)]).toEqual([false, true]);
    expect(pool.take(2, WHOLE).address).toBe(large.address);
  });

  test("no quarantine ends when that would not help, or is not needed", () => {
    const pool = openPool(2);
    using _held = [pool.take(1, 1), pool.take(2, 1)].reduce((stack, room) => {
      stack.use(room);
      return stack;
    }, new DisposableStack());
    published(pool, 1, PAGE_BYTES).dispose();
    expect(pool.shortenQuarantine(WHOLE, PAGE_BYTES, new Set([1, 2]))).toBe(false);
    expect(pool.shortenQuarantine(PAGE_BYTES, PAGE_BYTES, new Set([1, 2]))).toBe(true);
    expect(pool.quarantine).toMatchObject({ rooms: 1, shortened: 0 });
  });

  test("what rests in an idle owner's slabs counts as if the owner were ended", () => {
    const pool = openPool(2);
    for (const owner of [1, 2]) published(pool, owner, 100).dispose();
    expect(pool.wouldFitLater(new Set([1]), SLAB)).toBe(false);
    expect(pool.wouldFitLater(new Set([1, 2]), SLAB)).toBe(true);
    expect(pool.shortenQuarantine(SLAB, PAGE_BYTES, new Set([1, 2]))).toBe(true);
    expect(pool.quarantine).toMatchObject({ rooms: 0, shortened: 2 });
    expect(pool.wouldFitWithout(new Set([1, 2]), SLAB)).toBe(true);
  });

  test("this process itself, which cannot wait, gets a room at the cost of a cache first and of quarantine then", () => {
    const pool = openPool(2);
    const kept = [published(pool, 1, WHOLE), published(pool, 1, WHOLE)];
    pool.removeOwner(1);
    pool.spareRooms = () => kept.map((room) => ({ room, giveUp: () => room.dispose() }));
    const room = pool.take(HOST_OWNER, WHOLE);
    expect(kept.map((other) => other.disposed)).toEqual([true, false]);
    expect(pool.quarantine.shortened).toBe(1);
    expect(isAll(room.payload, 0)).toBe(true); // it was another owner's
  });

  test("nothing that is kept is given up when that would not help, and the refusal is as ever", () => {
    const pool = openPool(2);
    using _ = pool.take(1, 1);
    const kept = [pool.take(1, PAGE_BYTES), pool.take(1, PAGE_BYTES)];
    let refused = 0;
    pool.spareRooms = () => kept.map((room) => ({ room, giveUp: () => room.dispose() }));
    pool.onHostRefused = () => refused++;
    expect(() => pool.take(HOST_OWNER, 2 * SLAB - PAGE_BYTES)).toThrow(noRoom);
    expect(refused).toBe(1);
    expect(kept.map((room) => room.disposed)).toEqual([false, false]);
  });

  test("of what is kept, as few of the first are given up as will do, and of those what is in the way", () => {
    const pool = openPool(2);
    const quarter = WHOLE / 4 - PAGE_BYTES;
    const kept = [1, 2, 1, 2, 1, 2, 1, 2].map((owner) => pool.take(owner, quarter));
    pool.spareRooms = () => kept.map((room) => ({ room, giveUp: () => room.dispose() }));
    expect(pool.giveUpSpareRooms(2 * quarter, PAGE_BYTES, new Set([2]))).toBe(true);
    // The first two of owner 2, and with them one of owner 1 that is older but of no use.
    expect(kept.map((room) => room.disposed)).toEqual([false, true, false, true, false, false, false, false]);
    expect(pool.canTake(2, 2 * quarter)).toBe(true);
    expect(pool.giveUpSpareRooms(2 * quarter, PAGE_BYTES, new Set([2]))).toBe(true);
    expect(kept.filter((room) => room.disposed).length).toBe(2);
  });
});

describe("a pool that scrubs", () => {
  test("clears a room when its quarantine is over, while the event loop goes on, and only then gives it out", async () => {
    const pool = openPool(1, { quarantineMs: 30, scrub: true, slabBytes: 8 * 2 ** 20, budgetBytes: 8 * 2 ** 20 });
    const room = published(pool, 1, 8 * 2 ** 20 - PAGE_BYTES);
    const { payload } = room;
    room.dispose();
    expect(isAll(payload, 7)).toBe(true);
    let turnsWhileClearing = 0;
    while (pool.quarantine.rooms > 0 || payload.at(-1) !== 0) {
      if (pool.quarantine.rooms === 0) turnsWhileClearing += 1;
      await new Promise(setImmediate);
    }
    expect(turnsWhileClearing).toBeGreaterThan(10);
    expect(isAll(payload, 0)).toBe(true);
    expect(isAll(pool.take(1, 8 * 2 ** 20 - PAGE_BYTES).payload, 0)).toBe(true);
  });

  test.each([1, HOST_OWNER])("clears rooms that nobody knew of, and what was cut off, for owner %p", (owner) => {
    const pool = openPool(1, { scrub: true });
    const room = pool.take(owner, WHOLE);
    room.payload.fill(5);
    room.shrink(PAGE_BYTES);
    const tail = pool.take(owner, WHOLE - 2 * PAGE_BYTES); // on the spot: it was not its turn yet
    expect(isAll(tail.payload, 0)).toBe(true);
    room.dispose();
    tail.dispose();
    expect(isAll(pool.take(owner, WHOLE).payload, 0)).toBe(true);
  });

  test("clears a room that spans slabs to its last byte, and what was shortened", () => {
    const pool = openPool(3, { scrub: true });
    const room = published(pool, 1, 3 * SLAB - PAGE_BYTES);
    room.dispose();
    expect(pool.shortenQuarantine(3 * SLAB - PAGE_BYTES, PAGE_BYTES, new Set([1]))).toBe(true);
    const next = pool.take(1, 3 * SLAB - PAGE_BYTES);
    expect(next.address).toBe(room.address);
    expect(isAll(next.payload, 0)).toBe(true);
  });
});

test("one that does not scrub leaves bytes to the same owner", () => {
  const pool = openPool(1);
  const room = pool.take(1, WHOLE);
  room.payload.fill(5);
  room.dispose();
  expect(isAll(pool.take(1, WHOLE).payload, 5)).toBe(true);
});

test.each([false, true])(
  "what can be taken is told as it is, whatever was taken and given back (scrub: %p)",
  (scrub) => {
    const pool = openPool(8, { scrub });
    const owners = [HOST_OWNER, 1, 2];
    let state = 11;
    const random = (limit: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 2 ** 32) * limit);
    };
    const held: Room[] = [];
    const outcomes = new Set<boolean>();
    for (let step = 0; step < 4000; step++) {
      if (random(2) === 0) {
        held.splice(random(held.length), 1)[0]?.dispose();
        continue;
      }
      const [owner, bytes] = [owners[random(3)] ?? 0, 1 + random(random(4) === 0 ? 3 * SLAB : SLAB / 2)];
      const isPossible = pool.canTake(owner, bytes);
      outcomes.add(isPossible);
      if (isPossible) held.push(pool.take(owner, bytes));
      else expect(() => pool.take(owner, bytes)).toThrow(noRoom);
    }
    expect(outcomes.size).toBe(2);
    for (const room of held) room.dispose();
    expect(pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
  },
);

test("a thousand rooms come and go, described or not, and all of the memory is there again in the end", async () => {
  const pool = openPool(160, { quarantineMs: 20 });
  for (let round = 0; round < 5; round++) {
    const rooms = Array.from({ length: 1000 }, (_, index) => pool.take(index % 3, PAGE_BYTES));
    for (const [index, room] of rooms.entries()) {
      if (index % 4 > 0) room.publish();
      room.dispose();
    }
    await eventually("all quarantine is over", () => pool.quarantine.rooms === 0);
  }
  for (const owner of [1, 2]) pool.removeOwner(owner);
  pool.take(HOST_OWNER, 160 * SLAB - PAGE_BYTES);
});

test("memory that rests keeps no process from ending", async () => {
  const script = `
    const { SlabPool } = await import(${JSON.stringify(`${import.meta.dir}/../../src/nixl/index.ts`)});
    const pool = new SlabPool({ slabBytes: 65536, budgetBytes: 65536, quarantineMs: 600000, scrub: true });
    const room = pool.take(0, 100);
    room.publish();
    room.dispose();
    console.log(pool.quarantine.rooms);`;
  const run = Bun.spawn([process.execPath, "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  expect(await run.stdout.text()).toBe("1\n");
  expect(await run.exited).toBe(0);
});
