import { afterEach, describe, expect, test } from "bun:test";
import { PAGE_BYTES } from "../../ffi/memory.ts";
import { HOST_OWNER, type SlabGrant, SlabPool } from "../../src/nixl/index.ts";

const SLAB = 16 * PAGE_BYTES;
const pools: SlabPool[] = [];

function openPool(slabs: number): SlabPool {
  const pool = new SlabPool({ slabBytes: SLAB, budgetBytes: slabs * SLAB });
  pools.push(pool);
  return pool;
}

afterEach(() => {
  for (const pool of pools.splice(0)) pool.dispose();
});

describe("a room", () => {
  test("starts its payload on a page, with the header in front of it", () => {
    const pool = openPool(1);
    using room = pool.take(HOST_OWNER, 100);
    expect(room.address % PAGE_BYTES).toBe(0);
    expect(room.headerBytes).toBe(PAGE_BYTES);
    expect(room.payloadBytes).toBe(100);
    expect(pool.occupancy).toEqual({ rooms: 1, bytes: 2 * PAGE_BYTES });
  });

  test("is real memory that keeps what is written, apart from its neighbour's", () => {
    const pool = openPool(1);
    using first = pool.take(HOST_OWNER, 5000);
    using second = pool.take(HOST_OWNER, 5000);
    first.payload.fill(1);
    second.payload.fill(2);
    expect(first.payload.every((byte) => byte === 1)).toBe(true);
    expect(second.payload.every((byte) => byte === 2)).toBe(true);
  });

  test("given back twice is given back once", () => {
    const pool = openPool(1);
    const room = pool.take(HOST_OWNER, 1);
    room.dispose();
    room.dispose();
    expect(pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
    pool.take(HOST_OWNER, SLAB - PAGE_BYTES);
    expect(() => pool.take(HOST_OWNER, 1)).toThrow(expect.objectContaining({ code: "no_room" }));
  });

  test("that shrinks gives its tail to the next one", () => {
    const pool = openPool(1);
    const room = pool.take(HOST_OWNER, SLAB - PAGE_BYTES);
    room.shrink(PAGE_BYTES + 1);
    expect(room.payloadBytes).toBe(PAGE_BYTES + 1);
    using next = pool.take(HOST_OWNER, SLAB - 4 * PAGE_BYTES);
    expect(next.address).toBe(room.address + 2 * PAGE_BYTES + PAGE_BYTES);
    room.dispose();
    next.dispose();
    expect(pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
    pool.take(HOST_OWNER, SLAB - PAGE_BYTES).dispose();
  });

  test("with a long hash header has as many pages in front", () => {
    using room = openPool(1).take(HOST_OWNER, 1, 2 * PAGE_BYTES + 1);
    expect(room.headerBytes).toBe(3 * PAGE_BYTES);
  });

  test.each([0, -1, 1.5, Number.NaN])("of %p bytes is refused", (bytes) => {
    expect(() => openPool(1).take(HOST_OWNER, bytes)).toThrow(expect.objectContaining({ code: "invalid_argument" }));
  });
});

describe("owners", () => {
  test("never share a slab, and are told of each slab before they get room in it", () => {
    const pool = openPool(3);
    const grants: SlabGrant[] = [];
    pool.onGrant = (grant) => grants.push(grant);
    pool.addOwner(1);
    pool.addOwner(2);
    const rooms = [1, 2, 1, 2].map((owner) => ({ owner, room: pool.take(owner, 100) }));
    const slabsOf = (owner: number) =>
      new Set(rooms.filter((r) => r.owner === owner).map((r) => Math.floor(r.room.offset / SLAB)));
    expect(slabsOf(1).intersection(slabsOf(2)).size).toBe(0);
    expect(grants.map(({ owner, offset }) => [owner, offset])).toEqual([
      [1, 0],
      [2, SLAB],
    ]);
  });

  test("of this process's own slabs give them up as soon as they are empty, for no decoder has them mapped", () => {
    const pool = openPool(1);
    pool.addOwner(1);
    const room = pool.take(HOST_OWNER, 100);
    room.payload.fill(3);
    room.dispose();
    using next = pool.take(1, 100);
    expect(next.payload.every((byte) => byte === 0)).toBe(true);
  });

  test("get slabs that need no clearing before those that do", async () => {
    const pool = openPool(3);
    const grants: SlabGrant[] = [];
    pool.addOwner(1);
    pool.take(1, SLAB - PAGE_BYTES).payload.fill(9);
    pool.removeOwner(1); // its room still lives
    pool.addOwner(2);
    const room = pool.take(2, 100);
    room.payload.fill(9);
    room.dispose();
    pool.removeOwner(2); // its slab, the second one, is being cleared
    pool.onGrant = (grant) => grants.push(grant);
    pool.addOwner(3);
    const rooms = [pool.take(3, SLAB - PAGE_BYTES), pool.take(3, SLAB - PAGE_BYTES)];
    expect(grants.map(({ offset }) => offset / SLAB)).toEqual([2, 1]);
    for (const { payload } of rooms) expect(payload.every((byte) => byte === 0)).toBe(true);
  });

  test("that are prepared get a slab ahead, once, while half of all stay free", () => {
    const pool = new SlabPool({ slabBytes: SLAB, budgetBytes: 4 * SLAB, prefault: true });
    pools.push(pool);
    const grants: SlabGrant[] = [];
    pool.onGrant = (grant) => grants.push(grant);
    for (const owner of [1, 1, 2, 3]) {
      pool.addOwner(owner);
      pool.prepareOwner(owner);
    }
    pool.prepareOwner(2);
    expect(grants.map(({ owner, offset, prefault }) => [owner, offset / SLAB, prefault])).toEqual([
      [1, 0, true],
      [2, 1, true],
    ]);
  });

  test("get neighbouring slabs for a medium that is larger than one, as one piece", () => {
    const pool = openPool(4);
    const grants: SlabGrant[] = [];
    pool.onGrant = (grant) => grants.push(grant);
    pool.addOwner(1);
    using room = pool.take(1, 2 * SLAB);
    expect(grants.map((grant) => grant.offset)).toEqual([0, SLAB, 2 * SLAB]);
    room.payload.fill(7);
    expect(room.payload.every((byte) => byte === 7)).toBe(true);
  });

  test("keep what they had for a large medium and use it for the next", () => {
    const pool = openPool(3);
    pool.addOwner(1);
    pool.take(1, 2 * SLAB).dispose();
    let grants = 0;
    pool.onGrant = () => grants++;
    pool.take(1, 2 * SLAB).dispose();
    expect(grants).toBe(0);
  });

  test("that are gone leave their slabs to others once the last room is given back, without what was in it", () => {
    const pool = openPool(1);
    pool.addOwner(1);
    pool.addOwner(2);
    const room = pool.take(1, 100);
    room.payload.fill(9);
    pool.removeOwner(1);
    expect(() => pool.take(2, 100)).toThrow(expect.objectContaining({ code: "no_room" }));
    expect(room.payload[0]).toBe(9);
    room.dispose();
    using next = pool.take(2, SLAB - PAGE_BYTES);
    expect(next.address).toBe(room.address);
    expect(next.payload.every((byte) => byte === 0)).toBe(true);
  });

  test("that are gone get no room", () => {
    const pool = openPool(1);
    pool.addOwner(1);
    pool.removeOwner(1);
    expect(() => pool.take(1, 1)).toThrow(expect.objectContaining({ code: "closed" }));
  });
});

describe("the budget", () => {
  test("is the most that is given: then there is no room now, and for larger media never", () => {
    const pool = openPool(2);
    using _ = pool.take(HOST_OWNER, SLAB);
    expect(() => pool.take(HOST_OWNER, SLAB)).toThrow(
      expect.objectContaining({ code: "no_room", status: 503, retryable: true }),
    );
    expect(() => pool.take(HOST_OWNER, 2 * SLAB)).toThrow(
      expect.objectContaining({ code: "medium_exceeds_pool", retryable: false }),
    );
  });

  test.each([{ slabBytes: 5000 }, { budgetBytes: 1 }, { slabbytes: 8192 }, { slabBytes: -4096 }])(
    "refuses %p",
    (options) => {
      expect(() => new SlabPool(options)).toThrow(expect.objectContaining({ code: "invalid_options" }));
    },
  );

  test("survives ten thousand rooms taken and given back, in no order, without growing or losing a page", () => {
    const pool = openPool(16);
    pool.addOwner(1);
    const held: ReturnType<SlabPool["take"]>[] = [];
    const random = Bun.hash.rapidhash;
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 10_000; i++) {
      const roll = Number(random(String(i)) % 1000n);
      if (held.length > 8 || (held.length > 0 && roll < 400)) held.splice(roll % held.length, 1)[0]?.dispose();
      else held.push(pool.take(roll % 2, 1 + roll * 10));
    }
    for (const room of held) room.dispose();
    expect(pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
    pool.removeOwner(1);
    pool.take(HOST_OWNER, pool.slabBytes - PAGE_BYTES).dispose();
    expect(process.memoryUsage.rss() - before).toBeLessThan(64 * 1024 * 1024);
  });
});

test("views that outlive the pool read as zeros instead of ending the process", () => {
  const pool = new SlabPool({ slabBytes: SLAB, budgetBytes: SLAB });
  const { payload } = pool.take(HOST_OWNER, 1000);
  payload.fill(5);
  pool.dispose();
  pool.dispose();
  expect(payload.every((byte) => byte === 0)).toBe(true);
});
