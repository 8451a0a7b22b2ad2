/**
 * All benchmarks that need no reference, on media that are made for it as JSON lines or tables, each with the name of its benchmark.
 *
 *   npm run bench        (some three minutes)
 */
import { join } from "node:path";
import { benchArguments } from "./support/arguments.ts";
import { benchMedia } from "./support/media.ts";
import { report } from "./support/report.ts";

benchArguments("bench/all.ts", [], 0);
const media = await benchMedia();
const clips = [...media].filter(([name]) => name.endsWith(".mp4")).map(([, path]) => path);
const images = [...media].filter(([name]) => !name.endsWith(".mp4")).map(([, path]) => path);
const PROGRAMS: readonly (readonly [name: string, ...args: string[]])[] = [
  ["pipeline", ...images],
  ["pipeline", ...clips, "--video", '{"num_frames":8}', "--iters", "8"],
  ["throughput"],
  ["live"],
  ["eventloop"],
  ["intake"],
  ["idle"],
  ["memory"],
];

for (const [name, ...args] of PROGRAMS) {
  const program = Bun.spawn([process.execPath, join(import.meta.dir, `${name}.ts`), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for (const line of (await program.stdout.text()).split("\n").filter(Boolean)) {
    report({ benchmark: name, ...JSON.parse(line) });
  }
  if ((await program.exited) !== 0) process.exitCode = 1;
}
