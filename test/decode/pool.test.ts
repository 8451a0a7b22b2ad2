import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { INBOX_BYTES } from "../../src/decode/protocol.ts";
import { MediaDecoder, type MediaDecoderOptions, type MediaError } from "../../src/index.ts";
import { HOST_OWNER } from "../../src/nixl/index.ts";
import { PROJECT } from "../support/cli.ts";
import { mediaPath, noisePng } from "../support/media.ts";
import { descendantsOf, eventually, isAlive, openDescriptors } from "../support/processes.ts";

const MEBIBYTE = 1024 * 1024;
const decoders: MediaDecoder[] = [];

async function open(options: MediaDecoderOptions = {}): Promise<MediaDecoder> {
  const decoder = await MediaDecoder.open({ decoders: { children: 1 }, ...options });
  decoders.push(decoder);
  return decoder;
}

/** A medium that takes a while: every frame of a minute. */
const LONG = { path: mediaPath("minute.mp4") };
const SMALL = { path: mediaPath("rgb.png") };

/** The one child, once it has an ffmpeg of its own: then it is in the middle of decoding. */
async function busyChild(decoder: MediaDecoder): Promise<{ child: number; ffmpeg: number }> {
  const [child = 0] = decoder.childPids;
  await eventually("the child starts ffmpeg", () => descendantsOf(child).length > 0);
  return { child, ffmpeg: descendantsOf(child)[0] ?? 0 };
}

function pngChunk(type: string, content: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type), content]);
  const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.byteLength);
  crc.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, crc]);
}

async function expectStillWorks(decoder: MediaDecoder): Promise<void> {
  using decoded = await decoder.decode(SMALL);
  expect(decoded.media.info.shape).toEqual([43, 61, 3]);
}

afterEach(async () => {
  const pids = decoders.flatMap((decoder) => decoder.childPids);
  for (const decoder of decoders.splice(0)) await decoder.dispose();
  expect(pids.filter(isAlive)).toEqual([]);
});

