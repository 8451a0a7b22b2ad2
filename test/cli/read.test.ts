import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { MediaDescriptor } from "../../src/index.ts";
import { linesOf, PROJECT, runCli, startCli } from "../support/cli.ts";
import { mediaPath } from "../support/media.ts";

const folder = mkdtempSync(join(tmpdir(), "read-"));
const FILES = ["odd.jpg", "rgba.png", "gray_alpha.png", "h264.mp4"];
let holder: ReturnType<typeof startCli>;
let lines: string[];

beforeAll(async () => {
  holder = startCli(["describe", ...FILES.map(mediaPath), "--video", '{"num_frames":5}']);
  lines = await Array.fromAsync(linesOf(holder.stdout));
});

afterAll(async () => {
  await holder.stdin.end();
  await holder.exited;
  rmSync(folder, { recursive: true });
});

/** JSON lines of `read`'s stdout. */
function results(stdout: string): Record<string, unknown>[] {
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

test("prints shape, dtype, whether it is verified, and the speed, for each medium in order", async () => {
  const run = await runCli(["read"], { stdin: lines.join("\n") });
  expect(run).toMatchObject({ code: 0, stderr: "" });
  const printed = results(run.stdout);
  expect(printed.map(({ shape, dtype, verified }) => ({ shape, dtype, verified }))).toEqual([
    { shape: [333, 501, 3], dtype: "UINT8", verified: true },
    { shape: [43, 61, 4], dtype: "UINT8", verified: true },
    { shape: [43, 61, 2], dtype: "UINT8", verified: true },
    { shape: [5, 120, 160, 3], dtype: "UINT8", verified: null },
  ]);
  for (const { gb_per_s } of printed) expect(gb_per_s).toBeGreaterThan(0);
});

test("writes pictures that have the same pixels, and a contact sheet for a clip", async () => {
  const run = await runCli(["read", "--out", join(folder, "out.png")], { stdin: lines.join("\n") });
  expect(results(run.stdout).map(({ out }) => out)).toEqual(
    ["out.png", "out-2.png", "out-3.png", "out-4.png"].map((name) => join(folder, name)),
  );
  const pixels = (path: string) => sharp(path).raw().toBuffer();
  expect(Buffer.compare(await pixels(join(folder, "out.png")), await pixels(mediaPath("odd.jpg")))).toBe(0);
  expect(Buffer.compare(await pixels(join(folder, "out-2.png")), await pixels(mediaPath("rgba.png")))).toBe(0);
  const sheet = await sharp(join(folder, "out-4.png")).metadata();
  expect([sheet.width, sheet.height]).toEqual([3 * 160, 2 * 120]);
});

test("writes the raw tensor to any other name", async () => {
  const path = join(folder, "tensor.raw");
  await runCli(["read", "--out", path], { stdin: String(lines[1]) });
  const raw = await Bun.file(path).bytes();
  const expected = await sharp(mediaPath("rgba.png")).raw().toBuffer();
  expect(Buffer.compare(raw, expected)).toBe(0);
});

test("says when a medium is not what its hash claims, with exit code 1", async () => {
  const forged = String(lines[0]).replace(/"content_hash":"[0-9a-f]{16}"/, '"content_hash":"0123456789abcdef"');
  const run = await runCli(["read"], { stdin: forged });
  expect(run.code).toBe(1);
  expect(results(run.stdout)).toMatchObject([{ verified: false }]);
});

describe("bad lines", () => {
  test("are a line with the code on stderr each, and the others are read", async () => {
    const run = await runCli(["read"], { stdin: `nonsense\n\n{"a":1}\n${lines[1]}\n` });
    expect(run.code).toBe(1);
    expect(results(run.stdout)).toMatchObject([{ shape: [43, 61, 4], verified: true }]);
    const complaints = run.stderr.trim().split("\n");
    expect(complaints).toHaveLength(2);
    for (const complaint of complaints) expect(complaint).toContain("[descriptor_invalid]");
  });

  test("do not bring the metadata text, which is a secret, into the messages", async () => {
    const broken = String(lines[0]).replace('"Dram"', '"Drum"');
    const run = await runCli(["read"], { stdin: broken });
    expect(run).toMatchObject({ code: 1, stdout: "" });
    expect(run.stderr).not.toContain(MediaDescriptor.parse(lines[0]).nixlMetadata.slice(0, 40));
  });

  test("that never end are not kept in memory", async () => {
    const run = await runCli(["read"], { stdin: `${"x".repeat(40_000_000)}\n${lines[1]}\n` });
    expect(run.code).toBe(1);
    expect(results(run.stdout)).toHaveLength(1);
  });
});

test("no input is no work", async () => {
  expect(await runCli(["read"])).toMatchObject({ code: 0, stdout: "", stderr: "" });
});

test("an output file that cannot be written is a coded error", async () => {
  const run = await runCli(["read", "--out", join(mediaPath("rgba.png"), "out.png")], { stdin: String(lines[1]) });
  expect(run).toMatchObject({ code: 1, stdout: "" });
  expect(run.stderr).toContain("[output_unwritable]");
});

test("stops when nobody reads its output any more, though descriptors go on coming", async () => {
  const process = startCli(["read"]);
  process.stdin.write(`${lines[1]}\n`);
  await process.stdin.flush();
  const output = linesOf(process.stdout);
  expect((await output.next()).value).toContain('"verified":true');
  await output.return(undefined);
  await process.stdout.cancel().catch(() => {}); // closed by the generator already
  const feeding = setInterval(() => {
    process.stdin.write(`${lines[1]}\n`);
    Promise.resolve(process.stdin.flush()).catch(() => {}); // it has ended
  }, 20);
  try {
    expect(await process.exited).toBe(0); // stdin is open
    expect(await process.stderr.text()).toBe("");
  } finally {
    clearInterval(feeding);
    process.kill("SIGKILL");
  }
});

test.each(["stdout", "stdin"])("%s that fails is one line on stderr with a code, exit code 2", async (stream) => {
  const full = openSync("/dev/full", "w");
  const directory = openSync(folder, "r");
  const input = new Response(`${lines[1]}\n`);
  const process = Bun.spawn([globalThis.process.execPath, "src/cli/main.ts", "read"], {
    cwd: PROJECT,
    stdin: stream === "stdin" ? directory : input,
    stdout: stream === "stdout" ? full : "pipe",
    stderr: "pipe",
  });
  for (const fd of [full, directory]) closeSync(fd);
  expect(await process.exited).toBe(2);
  const complaint = await process.stderr.text();
  expect(complaint.trim().split("\n")).toHaveLength(1);
  expect(complaint).toContain(stream === "stdout" ? "[output_unwritable]" : "[file_unreadable]");
});

test("takes lines of every length through its pipe, whole", async () => {
  const [photo = ""] = lines;
  // Sizes at which pipes of other programs have lost or stalled data, 64 MiB in all; keys that are not known are ignored.
  const sizes = [16_384, 65_536, 65_537, ...Array.from({ length: 5 }, () => 13 * 2 ** 20)];
  const padded = sizes.map((size) => `${photo.slice(0, -1)},"padding":"${"x".repeat(size - photo.length - 13)}"}`);
  expect(padded.map((line) => line.length)).toEqual(sizes);
  const run = await runCli(["read"], { stdin: padded.join("\n") });
  expect(run).toMatchObject({ code: 0, stderr: "" });
  expect(results(run.stdout).map(({ verified }) => verified)).toEqual(sizes.map(() => true));
}, 60_000);
