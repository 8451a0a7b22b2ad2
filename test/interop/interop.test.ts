/**
 * The other end of the wire as it is in production: Dynamo's own client, unmodified, over NIXL's Python binding, reads
 * in processes of its own what `nixl-media describe` holds. What it reads is compared with Pillow's pixels, and for
 * clips with values recorded from the reference implementation.
 *
 * Needs Python 3.11 with pip; scripts/interop.sh prepares the rest in the project folder. INTEROP_TORCH=real puts torch
 * itself in the place of the numpy stand-in.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { z } from "zod";
import {
  ENVIRONMENT,
  PREPARE_TIMEOUT_MS,
  parseLines,
  prepareEnvironment,
  READER,
  REAL_TORCH,
  type Read,
  readLines,
  shapeSchema,
} from "./dynamo.ts";
import { killStarted, output, run, sessionProcesses, start } from "./processes.ts";

const IMAGES = [
  ["odd.jpg", "a JPEG"],
  ["jpg_gray.jpg", "a grey JPEG"],
  ["rgb.png", "an RGB PNG"],
  ["rgba.png", "an RGBA PNG"],
  ["gray.png", "a grey PNG"],
  ["lossy.webp", "a lossy WebP"],
  ["lossless.webp", "a lossless WebP"],
  ["lossless_alpha.webp", "a WebP with alpha"],
  ["large.png", "a PNG of 18 MB decoded"],
] as const;
const CLIPS = [
  ["h264.mp4", "an H.264 clip"],
  ["vp9.mp4", "a VP9 clip"],
] as const;
const NAMES: readonly string[] = [...IMAGES, ...CLIPS].map(([name]) => name);

const PROJECT = join(import.meta.dir, "../..");
/** Between processes of one machine UCX copies through shared memory; kept to TCP, a read goes as between machines. */
const TCP_READER = ["env", "UCX_TLS=tcp", ...READER];
const PILLOW = [...ENVIRONMENT, "python", join(import.meta.dir, "pillow_pixels.py")];
const TEST_TIMEOUT_MS = 120_000;

const descriptorSchema = z.looseObject({ shape: shapeSchema, metadata: z.unknown(), content_hash: z.string() });
const pillowSchema = z.strictObject({
  mode: z.string(),
  shape: shapeSchema,
  sha256: z.string(),
  sha256_colours: z.string(),
  content_hash: z.string(),
});
const recordedSchema = z.object({
  reference: z.object({
    num_frames_4: z.object({ shape: shapeSchema, metadata: z.unknown(), content_hash: z.string() }),
  }),
});

const temporary = mkdtempSync(join(tmpdir(), "nixl-media-interop-"));
const summary: string[] = [];
/** The process under test: `nixl-media describe`, which holds the memory. */
let holder: ReturnType<typeof start>;
/** What the holder printed, by the name of the medium. */
let descriptors: Map<string, string>;
/** Everything read one after the other by one reader. */
let reads: Map<string, Read>;
let pillow: Map<string, z.infer<typeof pillowSchema>>;

/** The value under `name`, which a failed preparation may have left out. */
function of<T>(values: ReadonlyMap<string, T>, name: string): T {
  const value = values.get(name);
  if (value === undefined) throw new Error(`nothing for ${name}`);
  return value;
}

function descriptorLines(names: readonly string[]): string {
  return names.map((name) => `${of(descriptors, name)}\n`).join("");
}

/** Reads the named media with Dynamo's client in a fresh process, started by the command `reader`. */
function readWithDynamo(reader: readonly string[], names: readonly string[]): Promise<Read[]> {
  return readLines(reader, descriptorLines(names));
}

/** What a reader of all media must have got. */
function allReads(): Read[] {
  return NAMES.map((name) => of(reads, name));
}

function mediaPath(name: string): string {
  return name === "large.png" ? join(temporary, name) : join(PROJECT, "test/media", name);
}

/** A picture large enough that reading it takes many round trips, with no two rows alike. */
async function writeLargePicture(path: string): Promise<void> {
  const width = 3000;
  const height = 2000;
  const pixels = new Uint8Array(width * height * 3);
  for (let index = 0; index < pixels.length; index++) pixels[index] = (index * 31 + (index >> 11)) & 0xff;
  await sharp(pixels, { raw: { width, height, channels: 3 } })
    .png({ compressionLevel: 1 })
    .toFile(path);
}

