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
import { latenessesFor, latenessOf } from "./support/lateness.ts";
import { benchMedia } from "./support/media.ts";
import { report } from "./support/report.ts";
import { rounded } from "./support/statistics.ts";

const USAGE = "bench/eventloop.ts [FILE] [--seconds S] [--children N]";

const { files, options } = benchArguments(USAGE, ["seconds", "children"], 1);
const seconds = countOption(USAGE, options.seconds, 10);
const children = countOption(USAGE, options.children, availableParallelism());
const file = files[0] ?? (await benchMedia()).get("12mp.jpg") ?? "";
const encoded = await Bun.file(file).bytes();

await using loader = await MediaLoader.create({ decoders: { children }, pool: { prefault: true } });
await Bun.sleep(500); // what start-up left behind
const idle = await latenessesFor(Math.min(seconds, 3) * 1000);

let items = 0;
let isOver = false;
const load = Array.from({ length: children * 2 }, async () => {
  while (!isOver) {
    using descriptor = await loader.load(encoded);
    descriptor.toWire();
    items += 1;
  }
});
const busy = await latenessesFor(seconds * 1000);
isOver = true;
await Promise.all(load);
report({ file, items_per_s: rounded(items / seconds), idle: latenessOf(idle), busy: latenessOf(busy) });
