import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test";
import { join } from "node:path";
import { NativeAgent } from "../../ffi/agent.ts";
import { PAGE_BYTES } from "../../ffi/memory.ts";
import type { MediaError } from "../../src/errors.ts";
import { type LandingBuffer, LandingBuffers } from "../../src/nixl/landing.ts";

const MEBIBYTE = 1024 * 1024;
let agent: NativeAgent;

const open = (name: string) => NativeAgent.create({ name, backend: "UCX", progressDelayMicroseconds: 1000 });

beforeAll(() => {
  agent = open("landing-test");
});

afterAll(() => agent.dispose());

/** Error that a call throws. */
function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

describe("landing buffers", () => {
  test("are used again for what fits them", () => {
    const landing = new LandingBuffers(agent, 16 * MEBIBYTE);
    const first = landing.take(0, 3 * MEBIBYTE);
    landing.giveBack(first);
    expect(landing.take(PAGE_BYTES, 2 * MEBIBYTE)).toBe(first);
    expect(landing.totalBytes).toBe(3 * MEBIBYTE);
    landing.dispose();
  });

  test("are not blocked by something far smaller", () => {
    const landing = new LandingBuffers(agent, 16 * MEBIBYTE);
    const large = landing.take(0, 8 * MEBIBYTE);
    landing.giveBack(large);
    expect(landing.take(0, 100)).not.toBe(large);
    expect(landing.take(0, 8 * MEBIBYTE)).toBe(large);
    landing.dispose();
  });

  test.each([1, 1.1, 1.3, 2.6, 3.01, 4, 5.2, 9.9, 100.1])("of %d MiB waste at most a fourth of that", (mebibytes) => {
    const landing = new LandingBuffers(agent, 256 * MEBIBYTE);
    const { range } = landing.take(0, mebibytes * MEBIBYTE);
    expect(range.byteLength).toBeGreaterThanOrEqual(mebibytes * MEBIBYTE);
    expect(range.byteLength).toBeLessThanOrEqual(mebibytes * MEBIBYTE * 1.25 + PAGE_BYTES);
    expect(range.byteLength % PAGE_BYTES).toBe(0);
    landing.dispose();
  });

  test("take what is left of the budget when a whole size class does not fit any more", () => {
    const landing = new LandingBuffers(agent, 4 * MEBIBYTE + 5 * PAGE_BYTES);
    landing.take(0, MEBIBYTE);
    expect(landing.take(0, 3 * MEBIBYTE + PAGE_BYTES).range.byteLength).toBe(3 * MEBIBYTE + 5 * PAGE_BYTES);
    expect(thrownBy(() => landing.take(0, 1))).toMatchObject({ code: "no_room" });
    landing.dispose();
  });

  test("give way when they are idle, the longest idle ones first, and then read as zeros", () => {
    const landing = new LandingBuffers(agent, 4 * MEBIBYTE);
    const buffers = Array.from({ length: 4 }, () => landing.take(0, MEBIBYTE));
    const [first, second] = buffers as [LandingBuffer, LandingBuffer];
    for (const { range } of buffers) range.view(0, 8).fill(7);
    const firstBytes = () => buffers.map(({ range }) => range.view(0, 1)[0]);
    for (const buffer of [second, first]) landing.giveBack(buffer);
    expect(thrownBy(() => landing.take(0, 3 * MEBIBYTE))).toMatchObject({ code: "no_room" });
    expect(firstBytes()).toEqual([7, 7, 7, 7]); // none was ended in vain
    for (const buffer of buffers.slice(2)) landing.giveBack(buffer);
    landing.take(0, 2 * MEBIBYTE);
    expect(firstBytes()).toEqual([0, 0, 7, 7]);
    expect(landing.totalBytes).toBe(4 * MEBIBYTE);
    landing.dispose();
  });

  test("never have an address and length that were registered before", () => {
    const landing = new LandingBuffers(agent, 4 * MEBIBYTE);
    const known = new Set<LandingBuffer>();
    for (let i = 0; i < 40; i++) {
      const buffer = landing.take(0, 100);
      const large = landing.take(0, (1 + (i % 3)) * MEBIBYTE);
      for (const taken of [buffer, large]) {
        known.add(taken);
        landing.giveBack(taken);
      }
    }
    const registered = [...known].map(({ range }) => `${range.address}+${range.byteLength}`);
    expect(new Set(registered).size).toBe(registered.length);
    expect(registered.length).toBeGreaterThan(10);
    landing.dispose();
  });

  test("that cannot be deregistered stay mapped, all are tried, and one error tells of all", () => {
    const other = open("landing-test-gone");
    const landing = new LandingBuffers(other, 16 * MEBIBYTE);
    const buffers = [landing.take(0, 100), landing.take(0, 100), landing.take(0, 100)];
    for (const { range } of buffers) range.view(0, 8).fill(7);
    other.dispose(); // before its registrations: nothing can be deregistered any more
    const warning = spyOn(console, "warn").mockImplementation(() => {});
    try {
      const error = thrownBy(() => landing.dispose()) as MediaError;
      expect(error.code).toBe("nixl_failed");
      expect(error.cause).toBeInstanceOf(AggregateError);
      const codes = (error.cause as AggregateError).errors.map((each: MediaError) => each.code);
      expect(codes).toEqual(["closed", "closed", "closed"]);
      expect(warning).toHaveBeenCalledTimes(3);
    } finally {
      warning.mockRestore();
    }
    expect(buffers.map(({ range }) => range.view(0, 1)[0])).toEqual([7, 7, 7]);
    landing.dispose(); // nothing is left to do
  });

  test("leave no addresses reserved when the system refuses a memfd", async () => {
    const program = join(import.meta.dir, "../support/landing_without_descriptors.ts");
    const child = Bun.spawn(["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", process.execPath, program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const { codes, reservedBytes } = JSON.parse(await child.stdout.text());
    expect(codes).toEqual(Array.from({ length: 20 }, () => "system_failed"));
    expect(reservedBytes).toBeLessThan(1024 * MEBIBYTE); // each try would have left 1 GiB
  });
});
