import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { createFile } from "../../ffi/process.ts";
import { DecoderPool } from "../../src/decode/index.ts";
import type { EncodedMedium } from "../../src/encoded.ts";
import type { Room } from "../../src/nixl/index.ts";
import { SlabPool } from "../../src/nixl/index.ts";
import { wrongTensors } from "../support/hostile_child.ts";

const PROGRAM = join(import.meta.dir, "../support/hostile_child.ts");
const MEBIBYTE = 1024 * 1024;
let rooms: SlabPool;
let pool: DecoderPool<Room>;

beforeAll(async () => {
  rooms = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE });
  pool = await DecoderPool.open<Room>(
    rooms,
    { ffmpegPath: null, turboJpegPath: null, webpPath: null },
    { children: 2, jobTimeoutMs: 1000 },
    PROGRAM,
  );
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
  const openDescriptors = () => readdirSync("/proc/self/fd").length;
  using file = createFile("medium", 10);
  const medium: EncodedMedium = { ...file, byteLength: 10, start: file.bytes };
  const before = openDescriptors();
  const codes = new Set<string>();
  for (let i = 0; i < 700; i++) codes.add((await decode("media not received", medium).catch((error) => error)).code);
  expect([...codes].toSorted()).toEqual(["media_corrupt", "system_failed"]);
  expect(openDescriptors()).toBeLessThanOrEqual(before + 4);
  await expectHonestWork();
});
