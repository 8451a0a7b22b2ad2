import { describe, expect, test } from "bun:test";
import { FreeExtents } from "../../src/nixl/extents.ts";

/** A repeatable sequence of whole numbers below `limit`. */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

describe("what is free", () => {
  test("is taken in the order in which it became free, not by address", () => {
    const free = new FreeExtents();
    free.add({ offset: 0, byteLength: 10 }, 3);
    free.add({ offset: 20, byteLength: 10 }, 1);
    free.add({ offset: 40, byteLength: 10 }, 2);
    expect([free.take(10), free.take(10), free.take(10), free.take(10)]).toEqual([20, 40, 0, null]);
  });

  test("and was never used is taken first", () => {
    const free = new FreeExtents();
    free.add({ offset: 0, byteLength: 10 }, 1);
    free.add({ offset: 10, byteLength: 100 });
    expect([free.take(50), free.take(50), free.take(5)]).toEqual([10, 60, 0]);
  });

  test("counts as the youngest part where several are taken together", () => {
    const free = new FreeExtents();
    free.add({ offset: 0, byteLength: 10 }, 1);
    free.add({ offset: 10, byteLength: 10 }, 9);
    free.add({ offset: 30, byteLength: 10 }, 5);
    free.add({ offset: 40, byteLength: 10 }, 6);
    expect(free.freedAt({ offset: 5, byteLength: 10 })).toBe(9);
    expect([free.take(15), free.take(20), free.take(5)]).toEqual([30, 0, 45]);
  });

  test("is taken out as a range with what it consisted of, and put back as it was", () => {
    const free = new FreeExtents();
    free.add({ offset: 0, byteLength: 10 }, 1);
    free.add({ offset: 10, byteLength: 10 }, 2);
    const parts = free.remove({ offset: 5, byteLength: 10 });
    expect(parts).toEqual([
      { offset: 5, byteLength: 5, freedAt: 1 },
      { offset: 10, byteLength: 5, freedAt: 2 },
    ]);
    expect(free.remove({ offset: 0, byteLength: 20 })).toBeNull();
    expect([free.endingAt(5), free.startingAt(15), free.contains({ offset: 4, byteLength: 2 })]).toEqual([5, 5, false]);
    for (const part of parts ?? []) free.add(part, part.freedAt);
    expect([free.startingAt(0), free.endingAt(20)]).toEqual([20, 20]);
  });
});

test("of all places the oldest is taken, never twice, and nothing is lost: as a map of single bytes has it", () => {
  const BYTES = 400;
  const random = numbers(7);
  const free = new FreeExtents();
  /** When each byte became free; −1 where it is taken. */
  const map = new Array<number>(BYTES).fill(0);
  free.add({ offset: 0, byteLength: BYTES });
  const held: { offset: number; byteLength: number }[] = [];
  /** For each place the age of its youngest byte; infinite where one is taken. */
  const youngest = (offset: number, byteLength: number): number => {
    const ages = map.slice(offset, offset + byteLength);
    return ages.length < byteLength || ages.includes(-1) ? Number.POSITIVE_INFINITY : Math.max(...ages);
  };
  for (let step = 1; step <= 3000; step++) {
    const returned = random(2) === 0 ? held.splice(random(held.length), 1)[0] : undefined;
    if (returned) {
      free.add(returned, step);
      map.fill(step, returned.offset, returned.offset + returned.byteLength);
      continue;
    }
    const byteLength = 1 + random(40);
    const best = Math.min(...map.map((_, offset) => youngest(offset, byteLength)));
    expect(free.fits(byteLength)).toBe(best !== Number.POSITIVE_INFINITY);
    const offset = free.take(byteLength);
    expect(offset === null ? Number.POSITIVE_INFINITY : youngest(offset, byteLength)).toBe(best);
    if (offset === null) continue;
    map.fill(-1, offset, offset + byteLength);
    held.push({ offset, byteLength });
  }
  for (const extent of held) free.add(extent, 5000);
  expect(free.take(BYTES)).toBe(0);
});

test("thousands of pieces that touch are kept as few, and nothing of them is lost", () => {
  const free = new FreeExtents();
  for (let offset = 0; offset < 10_000; offset++) free.add({ offset, byteLength: 1 }, offset);
  expect(free.all().length).toBeLessThan(1500);
  expect(free.contains({ offset: 0, byteLength: 10_000 })).toBe(true);
  expect(free.take(1)).toBe(0);
});
