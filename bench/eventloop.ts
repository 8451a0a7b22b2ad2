/**
 * How late the event loop of the loader's process is while all decoders work on large pictures: what a server's other requests
 * would feel.
 *
 *   npm run bench:eventloop -- [FILE] [--seconds S] [--children N]
 *
 * {"file","items_per_s","idle":{"p50_ms","p99_ms","max_ms"},"busy":{…}}: by how much timers of 1 ms are late, without and with
 * the load.
 */
import { availableParallelism } from "node:os";
import { MediaLoader } from "../src/index.ts";
import { benchArguments, countOption } from "./support/arguments.ts";
import { benchMedia } from "./support/media.ts";
import { report } from "./support/report.ts";
import { percentile, rounded } from "./support/statistics.ts";

const USAGE = "bench/eventloop.ts [FILE] [--seconds S] [--children N]";
const TIMER_MS = 1;

const { files, options } = benchArguments(USAGE, ["seconds", "children"], 1);
const seconds = countOption(USAGE, options.seconds, 10);
const children = countOption(USAGE, options.children, availableParallelism());
const file = files[0] ?? (await benchMedia()).get("12mp.jpg") ?? "";
const encoded = await Bun.file(file).bytes();

await using loader = await MediaLoader.create({ decoders: { children }, pool: { prefault: true } });
await Bun.sleep(500); // what start-up left behind
const idle = await latenesses(Math.min(seconds, 3) * 1000);

let items = 0;
let isOver = false;
const load = Array.from({ length: children * 2 }, async () => {
  while (!isOver) {
    using descriptor = await loader.load(encoded);
    descriptor.toWire();
    items += 1;
  }
});
const busy = await latenesses(seconds * 1000);
isOver = true;
await Promise.all(load);
report({ file, items_per_s: rounded(items / seconds), idle: summary(idle), busy: summary(busy) });

async function latenesses(milliseconds: number): Promise<number[]> {
  const late: number[] = [];
  const end = performance.now() + milliseconds;
  while (performance.now() < end) {
    const start = performance.now();
    await new Promise((resolve) => setTimeout(resolve, TIMER_MS));
    late.push(performance.now() - start - TIMER_MS);
  }
  return late;
}

function summary(late: readonly number[]): { p50_ms: number; p99_ms: number; max_ms: number } {
  const at = (share: number): number => rounded(Math.max(0, percentile(late, share)));
  return { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) };
}
