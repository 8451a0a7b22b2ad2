import { expect, test } from "bun:test";
import { SlabCleaner } from "../../src/nixl/slab_cleaner.ts";
import { eventually } from "../support/processes.ts";

const BYTES = 3 * 256 * 1024 + 1;
const isClear = (bytes: Uint8Array) => bytes.every((byte) => byte === 0);

test("slabs are cleared to their last byte while the event loop goes on", async () => {
  const cleaner = new SlabCleaner();
  const slabs = [new Uint8Array(BYTES).fill(1), new Uint8Array(BYTES).fill(2)];
  for (const [index, slab] of slabs.entries()) cleaner.add(index * BYTES, slab);
  await new Promise(setImmediate);
  expect(slabs.some(isClear)).toBe(false);
  await eventually("both are clear", () => slabs.every(isClear));
});

test("a slab that is wanted before its turn is clear at once", () => {
  const cleaner = new SlabCleaner();
  const slab = new Uint8Array(BYTES).fill(1);
  cleaner.add(0, slab);
  cleaner.finish(0);
  expect(isClear(slab)).toBe(true);
});

test("a slab that was handed out meanwhile is not cleared again", async () => {
  const cleaner = new SlabCleaner();
  const slab = new Uint8Array(BYTES).fill(1);
  cleaner.add(0, slab);
  cleaner.finish(0);
  slab.fill(7);
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  expect(slab.every((byte) => byte === 7)).toBe(true);
});

test("after dispose nothing is touched: the memory is gone", async () => {
  const cleaner = new SlabCleaner();
  const slab = new Uint8Array(BYTES).fill(1);
  cleaner.add(0, slab);
  cleaner.dispose();
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  expect(slab.every((byte) => byte === 1)).toBe(true);
});