beforeAll(prepareEnvironment, PREPARE_TIMEOUT_MS);

beforeAll(async () => {
  await writeLargePicture(mediaPath("large.png"));

  const cli = [process.execPath, join(PROJECT, "src/cli/main.ts")];
  holder = start([...cli, "describe", ...NAMES.map(mediaPath), "--video", '{"num_frames":4}', "--hash-video"]);
  const stderr = holder.stderr.text();
  const lines = (await holder.stdout.text()).split("\n").filter((line) => line !== "");
  if (lines.length !== NAMES.length) {
    holder.stdin.end();
    throw new Error(`describe printed ${lines.length} descriptors of ${NAMES.length}: ${await stderr}`);
  }
  descriptors = new Map(NAMES.map((name, index) => [name, lines[index] ?? ""]));

  const images = IMAGES.map(([name]) => name);
  const pictures = parseLines(pillowSchema, await output([...PILLOW, ...images.map(mediaPath)]));
  pillow = new Map(pictures.map((picture, index) => [images[index] ?? "", picture]));
  reads = new Map((await readWithDynamo(READER, NAMES)).map((read) => [NAMES[read.index] ?? "", read]));
}, TEST_TIMEOUT_MS);

afterAll(() => {
  killStarted();
  rmSync(temporary, { recursive: true, force: true });
  console.log(`\nInterop, as compared:\n${summary.map((line) => `  ${line}`).join("\n")}`);
});

test(
  `the reader is Dynamo's client over ${REAL_TORCH ? "real torch" : "the numpy stand-in for torch"}`,
  async () => {
    const versions = z.record(z.string(), z.string()).parse(JSON.parse(await output([...READER, "--versions"])));
    expect(versions.torch === "numpy stand-in").toBe(!REAL_TORCH);
    const names = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
    summary.push(`reader: ${names.join(", ")}`);
  },
  TEST_TIMEOUT_MS,
);

test.each(IMAGES)("%s (%s) is read with exactly Pillow's pixels", (name) => {
  const read = of(reads, name);
  const picture = of(pillow, name);
  const descriptor = descriptorSchema.parse(JSON.parse(of(descriptors, name)));
  const channels = picture.shape.at(-1) ?? 0;
  // Dynamo's client drops a fourth channel. That the held alpha is Pillow's too shows in the hash of all four channels.
  expect(read.shape).toEqual([...picture.shape.slice(0, 2), Math.min(channels, 3)]);
  expect(read.dtype).toBe("uint8");
  expect(read.sha256).toBe(picture.sha256_colours);
  expect(descriptor.shape).toEqual(picture.shape);
  expect(descriptor.content_hash).toBe(picture.content_hash);
  expect(read.content_hash).toBe(channels === 4 ? null : picture.content_hash);
  expect(read.metadata).toEqual(descriptor.metadata);
  const bytes = channels === 4 ? "colours equal Pillow's, hash equals that of Pillow's RGBA" : "bytes equal Pillow's";
  summary.push(`${name}: [${picture.shape}] ${picture.mode}, ${bytes} (sha256 ${read.sha256.slice(0, 16)}…)`);
});

test.each(CLIPS)("%s (%s) is read with the reference's shape, metadata and content hash", (name) => {
  const read = of(reads, name);
  const vectors = JSON.parse(readFileSync(join(PROJECT, "test/vectors/media.json"), "utf8"));
  const recorded = recordedSchema.parse(vectors[name]).reference.num_frames_4;
  const descriptor = descriptorSchema.parse(JSON.parse(of(descriptors, name)));
  expect(read.shape).toEqual(recorded.shape);
  expect(read.dtype).toBe("uint8");
  expect(read.metadata).toEqual(recorded.metadata);
  expect(descriptor.content_hash).toBe(recorded.content_hash);
  // Computed by the reader over the bytes that came through NIXL.
  expect(read.content_hash).toBe(recorded.content_hash);
  summary.push(
    `${name}: [${recorded.shape}], metadata, and hash over the bytes read equal the reference's (${read.content_hash})`,
  );
});

