/**
 * What a loader costs that has nothing to do: share of one core, of its process with the agent and of its decoders.
 *
 *   npm run bench:idle -- [--seconds S]
 *
 * {"seconds","parent_percent","children_percent","total_percent","resident_bytes"}
 */
import { MediaLoader } from "../src/index.ts";
import { benchArguments, countOption } from "./support/arguments.ts";
import { cpuMs, proportionalMemory } from "./support/processes.ts";
import { report } from "./support/report.ts";
import { rounded } from "./support/statistics.ts";

const USAGE = "bench/idle.ts [--seconds S]";

const { options } = benchArguments(USAGE, ["seconds"], 0);
const seconds = countOption(USAGE, options.seconds, 10);

await using loader = await MediaLoader.create();
await Bun.sleep(1000); // what start-up left behind

const pids = [process.pid, ...loader.childPids];
const before = pids.map(cpuMs);
await Bun.sleep(seconds * 1000);
const [parent = 0, ...children] = pids.map((pid, index) => (cpuMs(pid) - (before[index] ?? 0)) / (seconds * 10));
const all = children.reduce((sum, child) => sum + child, 0);
report({
  seconds,
  parent_percent: rounded(parent),
  children_percent: rounded(all),
  total_percent: rounded(parent + all),
  resident_bytes: pids.reduce((sum, pid) => sum + proportionalMemory(pid), 0),
});
