/**
 * Memory of the loader's process and its decoders: the peak that one medium of a kind takes in its decoder, and whether it stays
 * level over many media of mixed sizes.
 *
 *   npm run bench:memory -- [--media N] [--children N]
 *
 * First {"file","peak_bytes"} for each kind: by how much the decoder's resident memory rose at most, the tensor included. Then
 * every tenth of the media {"media","parent_bytes","children_bytes","total_bytes"}, with shared pages counted once; last
 * {"level_from","level_bytes","highest_bytes","lowest_bytes","deviation"}: the mean after the first tenth, and by which share of it
 * memory was ever above or below it since. A tenth should be a thousand media: fewer do not hold each kind often enough.
 */
import { writeFileSync } from "node:fs";
import { MediaLoader } from "../src/index.ts";
import { benchArguments, countOption } from "./support/arguments.ts";
import { benchMedia } from "./support/media.ts";
import { peakMemory, proportionalMemory } from "./support/processes.ts";
import { report } from "./support/report.ts";
import { rounded } from "./support/statistics.ts";

const USAGE = "bench/memory.ts [--media N] [--children N]";
/** proc(5), clear_refs: the mark of the highest resident memory is set anew. */
const RESET_PEAK = "5";
/** Of a hundred media so many are of each kind: small ones come more often, as they do in life. */
const SHARES: readonly (readonly [name: string, ofHundred: number])[] = [
  ["small.jpg", 60],
  ["vga.jpg", 25],
  ["fhd.jpg", 8],
  ["fhd.png", 2],
  ["screen.png", 2],
  ["fhd.webp", 1],
  ["12mp.jpg", 1],
  ["h264_720p.mp4", 1],
];

const { options } = benchArguments(USAGE, ["media", "children"], 0);
const count = countOption(USAGE, options.media, 10_000);
const children = countOption(USAGE, options.children, 2);
const paths = await benchMedia();
const media = SHARES.flatMap(([name, share]) => {
  const path = paths.get(name);
  return path === undefined ? [] : [{ name, share, path }];
});

await peaks();
await levels();

async function peaks(): Promise<void> {
  for (const { name, path } of media) {
    await using loader = await MediaLoader.create({ video: { num_frames: 8 }, decoders: { children: 1 } });
    const [pid = 0] = loader.childPids;
    const before = proportionalMemory(pid);
    writeFileSync(`/proc/${pid}/clear_refs`, RESET_PEAK);
    (await loader.load({ path })).dispose();
    report({ file: name, peak_bytes: peakMemory(pid) - before });
  }
}

async function levels(): Promise<void> {
  await using loader = await MediaLoader.create({ video: { num_frames: 8 }, decoders: { children } });
  // Each kind is spread evenly over every hundred.
  const order = media
    .flatMap(({ path, share }) => Array.from({ length: share }, (_, index) => ({ path, at: (index + 0.5) / share })))
    .sort((one, other) => one.at - other.at);
  const tenth = Math.ceil(count / 10);
  const totals: number[] = [];
  let next = 0;
  const worker = async (end: number): Promise<void> => {
    while (next < end) {
      const path = order[next++ % order.length]?.path ?? "";
      using descriptor = await loader.load({ path });
      descriptor.toWire();
    }
  };
  while (next < count) {
    const end = Math.min(count, next + tenth);
    await Promise.all(Array.from({ length: children + 1 }, () => worker(end)));
    const parent_bytes = proportionalMemory(process.pid);
    const children_bytes = loader.childPids.reduce((sum, pid) => sum + proportionalMemory(pid), 0);
    totals.push(parent_bytes + children_bytes);
    report({ media: next, parent_bytes, children_bytes, total_bytes: parent_bytes + children_bytes });
  }
  const level = totals.slice(1);
  const level_bytes = Math.round(level.reduce((sum, total) => sum + total, 0) / level.length);
  const [highest_bytes, lowest_bytes] = [Math.max(...level), Math.min(...level)];
  const deviation = rounded(Math.max(highest_bytes - level_bytes, level_bytes - lowest_bytes) / level_bytes);
  report({ level_from: tenth, level_bytes, highest_bytes, lowest_bytes, deviation });
}
