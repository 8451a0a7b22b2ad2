import { expect, test } from "bun:test";
import { AddressRange, closeDescriptor, createMemoryFile } from "../../ffi/memory.ts";
import { Verifier } from "../../src/nixl/verifier.ts";
import { hashContiguous } from "../../src/tensor/index.ts";

const LARGE = 1024 * 1024;

/** Native memory of 1 MiB, of which no two pages are alike. */
function memory() {
  const range = new AddressRange(LARGE);
  const fd = createMemoryFile("nixl-media-test", LARGE);
  range.mapFile(fd, 0, LARGE);
  closeDescriptor(fd);
  const bytes = range.view(0, LARGE);
  for (let i = 0; i < LARGE; i += 512) bytes[i] = i >> 9;
  return { bytes, address: range.address };
}

test("small and large pieces get the hash that hashing in place gives", async () => {
  using verifier = new Verifier();
  const { bytes, address } = memory();
  for (const piece of [bytes.subarray(0, 1000), bytes]) {
    expect(await verifier.hash(piece, address)).toBe(hashContiguous(piece));
  }
});

test("a disposed verifier refuses, whatever the size, and starts no worker again", async () => {
  const verifier = new Verifier();
  const { bytes, address } = memory();
  verifier.dispose();
  verifier.dispose();
  for (const piece of [bytes.subarray(0, 1000), bytes]) {
    await expect(verifier.hash(piece, address)).rejects.toMatchObject({ code: "closed" });
  }
});

test("whoever waits for a hash when the verifier is disposed is told so", async () => {
  const verifier = new Verifier();
  const { bytes, address } = memory();
  const waiting = [verifier.hash(bytes, address), verifier.hash(bytes, address)];
  verifier.dispose();
  expect(await Promise.allSettled(waiting)).toMatchObject(
    waiting.map(() => ({ status: "rejected", reason: { code: "closed" } })),
  );
});
