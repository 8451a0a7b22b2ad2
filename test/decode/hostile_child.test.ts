import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createFile } from "../../ffi/process.ts";
import { DecoderPool } from "../../src/decode/index.ts";
import type { EncodedMedium } from "../../src/encoded.ts";
import type { Room } from "../../src/nixl/index.ts";
import { SlabPool } from "../../src/nixl/index.ts";
import { wrongTensors } from "../support/hostile_child.ts";
import { noisePng } from "../support/media.ts";
import { openDescriptors } from "../support/processes.ts";

const PROGRAM = join(import.meta.dir, "../support/hostile_child.ts");
const MEBIBYTE = 1024 * 1024;
const NONE = { ffmpegPath: null, turboJpegPath: null, webpPath: null };
let rooms: SlabPool;
let pool: DecoderPool<Room>;

beforeAll(async () => {
  rooms = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE });
  pool = await DecoderPool.open<Room>(rooms, NONE, { children: 2, jobTimeoutMs: 1000 }, PROGRAM);
});

afterAll(async () => {
  await pool.dispose();
  rooms.dispose();
});

function decode(scenario: string, encoded: EncodedMedium = new Uint8Array(10)) {
  return pool.decode({ kind: "image", settings: { scenario }, hashVideo: false }, encoded);
}

async function expectHonestWork(): Promise<void> {
  const { tensor, room } = await decode("honest");
  expect(tensor.shape).toEqual([2, 2, 3]);
  room.dispose();
  expect(rooms.occupancy).toEqual({ rooms: 0, bytes: 0 });
}

describe("a child that was taken over is not believed", () => {
  test.each([
    ...wrongTensors,
    "a refusal that there was not",
    "a code that is the parent's",
    "a message without end",
    "no message",
    "done without a room",
  ])("when it answers with %s: it is ended, the job fails, nothing is kept", async (scenario) => {
    const before = new Set(pool.childPids);
    await expect(decode(scenario)).rejects.toMatchObject({ code: "decoder_failed", status: 500 });
    expect(pool.childPids.filter((pid) => before.has(pid))).toHaveLength(1);
    await expectHonestWork();
  });

  test("when it says nothing at all: the time limit ends it", async () => {
    await expect(decode("silence")).rejects.toMatchObject({ code: "decoder_timeout" });
    await expectHonestWork();
  });
});

test("a medium is given to one child only, whatever that child says of room", async () => {
  const before = new Set(pool.childPids);
  await expect(decode("a refusal that there was not")).rejects.toMatchObject({ code: "decoder_failed" });
  expect(pool.childPids.filter((pid) => before.has(pid))).toHaveLength(1); // the other one never saw it
});

test("a child that takes no media off its channel does not hold up this process", async () => {
  using file = createFile("medium", 10);
  const medium: EncodedMedium = { ...file, byteLength: 10, start: file.bytes };
  const before = openDescriptors();
  const codes = new Set<string>();
  for (let i = 0; i < 700; i++) codes.add((await decode("media not received", medium).catch((error) => error)).code);
  expect([...codes].toSorted()).toEqual(["media_corrupt", "system_failed"]);
  expect(openDescriptors()).toBeLessThanOrEqual(before + 4);
  await expectHonestWork();
});

test("an answer that comes while the medium is still being copied ends the job, and nothing is left of it", async () => {
  // Large enough to be copied in pieces, and a picture whose room is told ahead.
  const medium = Buffer.concat([await noisePng(20, 20), new Uint8Array(12 * MEBIBYTE)]);
  await Promise.all(["one", "other"].map(() => decode("an answer to the next job").then(({ room }) => room.dispose())));
  for (let i = 0; i < 4; i++) {
    const code = await decode("honest", medium).then(
      ({ room }) => room.dispose(),
      (error) => error.code,
    );
    expect([undefined, "media_corrupt", "decoder_failed"]).toContain(code);
  }
  expect(rooms.occupancy).toEqual({ rooms: 0, bytes: 0 });
});

test("a child that cannot be handed a slab ahead costs no more than itself", async () => {
  const memory = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE, prefault: true });
  const program = join(import.meta.dir, "../support/deaf_child.ts");
  const deaf = await DecoderPool.open<Room>(memory, NONE, { children: 1, queueTimeoutMs: 1500 }, program);
  const request = { kind: "image", settings: { limits: null }, hashVideo: false } as const;
  const png = await noisePng(20, 20);
  await expect(deaf.decode(request, png)).rejects.toMatchObject({ code: "overloaded" });
  await deaf.dispose();
  expect(memory.occupancy).toEqual({ rooms: 0, bytes: 0 });
  memory.dispose();
});

test("an exception that nobody catches in a decoder costs its job alone, and nothing is left of it", async () => {
  const memory = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE });
  const fresh = await DecoderPool.open<Room>(memory, NONE, { children: 1 }, PROGRAM);
  const ask = (scenario: string) =>
    fresh.decode({ kind: "image", settings: { scenario }, hashVideo: false }, new Uint8Array(10));
  await expect(ask("an exception")).rejects.toMatchObject({ code: "decoder_crashed", retryable: true });
  expect(memory.occupancy).toEqual({ rooms: 0, bytes: 0 });
  const { room } = await ask("honest");
  room.dispose();
  await fresh.dispose();
  expect(memory.occupancy).toEqual({ rooms: 0, bytes: 0 });
  memory.dispose();
});

test("media share the machine's processors: each gets those that no other uses, at most four, at least one", async () => {
  const memory = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE });
  const fresh = await DecoderPool.open<Room>(memory, NONE, { children: 2, jobTimeoutMs: 1000 }, PROGRAM);
  const ask = async (scenario: string): Promise<{ code: string; message: string }> =>
    fresh
      .decode({ kind: "image", settings: { scenario }, hashVideo: false }, new Uint8Array(10))
      .then(() => ({ code: "done", message: "" }))
      .catch((error) => error);
  const processors = availableParallelism();
  const alone = Math.min(4, processors);
  const beside = Math.max(1, Math.min(4, processors - alone));
  expect((await ask("threads")).message).toBe(String(alone));
  const silent = ask("silence");
  expect((await ask("threads")).message).toBe(String(beside));
  expect((await silent).code).toBe("decoder_timeout");
  expect((await ask("threads")).message).toBe(String(alone));
  await fresh.dispose();
  memory.dispose();
});
