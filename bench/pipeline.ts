/**
 * One medium at a time, from encoded bytes to descriptor JSON and back to free memory, stage by stage; beside it the
 * reference, in turns, so that both meet the same moods of the machine.
 *
 *   npm run bench:pipeline -- FILE… [--video JSON] [--iters N] [--rounds N] [--peer BIN]
 *
 * For each file {"file","ours":{"decode_ms","hash_ms","register_ms","total_ms"},"reference":{…},"ratio"}: medians over all
 * iterations of ours, over the rounds' medians of the reference; ratio = ours / reference of the totals. Both totals hold
 * everything from the encoded bytes in memory to the JSON text and the release of the tensor.
 */
import { resolve } from "node:path";
import { MediaDecoder } from "../src/loader/index.ts";
import { describeRoom, NixlAgent } from "../src/nixl/index.ts";
import { benchArguments, countOption, fail } from "./support/arguments.ts";
import { type ReferenceStages, referenceStages } from "./support/reference.ts";
import { report } from "./support/report.ts";
import { median, rounded } from "./support/statistics.ts";

const USAGE = "bench/pipeline.ts FILE… [--video JSON] [--iters N] [--rounds N] [--peer BIN]";
const STAGES = ["decode_ms", "hash_ms", "register_ms", "total_ms"] as const;
type Stages = Record<(typeof STAGES)[number], number>;

const { files, options } = benchArguments(USAGE, ["video", "iters", "rounds", "peer"], Number.POSITIVE_INFINITY);
if (files.length === 0) fail(USAGE);
const iterations = countOption(USAGE, options.iters, 20);
const rounds = countOption(USAGE, options.rounds, 4);
const video = options.video === undefined ? {} : JSON.parse(options.video);

/** What is compiled and opened at the first media is no part of the figures. */
const WARM_UP_MS = 1000;

// Disposed of in the reverse order: the slabs are deregistered before their agent ends.
using agent = new NixlAgent();
await using decoder = await MediaDecoder.open({ video, hashVideo: true, pool: { prefault: true } });
decoder.pool.register(agent);

for (const file of files) {
  const encoded = await Bun.file(file).bytes();
  const ours: Stages[] = [];
  const reference: ReferenceStages[] = [];
  const warm = performance.now() + WARM_UP_MS;
  do await stagesOf(encoded);
  while (performance.now() < warm);
  for (let round = 0; round < rounds; round += 1) {
    if (options.peer !== undefined) reference.push(await referenceRound(file, options.peer));
    for (let i = 0; i < Math.ceil(iterations / rounds); i += 1) ours.push(await stagesOf(encoded));
  }
  const result = { file, ours: medians(ours) };
  if (options.peer === undefined) report(result);
  else {
    const theirs = referenceMedians(reference);
    report({ ...result, reference: theirs, ratio: rounded(result.ours.total_ms / theirs.total_ms) });
  }
}

/** The calls that `load()` makes, with a clock between them. */
async function stagesOf(encoded: Uint8Array): Promise<Stages> {
  const start = performance.now();
  const { room, tensor, timings } = await decoder.decodeToRoom(encoded);
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

function referenceRound(file: string, peer: string): Promise<ReferenceStages> {
  const videoArguments = options.video === undefined ? [] : ["--video", options.video];
  const each = String(Math.max(3, Math.ceil(iterations / rounds)));
  return referenceStages(peer, [resolve(file), "--iters", each, ...videoArguments]);
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