test(
  "a picture that was scaled down is read, with what its metadata say of the source",
  async () => {
    const command = [process.execPath, join(PROJECT, "src/cli/main.ts"), "describe", "--image", '{"max_pixels":1000}'];
    const scaling = start([...command, mediaPath("odd.jpg")]);
    try {
      const line = await scaling.stdout.text();
      const descriptor = descriptorSchema.parse(JSON.parse(line));
      expect(descriptor.metadata).toMatchObject({ Image: { source_width: 501, source_height: 333 } });
      expect(await readLines(READER, line)).toMatchObject([
        { shape: [25, 38, 3], metadata: descriptor.metadata, content_hash: descriptor.content_hash },
      ]);
    } finally {
      scaling.stdin.end();
      await scaling.exited;
    }
    summary.push("odd.jpg scaled to 25x38: keys of metadata that the client does not know are let through");
  },
  TEST_TIMEOUT_MS,
);

test(
  "all media read at once give the bytes that they give one after the other",
  async () => {
    const atOnce = await readWithDynamo([...READER, "--concurrent", "--repeat", "3"], NAMES);
    expect(atOnce).toEqual([...allReads(), ...allReads(), ...allReads()]);
    summary.push(`${NAMES.length} media read at once, 3 rounds: same bytes`);
  },
  TEST_TIMEOUT_MS,
);

test(
  "reads over TCP, as from another machine, give the bytes that shared memory gives",
  async () => {
    expect(await readWithDynamo(TCP_READER, NAMES)).toEqual(allReads());
    expect(await readWithDynamo([...TCP_READER, "--concurrent"], NAMES)).toEqual(allReads());
    summary.push(`${NAMES.length} media read over TCP, one after the other and at once: same bytes`);
  },
  TEST_TIMEOUT_MS,
);

test(
  "one descriptor can be read 20 times in a row",
  async () => {
    const again = await readWithDynamo([...READER, "--repeat", "20"], ["odd.jpg"]);
    expect(again).toEqual(Array.from({ length: 20 }, () => of(reads, "odd.jpg")));
    summary.push("20 reads of one descriptor in a row: same bytes");
  },
  TEST_TIMEOUT_MS,
);

test(
  "three reader processes at the same time all get the same bytes",
  async () => {
    const readers = [READER, READER, TCP_READER].map((reader) => readWithDynamo([...reader, "--concurrent"], NAMES));
    expect(await Promise.all(readers)).toEqual([allReads(), allReads(), allReads()]);
    summary.push("3 reader processes at the same time: same bytes");
  },
  TEST_TIMEOUT_MS,
);

test(
  "readers killed while a transfer over TCP is under way do not disturb the holder or the next reader",
  async () => {
    const input = descriptorLines(["large.png", "large.png", "large.png"]);
    for (let round = 0; round < 3; round++) {
      const killed = await run([...TCP_READER, "--die-in-flight", "--repeat", "1000"], input);
      expect({ signal: killed.signal, stdout: killed.stdout }).toEqual({ signal: "SIGKILL", stdout: "" });
    }
    expect(holder.exitCode).toBeNull();
    expect(await readWithDynamo(TCP_READER, NAMES)).toEqual(allReads());
    summary.push("3 readers killed by SIGKILL with transfers over TCP in flight: the next reader gets the same bytes");
  },
  TEST_TIMEOUT_MS,
);

test(
  "readers killed amid reads through shared memory do not disturb the holder or the next reader",
  async () => {
    const killed = [1, 2, 3].map(async () => {
      const reader = start([...READER, "--repeat", "1000000"]);
      reader.stdin.write(descriptorLines(["large.png"]));
      reader.stdin.end();
      // Where in its loop it is struck is left to chance: the copy is made while a read is posted, inside UCX.
      for await (const _firstResults of reader.stdout) break;
      reader.kill("SIGKILL");
      await reader.exited;
      return reader.signalCode;
    });
    expect(await Promise.all(killed)).toEqual(["SIGKILL", "SIGKILL", "SIGKILL"]);
    expect(holder.exitCode).toBeNull();
    expect(await readWithDynamo(READER, NAMES)).toEqual(allReads());
    summary.push("3 readers killed by SIGKILL amid reads through shared memory: the next reader gets the same bytes");
  },
  TEST_TIMEOUT_MS,
);

test(
  "closing stdin of describe after all that ends it with code 0 and leaves no process behind",
  async () => {
    expect(sessionProcesses(holder.pid)).toContain(holder.pid);
    holder.stdin.end();
    expect(await holder.exited).toBe(0);
    expect(sessionProcesses(holder.pid)).toEqual([]);
    summary.push("stdin closed: describe ended with code 0, no process left");
  },
  TEST_TIMEOUT_MS,
);
