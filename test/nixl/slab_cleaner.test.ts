import { afterEach, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { createFile, type PrivateFile } from "../../ffi/process.ts";
import { type DirtySlab, SlabCleaner } from "../../src/nixl/slab_cleaner.ts";
import { eventually } from "../support/processes.ts";

const BYTES = 4 * 256 * 1024;
const files: PrivateFile[] = [];

afterEach(() => {
  for (const file of files.splice(0)) file.dispose();
});

function slab(offset: number, fill: number): DirtySlab {
  const file = createFile("slab", BYTES);
  files.push(file);
  if (fill > 0) file.bytes.fill(fill);
  return { offset, fd: file.fd, bytes: file.bytes };
}

const isClear = ({ bytes }: DirtySlab) => bytes.every((byte) => byte === 0);
const residentBytes = ({ fd }: DirtySlab) => statSync(`/proc/self/fd/${fd}`).blocks * 512;

test("slabs are cleared to their last byte while the event loop goes on", async () => {
  const cleaner = new SlabCleaner();
  const slabs = [slab(0, 1), slab(BYTES, 2)];
  for (const dirty of slabs) cleaner.add(dirty);
  await new Promise(setImmediate);
  expect(slabs.some(isClear)).toBe(false);
  expect(slabs.map(({ offset }) => cleaner.isDirty(offset))).toEqual([true, true]);
  await eventually("both are clear", () => slabs.every(isClear));
  await eventually("both are known to be", () => !slabs.some(({ offset }) => cleaner.isDirty(offset)));
});

test("a slab that is wanted before its turn is clear at once", () => {
  const cleaner = new SlabCleaner();
  const dirty = slab(0, 1);
  cleaner.add(dirty);
  cleaner.finish(0);
  expect(isClear(dirty)).toBe(true);
  expect(cleaner.isDirty(0)).toBe(false);
});

test("pages that were never touched are not made by clearing", () => {
  const cleaner = new SlabCleaner();
  const dirty = slab(0, 0);
  dirty.bytes.fill(1, 300_000, 300_100);
  dirty.bytes.fill(1, BYTES - 10);
  const before = residentBytes(dirty);
  cleaner.add(dirty);
  cleaner.finish(0);
  expect(residentBytes(dirty)).toBe(before);
  expect(isClear(dirty)).toBe(true); // which makes all pages
  expect(before).toBeLessThan(BYTES / 8);
});

test("a slab that was handed out meanwhile is not cleared again", async () => {
  const cleaner = new SlabCleaner();
  const dirty = slab(0, 1);
  cleaner.add(dirty);
  cleaner.finish(0);
  dirty.bytes.fill(7);
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  expect(dirty.bytes.every((byte) => byte === 7)).toBe(true);
});

test("after dispose nothing is touched: the memory is gone", async () => {
  const cleaner = new SlabCleaner();
  const dirty = slab(0, 1);
  cleaner.add(dirty);
  cleaner.dispose();
  cleaner.add(dirty);
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate);
  expect(dirty.bytes.every((byte) => byte === 1)).toBe(true);
});
