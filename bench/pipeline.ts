/**
 * One medium at a time, from encoded bytes to descriptor JSON and back to free memory, stage by stage; beside it the
 * reference, in turns, so that both meet the same moods of the machine.
 *
 *   npm run bench:pipeline -- FILE… [--video JSON] [--iters N] [--rounds N] [--peer BIN] [--opencv PYTHON]
 *
 * For each file {"file","ours":{"decode_ms","hash_ms","register_ms","total_ms"},"reference":{…},"ratio"}: medians over all
 * iterations of ours, over the rounds' medians of the reference; ratio = ours / reference of the totals. Both totals hold
 * everything from the encoded medium to the JSON text and the release of the tensor. Files above 16 MiB are given as
 * files, others as bytes. With --opencv, a Python that has cv2 takes as many frames of each clip by seeking.
 */
import { join, resolve } from "node:path";
import type { MediaSource } from "../src/index.ts";
import { MediaDecoder } from "../src/loader/index.ts";
import { describeRoom, NixlAgent } from "../src/nixl/index.ts";
import { benchArguments, countOption, fail } from "./support/arguments.ts";
import { type ReferenceStages, referenceStages } from "./support/reference.ts";
import { report } from "./support/report.ts";
import { median, rounded } from "./support/statistics.ts";

const USAGE = "bench/pipeline.ts FILE… [--video JSON] [--iters N] [--rounds N] [--peer BIN] [--opencv PYTHON]";
const STAGES = ["decode_ms", "hash_ms", "register_ms", "total_ms"] as const;
type Stages = Record<(typeof STAGES)[number], number>;

const { files, options } = benchArguments(
  USAGE,
  ["video", "iters", "rounds", "peer", "opencv"],
  Number.POSITIVE_INFINITY,
);
if (files.length === 0) fail(USAGE);
const iterations = countOption(USAGE, options.iters, 20);
const rounds = countOption(USAGE, options.rounds, 4);
const video = options.video === undefined ? {} : JSON.parse(options.video);

/** What is compiled and opened at the first media is no part of the figures. */
const WARM_UP_MS = 1000;
const LARGE_BYTES = 16 * 1024 * 1024;

// Disposed of in the reverse order: the slabs are deregistered before their agent ends.
using agent = new NixlAgent();
await using decoder = await MediaDecoder.open({ video, hashVideo: true, pool: { prefault: true } });
decoder.pool.register(agent);

for (const file of files) {
  const medium = await mediumOf(file);
  const ours: Stages[] = [];
  const reference: ReferenceStages[] = [];
  const opencv: number[] = [];
  const each = Math.ceil(iterations / rounds);
  const warm = performance.now() + WARM_UP_MS;
  do await stagesOf(medium);
  while (performance.now() < warm);
  for (let round = 0; round < rounds; round += 1) {
    if (options.peer !== undefined) reference.push(await referenceRound(file, options.peer, Math.max(2, each)));
    if (options.opencv !== undefined) opencv.push(await opencvRound(file, options.opencv, each));
    for (let i = 0; i < each; i += 1) ours.push(await stagesOf(medium));
  }
  const result = { file, ours: medians(ours), ...(opencv.length > 0 ? { opencv_ms: rounded(median(opencv)) } : {}) };
  if (options.peer === undefined) report(result);
  else {
    const theirs = referenceMedians(reference);
    report({ ...result, reference: theirs, ratio: rounded(result.ours.total_ms / theirs.total_ms) });
  }
}

/** As a server would hold it: what is large stays a file. */
async function mediumOf(file: string): Promise<MediaSource> {
  return Bun.file(file).size > LARGE_BYTES ? { path: resolve(file) } : await Bun.file(file).bytes();
}

/** The calls that `load()` makes, with a clock between them. */
async function stagesOf(medium: MediaSource): Promise<Stages> {
  const start = performance.now();
  const { room, tensor, timings } = await decoder.decodeToRoom(medium);
  const decoded = performance.now();
  const descriptor = describeRoom(decoder.pool, room, tensor, tensor.contentHash);
  descriptor.toWire();
  const registered = performance.now();
  descriptor.dispose();
  return {
    decode_ms: timings.decodeMs,
    hash_ms: timings.hashMs,
    register_ms: registered - decoded,
    total_ms: performance.now() - start,
  };
}

function medians(runs: readonly Stages[]): Stages {
  const of = (stage: keyof Stages): number => rounded(median(runs.map((run) => run[stage])));
  return {
    decode_ms: of("decode_ms"),
    hash_ms: of("hash_ms"),
    register_ms: of("register_ms"),
    total_ms: of("total_ms"),
  };
}

function referenceRound(file: string, peer: string, each: number): Promise<ReferenceStages> {
  const videoArguments = options.video === undefined ? [] : ["--video", options.video];
  return referenceStages(peer, [resolve(file), "--iters", String(each), ...videoArguments]);
}

async function opencvRound(file: string, python: string, each: number): Promise<number> {
  const script = join(import.meta.dir, "support/opencv_seek.py");
  const args = [resolve(file), String(video.num_frames ?? 8), String(each)];
  const run = Bun.spawn([python, script, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const text = await run.stdout.text();
  if ((await run.exited) !== 0) throw new Error(`${python} cannot take frames with OpenCV`);
  return Number(JSON.parse(text).median_ms);
}

function referenceMedians(runs: readonly ReferenceStages[]): Stages {
  const of = (...names: string[]): number =>
    rounded(median(runs.map((run) => names.reduce((sum, name) => sum + (run.get(name) ?? Number.NaN), 0))));
  return {
    decode_ms: of("decode"),
    hash_ms: of("hash"),
    register_ms: of("register+descriptor", "json"),
    total_ms: of("total"),
  };
}
