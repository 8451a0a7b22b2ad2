/**
 * Media a second with all decoders busy, the whole way from encoded bytes to descriptor JSON and back to free memory, and
 * processor time for each; beside it the reference, in turns.
 *
 *   npm run bench:throughput -- [FILE] [--seconds S] [--children N] [--rounds N] [--video JSON] [--peer BIN] [--stage all|hash]
 *
 * `--stage hash` lets the reference decode and hash only, without its agent, whose progress thread keeps one core busy.
 * Ours always goes the whole way. Prints {"ours_items_per_s","reference_items_per_s","ratio","ours_cpu_ms_per_item",…}.
 */
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { MediaLoader } from "../src/index.ts";
import { benchArguments, countOption, fail } from "./support/arguments.ts";
import { benchMedia } from "./support/media.ts";
import { cpuMs } from "./support/processes.ts";
import { runReference } from "./support/reference.ts";
import { report } from "./support/report.ts";
import { median, rounded } from "./support/statistics.ts";

const USAGE =
  "bench/throughput.ts [FILE] [--seconds S] [--children N] [--rounds N] [--video JSON] [--peer BIN] [--stage all|hash]";
/** So many media for each child, so that none waits for the event loop. */
const IN_FLIGHT = 2;

interface Rate {
  readonly itemsPerSecond: number;
  readonly cpuMsPerItem: number;
}

const { files, options } = benchArguments(USAGE, ["seconds", "children", "rounds", "video", "peer", "stage"], 1);
const stage = options.stage ?? "all";
if (stage !== "all" && stage !== "hash") fail(USAGE);
const children = countOption(USAGE, options.children, availableParallelism());
const rounds = countOption(USAGE, options.rounds, 3);
const seconds = countOption(USAGE, options.seconds, 12);
const file = files[0] ?? (await benchMedia()).get("fhd.jpg") ?? "";
const video = options.video === undefined ? {} : JSON.parse(options.video);
const encoded = await Bun.file(file).bytes();

await using loader = await MediaLoader.create({
  video,
  hashVideo: true,
  decoders: { children },
  pool: { prefault: true },
});
await ours(1000); // code is compiled, libraries are loaded

const rates: Rate[] = [];
const reference: Rate[] = [];
for (let round = 0; round < rounds; round += 1) {
  rates.push(await ours((seconds * 1000) / rounds));
  if (options.peer !== undefined) reference.push(await theirs(options.peer, Math.ceil(seconds / rounds)));
}
const items = rounded(median(rates.map((rate) => rate.itemsPerSecond)));
const cpu = rounded(median(rates.map((rate) => rate.cpuMsPerItem)));
const result = { file, children, ours_items_per_s: items, ours_cpu_ms_per_item: cpu };
if (options.peer === undefined) report(result);
else {
  const referenceItems = rounded(median(reference.map((rate) => rate.itemsPerSecond)));
  const referenceCpu = rounded(median(reference.map((rate) => rate.cpuMsPerItem)));
  report({
    ...result,
    reference_stage: stage,
    reference_items_per_s: referenceItems,
    reference_cpu_ms_per_item: referenceCpu,
    ratio: rounded(items / referenceItems),
    cpu_ratio: rounded(cpu / referenceCpu),
  });
}

async function ours(milliseconds: number): Promise<Rate> {
  const start = performance.now();
  const before = processorTime();
  let done = 0;
  const worker = async (): Promise<void> => {
    while (performance.now() - start < milliseconds) {
      using descriptor = await loader.load(encoded);
      descriptor.toWire();
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: children * IN_FLIGHT }, worker));
  const elapsed = performance.now() - start;
  return { itemsPerSecond: (done / elapsed) * 1000, cpuMsPerItem: (processorTime() - before) / done };
}

function processorTime(): number {
  return [process.pid, ...loader.childPids].reduce((sum, pid) => sum + cpuMs(pid), 0);
}

async function theirs(peer: string, wholeSeconds: number): Promise<Rate> {
  const videoArguments = options.video === undefined ? [] : ["--video", options.video];
  const threads = ["--threads", String(children), "--seconds", String(wholeSeconds)];
  const [line] = await runReference(peer, [
    ...["throughput", resolve(file), ...threads, "--stage", stage],
    ...videoArguments,
  ]);
  return { itemsPerSecond: Number(line?.items_per_s), cpuMsPerItem: Number(line?.cpu_ms_per_item) };
}