describe("a decoder child that is killed while it decodes", () => {
  test("costs that job alone: a coded error, its memory back, its ffmpeg gone, and the next job works", async () => {
    const decoder = await open();
    const job = decoder.decode(LONG);
    const { child, ffmpeg } = await busyChild(decoder);
    process.kill(child, "SIGKILL");
    await expect(job).rejects.toMatchObject({
      code: "decoder_crashed",
      status: 500,
      retryable: true,
      message: expect.stringMatching(/\[346078 bytes, xxh64 [0-9a-f]{16}\]$/),
    });
    expect(decoder.pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
    await eventually("ffmpeg is gone", () => !isAlive(ffmpeg));
    await expectStillWorks(decoder);
    expect(decoder.childPids).not.toContain(child);
  });

  test("does not disturb what it decoded before", async () => {
    const decoder = await open();
    using before = await decoder.decode(SMALL);
    const copy = before.bytes.slice();
    process.kill(decoder.childPids[0] ?? 0, "SIGKILL");
    for (let i = 0; i < 5; i++) await expectStillWorks(decoder);
    expect(Buffer.compare(before.bytes, copy)).toBe(0);
  });

  test("while it is idle is replaced without anybody noticing", async () => {
    const decoder = await open();
    for (let i = 0; i < 3; i++) {
      const [child = 0] = decoder.childPids;
      process.kill(child, "SIGKILL");
      await expectStillWorks(decoder); // given to the dead child, as likely as not
      expect(decoder.childPids).not.toContain(child);
    }
  });
});

describe("giving up", () => {
  test("ends a running job's decoder and what it started", async () => {
    const decoder = await open();
    const controller = new AbortController();
    const job = decoder.decode(LONG, { signal: controller.signal });
    const { child, ffmpeg } = await busyChild(decoder);
    controller.abort();
    await expect(job).rejects.toMatchObject({ code: "aborted" });
    expect(isAlive(child)).toBe(false);
    await eventually("ffmpeg is gone", () => !isAlive(ffmpeg));
    expect(decoder.pool.occupancy.rooms).toBe(0);
    await expectStillWorks(decoder);
  });

  test("takes a waiting job out of the line at once", async () => {
    const decoder = await open();
    const running = decoder.decode(LONG);
    await busyChild(decoder);
    const controller = new AbortController();
    const waiting = decoder.decode(SMALL, { signal: controller.signal });
    await eventually("it waits", () => decoder.queueLength === 1);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ code: "aborted" });
    expect(decoder.queueLength).toBe(0);
    (await running).dispose();
  });

  test("before it has begun starts nothing", async () => {
    const decoder = await open();
    await expect(decoder.decode(SMALL, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
    expect(decoder.queueLength).toBe(0);
  });
});

test("a decoder that hangs is ended at the time limit, with what it started, and the next job works", async () => {
  const decoder = await open({ decoders: { children: 1, jobTimeoutMs: 2000 } });
  const job = decoder.decode(LONG);
  const { child, ffmpeg } = await busyChild(decoder);
  process.kill(child, "SIGSTOP");
  await expect(job).rejects.toMatchObject({ code: "decoder_timeout", retryable: true });
  expect(isAlive(child)).toBe(false);
  await eventually("ffmpeg is gone", () => !isAlive(ffmpeg));
  await expectStillWorks(decoder);
});

test("more waiting media than the queue takes are refused, and those in line are not lost", async () => {
  const decoder = await open({ decoders: { children: 1, queueLimit: 2 } });
  const bytes = await Bun.file(SMALL.path).bytes(); // which are all there at once, as files might not be
  const outcomes = await Promise.allSettled(Array.from({ length: 6 }, () => decoder.decode(bytes)));
  const decoded = outcomes.filter((outcome) => outcome.status === "fulfilled");
  const refused = outcomes.filter((outcome) => outcome.status === "rejected");
  expect(decoded.length).toBe(3);
  for (const { reason } of refused) expect(reason).toMatchObject({ code: "overloaded", status: 503 });
  for (const { value } of decoded) value.dispose();
});

test("a job that runs and one that waits fail when the decoder is disposed, and nothing is left running", async () => {
  const decoder = await open();
  const running = decoder.decode(LONG);
  const { child, ffmpeg } = await busyChild(decoder);
  const jobs = [running, decoder.decode(SMALL)];
  const settled = Promise.allSettled(jobs);
  await decoder.dispose();
  for (const outcome of await settled)
    expect(outcome).toMatchObject({ status: "rejected", reason: { code: "closed" } });
  expect(isAlive(child)).toBe(false);
  await eventually("ffmpeg is gone", () => !isAlive(ffmpeg));
  await expect(decoder.decode(SMALL)).rejects.toMatchObject({ code: "closed" });
});

test("a decoder that is stopped is ended at the time limit, and the next job works", async () => {
  const decoder = await open({ decoders: { children: 1, jobTimeoutMs: 300 } });
  const [child = 0] = decoder.childPids;
  process.kill(child, "SIGSTOP");
  await expect(decoder.decode(SMALL)).rejects.toMatchObject({ code: "decoder_timeout", retryable: true });
  expect(isAlive(child)).toBe(false);
  expect(decoder.pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
  await expectStillWorks(decoder);
});

test("an ffmpeg that is killed costs its clip alone, and its decoder works on", async () => {
  const decoder = await open({ decoders: { children: 1, threadsPerMedium: 1 } });
  const job = decoder.decode(LONG);
  const { child, ffmpeg } = await busyChild(decoder);
  process.kill(ffmpeg, "SIGKILL");
  await expect(job).rejects.toMatchObject({ code: "decoder_crashed", retryable: true });
  expect(decoder.pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
  await expectStillWorks(decoder);
  expect(decoder.childPids).toEqual([child]);
});

test("five hundred loads that are given up at random moments leave no memory, process or descriptor", async () => {
  const decoder = await open({ decoders: { children: 2 } });
  await expectStillWorks(decoder);
  const before = openDescriptors();
  const sources = [SMALL, { path: mediaPath("odd.jpg") }, { path: mediaPath("h264.mp4") }, await noisePng(900, 600)];
  const codes = new Set<string>();
  const load = async (index: number): Promise<void> => {
    const controller = new AbortController();
    // One in ten is wanted to its end.
    const timer = index % 10 === 0 ? undefined : setTimeout(() => controller.abort(), (index * 7919) % 60);
    try {
      using _ = await decoder.decode(sources[index % sources.length] ?? SMALL, { signal: controller.signal });
      codes.add("done");
    } catch (error) {
      codes.add((error as MediaError).code);
    } finally {
      clearTimeout(timer);
    }
  };
  for (let first = 0; first < 500; first += 20) {
    await Promise.all(Array.from({ length: 20 }, (_, index) => load(first + index)));
  }
  expect([...codes].toSorted()).toEqual(["aborted", "done"]);
  expect(decoder.pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
  expect(decoder.queueLength).toBe(0);
  await eventually("as many decoders as there should be, and nothing else", () => {
    const descendants = descendantsOf(process.pid);
    return descendants.length === 2 && decoder.childPids.every((pid) => descendants.includes(pid));
  });
  await eventually("no descriptor is left", () => openDescriptors() <= before);
  await expectStillWorks(decoder);
}, 60_000);

test("disposing twice at the same time waits for the children twice, and leaves nothing", async () => {
  for (let round = 0; round < 3; round++) {
    const decoder = await MediaDecoder.open({ decoders: { children: 2 } });
    const pids = decoder.childPids;
    const job = decoder.decode(LONG).catch((error) => error);
    await Promise.all(
      [decoder.dispose(), decoder.dispose()].map((end) => end.then(() => expect(pids.filter(isAlive)).toEqual([]))),
    );
    expect((await job).code).toBe("closed");
  }
});

test("a decoder that is killed while it starts costs none of those who wait", async () => {
  const decoder = await open();
  const [first = 0] = decoder.childPids;
  const jobs = [1, 2, 3].map(() => decoder.decode(SMALL));
  process.kill(first, "SIGKILL");
  await eventually("another one starts", () => descendantsOf(process.pid).some((pid) => pid !== first));
  for (const pid of descendantsOf(process.pid)) if (pid !== first) process.kill(pid, "SIGKILL");
  for (const decoded of await Promise.all(jobs)) decoded.dispose();
  await expectStillWorks(decoder);
});

describe("decoders are replaced by fresh ones", () => {
  test("after so many media, without a pause and without a failure", async () => {
    const decoder = await open({ decoders: { children: 1, recycleAfterJobs: 3 } });
    const seen = new Set(decoder.childPids);
    await eventually("several have had their turn", async () => {
      await expectStillWorks(decoder);
      for (const pid of decoder.childPids) seen.add(pid);
      return seen.size >= 4;
    });
    await eventually("the old ones are gone", () => [...seen].filter(isAlive).length === 1);
    expect(decoder.pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
  });

  test("when they hold much memory, and what they decoded stays as it was", async () => {
    const decoder = await open({ decoders: { children: 1, recycleAboveBytes: 1 } });
    const [child = 0] = decoder.childPids;
    using decoded = await decoder.decode(SMALL);
    const copy = decoded.bytes.slice();
    await eventually("another one took its place", () => !isAlive(child) && decoder.childPids.length > 0);
    for (let i = 0; i < 10; i++) await expectStillWorks(decoder);
    expect(Buffer.compare(decoded.bytes, copy)).toBe(0);
  });
});

describe("memory", () => {
  test("a tensor larger than a slab spans neighbouring ones, whole and right", async () => {
    const png = await noisePng(1000, 700);
    const decoder = await open({ pool: { slabBytes: MEBIBYTE, budgetBytes: 8 * MEBIBYTE } });
    const roomy = await open();
    using spanning = await decoder.decode(png);
    using single = await roomy.decode(png);
    expect(spanning.bytes.byteLength).toBeGreaterThan(2 * MEBIBYTE);
    expect(Buffer.compare(spanning.bytes, single.bytes)).toBe(0);
  });

  test("that is touched ahead is handed to the decoders ahead", async () => {
    const decoder = await open({
      decoders: { children: 2 },
      pool: { slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE, prefault: true },
    });
    const rooms = await Promise.all([1, 2, 3, 4].map(() => decoder.decodeToRoom(SMALL)));
    const slabs = new Set(rooms.map(({ room }) => Math.floor(room.offset / MEBIBYTE)));
    expect([...slabs].every((slab) => slab < 2)).toBe(true);
    for (const { room } of rooms) room.dispose();
    await expectStillWorks(decoder);
  });

  test("encoded media larger than a child's inbox come through", async () => {
    const png = await noisePng(2500, 2300);
    expect(png.byteLength).toBeGreaterThan(INBOX_BYTES);
    const decoder = await open();
    for (let i = 0; i < 2; i++) {
      using decoded = await decoder.decode(png);
      expect(decoded.media.info.shape).toEqual([2300, 2500, 3]);
    }
    const before = openDescriptors();
    for (let i = 0; i < 5; i++) {
      const controller = new AbortController();
      const job = decoder.decode(png, { signal: controller.signal });
      for (let turn = 0; turn < i; turn++) await new Promise(setImmediate);
      controller.abort(); // while it is copied
      await expect(job).rejects.toMatchObject({ code: "aborted" });
    }
    await expectStillWorks(decoder);
    await eventually("no descriptor is left", () => openDescriptors() <= before);
    expect(decoder.pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
  });

  test("a large file is read by its decoder; one that is made shorter meanwhile costs that decoder", async () => {
    const folder = mkdtempSync(join(tmpdir(), "large-file-"));
    const path = join(folder, "noise.png");
    writeFileSync(path, await noisePng(2500, 2300));
    const decoder = await open({ decoders: { children: 1, jobTimeoutMs: 20_000 } });
    using decoded = await decoder.decode({ path });
    expect(decoded.media.info.shape).toEqual([2300, 2500, 3]);
    const before = openDescriptors();

    const [child = 0] = decoder.childPids;
    process.kill(child, "SIGSTOP");
    const job = decoder.decode({ path });
    await Bun.sleep(100); // until the file is open and handed over
    truncateSync(path, 100_000);
    process.kill(child, "SIGCONT");
    await expect(job).rejects.toMatchObject({ code: "decoder_crashed", retryable: true });
    await expectStillWorks(decoder);
    await eventually("the file is closed", () => openDescriptors() <= before);
    rmSync(folder, { recursive: true });
  });

  test("a guess of the room that does not fit costs nothing", async () => {
    const decoder = await open();
    // Behind more than is looked at ahead, transparency makes four channels of three.
    const png = Buffer.from(await noisePng(50, 40));
    const text = pngChunk("tEXt", Buffer.alloc(100_000, 65));
    const transparency = pngChunk("tRNS", Buffer.alloc(6));
    const headerEnd = 8 + 25;
    const encoded = Buffer.concat([png.subarray(0, headerEnd), text, transparency, png.subarray(headerEnd)]);
    const { room, tensor } = await decoder.decodeToRoom(encoded);
    expect(tensor.shape).toEqual([40, 50, 4]);
    expect(decoder.pool.occupancy.rooms).toBe(1);
    room.dispose();
    expect(decoder.pool.occupancy).toEqual({ rooms: 0, bytes: 0 });
  });

  test("that is full says so, and takes media again when some is given back", async () => {
    const png = await noisePng(600, 500);
    const decoder = await open({
      decoders: { children: 1, roomTimeoutMs: 100 },
      pool: { slabBytes: MEBIBYTE, budgetBytes: 2 * MEBIBYTE },
    });
    const held = [await decoder.decode(png), await decoder.decode(png)];
    await expect(decoder.decode(png)).rejects.toMatchObject({ code: "no_room", status: 503, retryable: true });
    held.pop()?.dispose();
    held.push(await decoder.decode(png));
    for (const decoded of held) decoded.dispose();
  });

  test("that can never hold the tensor says that", async () => {
    const decoder = await open({ pool: { slabBytes: MEBIBYTE, budgetBytes: MEBIBYTE } });
    await expect(decoder.decode(await noisePng(1000, 700))).rejects.toMatchObject({
      code: "medium_exceeds_pool",
      retryable: false,
    });
  });

  test("one child's full slabs do not keep another child from decoding", async () => {
    const png = await noisePng(600, 500);
    const decoder = await open({ decoders: { children: 2 }, pool: { slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE } });
    const held = await Promise.all(Array.from({ length: 4 }, () => decoder.decode(png)));
    expect(new Set(held.map((decoded) => decoded.media.contentHash)).size).toBe(1);
    for (const decoded of held) decoded.dispose();
  });
});

describe("slabs that are empty but belong to a child", () => {
  test("make room for a large medium after many small ones were held everywhere", async () => {
    const [small, large] = [await noisePng(600, 400), await noisePng(1100, 800)];
    const decoder = await open({ decoders: { children: 2 }, pool: { slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE } });
    const held = await Promise.all(Array.from({ length: 4 }, () => decoder.decode(small)));
    for (const decoded of held) decoded.dispose();
    using decoded = await decoder.decode(large);
    expect(decoded.media.info.shape).toEqual([800, 1100, 3]);
    await expectStillWorks(decoder);
  });

  test("make room for tensors of this process itself, at the second try", async () => {
    const large = await noisePng(1100, 800);
    const decoder = await open({ pool: { slabBytes: MEBIBYTE, budgetBytes: 4 * MEBIBYTE } });
    (await decoder.decode(large)).dispose();
    const take = () => decoder.pool.take(0, 3 * MEBIBYTE);
    expect(take).toThrow(expect.objectContaining({ code: "no_room" }));
    await eventually("room is made", () => {
      try {
        take().dispose();
        return true;
      } catch {
        return false;
      }
    });
    await expectStillWorks(decoder);
  });

  test("are not all granted ahead: this process gets its room at the first try", async () => {
    const decoder = await open({
      decoders: { children: 2 },
      pool: { slabBytes: MEBIBYTE, budgetBytes: 2 * MEBIBYTE, prefault: true },
    });
    const pids = decoder.childPids;
    decoder.pool.take(HOST_OWNER, 1000).dispose();
    expect(decoder.childPids).toEqual(pids);
  });

  test("are not taken from children when that would not help", async () => {
    const small = await noisePng(600, 400);
    const decoder = await open({
      decoders: { children: 1, roomTimeoutMs: 100 },
      pool: { slabBytes: MEBIBYTE, budgetBytes: 3 * MEBIBYTE },
    });
    using _first = await decoder.decode(small);
    using second = await decoder.decode(small);
    const third = await decoder.decode(small);
    third.dispose();
    const [child] = decoder.childPids;
    await expect(decoder.decode(await noisePng(1000, 800))).rejects.toMatchObject({ code: "no_room" });
    expect(decoder.childPids).toEqual([child ?? 0]);
    expect(second.released).toBe(false);
  });
});

test("a medium that waits longer than it may is refused, and the others are not", async () => {
  const decoder = await open({ decoders: { children: 1, queueTimeoutMs: 100 } });
  const running = decoder.decode(LONG);
  const { child } = await busyChild(decoder);
  process.kill(child, "SIGSTOP");
  await expect(decoder.decode(SMALL)).rejects.toMatchObject({ code: "overloaded", status: 503, retryable: true });
  process.kill(child, "SIGCONT");
  (await running).dispose();
});

test("a medium whose decoder was gone before it began waits for the next one, no longer than it may", async () => {
  const decoder = await open({ decoders: { children: 1, queueTimeoutMs: 150 } });
  const [first = 0] = decoder.childPids;
  process.kill(first, "SIGSTOP");
  const job = decoder.decode(SMALL).catch((error) => error);
  await Bun.sleep(300); // longer than it may wait for a decoder, which it does not any more
  process.kill(first, "SIGKILL");
  await eventually("another decoder starts", () => decoder.childPids.some((pid) => pid !== first));
  const [next = 0] = decoder.childPids;
  process.kill(next, "SIGSTOP");
  expect(await job).toMatchObject({ code: "overloaded", status: 503, retryable: true });
  process.kill(next, "SIGCONT");
});

test("more waiting bytes than the queue takes are refused", async () => {
  const decoder = await open({ decoders: { children: 1, queueBytes: 1000 } });
  const running = decoder.decode(LONG);
  await busyChild(decoder);
  await expect(decoder.decode(SMALL)).rejects.toMatchObject({ code: "overloaded" });
  (await running).dispose();
});

describe("a child that was killed a moment ago", () => {
  test.each([
    ["small", 60, 50],
    ["larger than its inbox", 2500, 2300],
  ])("does not cost the next medium, which is %s", async (_, width, height) => {
    const png = await noisePng(width, height);
    const decoder = await open({ decoders: { children: 2 } });
    for (let i = 0; i < 3; i++) {
      for (const pid of decoder.childPids) process.kill(pid, "SIGKILL");
      const decoded = await Promise.all([decoder.decode(png), decoder.decode(png)]);
      for (const lease of decoded) lease.dispose();
    }
    expect(decoder.pool.occupancy.rooms).toBe(0);
  });
});

test("children that cannot be started for want of descriptors cost no process, no job twice and no memory", async () => {
  const script = `
    const { openSync, closeSync } = await import("node:fs");
    const { MediaDecoder } = await import(${JSON.stringify(join(PROJECT, "src/index.ts"))});
    const decoder = await MediaDecoder.open({ decoders: { children: 2 }, pool: { budgetBytes: 2 ** 27 } });
    const media = { path: ${JSON.stringify(mediaPath("rgb.png"))} };
    const taken = [];
    try { for (;;) taken.push(openSync("/dev/null")); } catch {}
    process.kill(decoder.childPids[0], "SIGKILL");
    await Bun.sleep(200);
    const bytes = await Promise.allSettled([decoder.decode(new Uint8Array(100)), decoder.decode(media)]);
    for (const fd of taken) closeSync(fd);
    for (const { value } of bytes) value?.dispose();
    const codes = bytes.map(({ reason }) => reason?.code ?? "decoded");
    let after = "";
    for (let i = 0; i < 50 && after !== "decoded"; i++) {
      await Bun.sleep(100);
      after = await decoder.decode(media).then((lease) => (lease.dispose(), "decoded"), (error) => error.code);
    }
    console.log(JSON.stringify({ codes, after, rooms: decoder.pool.occupancy.rooms, waiting: decoder.queueLength }));
    await decoder.dispose();`;
  const run = Bun.spawn(["sh", "-c", 'ulimit -n 120; exec "$0" -e "$1"', process.execPath, script], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = [await run.stdout.text(), await run.stderr.text()];
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toMatchObject({ after: "decoded", rooms: 0, waiting: 0 });
  expect(JSON.parse(stdout).codes[0]).toBe("media_unsupported");
});

test("a child gets none of the environment but what decoding needs", async () => {
  process.env.NIXL_MEDIA_TEST_SECRET = "do-not-pass-on";
  try {
    const decoder = await open();
    const environment = await Bun.file(`/proc/${decoder.childPids[0]}/environ`).text();
    expect(environment).not.toContain("do-not-pass-on");
  } finally {
    delete process.env.NIXL_MEDIA_TEST_SECRET;
  }
});
