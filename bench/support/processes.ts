/** What processes have used, by /proc. */
import { readFileSync } from "node:fs";

/** USER_HZ, which Linux fixes at 100 for what it shows in /proc. */
const TICKS_PER_SECOND = 100;

/** Processor time of a process and of its children that have been reaped, ms (proc(5), stat, fields 14 to 17). */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /s, "")
    .split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return (ticks / TICKS_PER_SECOND) * 1000;
}

/** Resident memory, with what is shared divided among those who share it, bytes (proc(5), smaps_rollup). */
export function proportionalMemory(pid: number): number {
  return kibibytes(`/proc/${pid}/smaps_rollup`, "Pss");
}

/** The most resident memory since the mark was set, bytes. */
export function peakMemory(pid: number): number {
  return kibibytes(`/proc/${pid}/status`, "VmHWM");
}

function kibibytes(path: string, name: string): number {
  const found = new RegExp(`^${name}:\\s*(\\d+) kB$`, "m").exec(readFileSync(path, "utf8"))?.[1];
  return Number(found ?? Number.NaN) * 1024;
}
