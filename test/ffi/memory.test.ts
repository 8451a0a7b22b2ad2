import { describe, expect, test } from "bun:test";
import { writeSync } from "node:fs";
import {
  AddressRange,
  closeDescriptor,
  createDescriptorChannel,
  createMemoryFile,
  duplicateDescriptor,
  PAGE_BYTES,
  receiveDescriptor,
  roundToPages,
  sealReadOnly,
  sendDescriptor,
} from "../../ffi/memory.ts";
import { check, checkProgress, cString, setNativeEnvironment } from "../../ffi/native.ts";
import { openDescriptors } from "../support/processes.ts";

describe("a range of addresses", () => {
  test("shows the same memory as every other mapping of the file", () => {
    const fd = createMemoryFile("shared", 2 * PAGE_BYTES);
    const [one, other] = [new AddressRange(4 * PAGE_BYTES), new AddressRange(2 * PAGE_BYTES)];
    one.mapFile(fd, PAGE_BYTES, 2 * PAGE_BYTES);
    other.mapFile(fd, 0, 2 * PAGE_BYTES);
    closeDescriptor(fd); // the mappings keep the memory
    one.view(PAGE_BYTES, 2).set([1, 2]);
    expect(Array.from(other.view(0, 2))).toEqual([1, 2]);
    one.release();
    other.release();
  });

  test("that is abandoned reads as zeros and stays where it is", () => {
    const fd = createMemoryFile("abandoned", PAGE_BYTES);
    const range = new AddressRange(PAGE_BYTES);
    range.mapFile(fd, 0, PAGE_BYTES);
    const view = range.view(0, PAGE_BYTES);
    view.fill(7);
    range.abandon();
    closeDescriptor(fd);
    expect(view.every((byte) => byte === 0)).toBe(true);
    expect(new AddressRange(PAGE_BYTES).address).not.toBe(range.address);
  });

  test.each([
    [-1, 1],
    [0, PAGE_BYTES + 1],
    [PAGE_BYTES, 1],
    [Number.NaN, 1],
  ])("refuses bytes outside of it: offset %p, length %p", (offset, length) => {
    const range = new AddressRange(PAGE_BYTES);
    const outside = expect.objectContaining({ code: "invalid_argument" });
    expect(() => range.view(offset, length)).toThrow(outside);
    expect(() => range.mapFile(0, offset, length)).toThrow(outside);
    range.release();
  });

  test("is below 2^53, so that JSON carries its address exactly", () => {
    const range = new AddressRange(PAGE_BYTES);
    expect(Number.isSafeInteger(range.address)).toBe(true);
    range.release();
  });
});

describe("a memory file", () => {
  test("can neither grow nor be written once it is sealed", () => {
    const fd = createMemoryFile("sealed", 10, { sealable: true });
    expect(() => writeSync(fd, Buffer.alloc(11))).toThrow(); // what does not fit is refused
    writeSync(fd, Buffer.alloc(5), 0, 5, 0);
    sealReadOnly(fd);
    expect(() => writeSync(fd, Buffer.alloc(1), 0, 1, 0)).toThrow(expect.objectContaining({ code: "EPERM" }));
    closeDescriptor(fd);
  });

  test("that is shared with a child cannot be sealed by it against everybody else", () => {
    const fd = createMemoryFile("slab", PAGE_BYTES);
    expect(() => sealReadOnly(fd)).toThrow(expect.objectContaining({ code: "system_failed" }));
    writeSync(fd, Buffer.alloc(1), 0, 1, 0);
    closeDescriptor(fd);
  });

  test("is refused with the system's error when it cannot be had", () => {
    expect(() => createMemoryFile("x".repeat(300), 1)).toThrow(
      expect.objectContaining({
        code: "system_failed",
        cause: expect.objectContaining({ statusName: "errno 22", attempted: "memfd_create" }),
      }),
    );
  });
});

test("descriptors travel over a channel with their tags, in order, and arrive as descriptors of their own", () => {
  const channel = createDescriptorChannel();
  const files = ["first", "second"].map((name) => createMemoryFile(name, PAGE_BYTES));
  for (const [index, fd] of files.entries()) {
    sendDescriptor(channel.ours, fd, 2 ** 52 + index);
    closeDescriptor(fd); // it is under way already
  }
  for (const index of [0, 1]) {
    const { fd, tag } = receiveDescriptor(channel.theirs);
    expect(tag).toBe(2 ** 52 + index);
    const copy = duplicateDescriptor(fd);
    expect(copy).not.toBe(fd);
    closeDescriptor(copy);
    closeDescriptor(fd);
  }
  closeDescriptor(channel.ours);
  expect(() => receiveDescriptor(channel.theirs)).toThrow(expect.objectContaining({ code: "system_failed" }));
  closeDescriptor(channel.theirs);
});

test("ten thousand files, mappings and descriptors later nothing is left open", () => {
  const before = openDescriptors();
  for (let i = 0; i < 10_000; i++) {
    const fd = createMemoryFile("loop", PAGE_BYTES);
    const range = new AddressRange(PAGE_BYTES);
    range.mapFile(fd, 0, PAGE_BYTES);
    range.release();
    closeDescriptor(fd);
  }
  expect(openDescriptors()).toBe(before);
});

test("sizes are rounded up to whole pages", () => {
  expect([0, 1, 4096, 4097].map(roundToPages)).toEqual([0, 4096, 4096, 8192]);
});

describe("statuses", () => {
  test("of success pass", () => {
    expect(check(0)).toBeUndefined();
    expect([checkProgress(0), checkProgress(1)]).toEqual([true, false]);
  });

  test("of progress are no success where nothing is to take its time", () => {
    expect(() => check(1)).toThrow(expect.objectContaining({ code: "nixl_failed" }));
  });

  test.each([
    [-1, "nixl_failed", "NIXL_ERR_INVALID_PARAM"],
    [-6, "nixl_failed", "NIXL_ERR_NOT_FOUND"],
    [-100, "nixl_unavailable", "SHIM_NOT_OPEN"],
    [-1012, "system_failed", "errno 12"],
    [-77, "nixl_failed", "status -77"],
  ])("%p becomes %s with its name as the cause", (status, code, statusName) => {
    expect(() => check(status)).toThrow(
      expect.objectContaining({ code, cause: expect.objectContaining({ status, statusName }) }),
    );
  });
});

test("text with a NUL never reaches native code", () => {
  expect(() => cString("a\0b")).toThrow(expect.objectContaining({ code: "invalid_argument" }));
  expect(() => setNativeEnvironment("A\0B", "")).toThrow(expect.objectContaining({ code: "invalid_argument" }));
});
