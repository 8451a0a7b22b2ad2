/**
 * What a process costs that has an agent and does nothing: share of one core, agent and decoder children together.
 *
 *   npx bun bench/idle.ts [SECONDS]      prints {"seconds", "parent_percent", "children_percent", "resident_bytes"}
 */
import { readFileSync } from "node:fs";
import { MediaLoader } from "../src/index.ts";

const SECONDS = Number(process.argv[2] ?? 5);
/** USER_HZ, which Linux fixes at 100 for what it shows in /proc. */
const TICKS_PER_SECOND = 100;

await using loader = await MediaLoader.create();
await Bun.sleep(1000); // what start-up left behind

const pids = [process.pid, ...loader.childPids];
const before = pids.map(cpuTicks);
await Bun.sleep(SECONDS * 1000);
const percent = pids.map((pid, index) => ((cpuTicks(pid) - (before[index] ?? 0)) / TICKS_PER_SECOND / SECONDS) * 100);
const [parent = 0, ...children] = percent;

console.log(
  JSON.stringify({
    seconds: SECONDS,
    parent_percent: round(parent),
    children_percent: round(children.reduce((sum, child) => sum + child, 0)),
    resident_bytes: process.memoryUsage.rss(),
  }),
);

/** User and system time of a process so far, in clock ticks (proc(5), fields 14 and 15). */
function cpuTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

function round(value: number): number {
  return Number(value.toFixed(2));
}
