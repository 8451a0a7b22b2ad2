/** Watching processes from outside, through /proc. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** Whether a process exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && processState(pid)?.state !== "Z";
}

/** How many descriptors this process has open. */
export function openDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

/** Processes started by `pid`, and by those in turn. */
export function descendantsOf(pid: number): number[] {
  const processes = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => processState(Number(name)) ?? []);
  const children = (parent: number): number[] =>
    processes
      .filter((process) => process.parent === parent)
      .flatMap((process) => [process.pid, ...children(process.pid)]);
  return children(pid);
}

/** Waits for something to become true. @throws Error after `milliseconds`, saying what did not happen */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  milliseconds = 5000,
): Promise<void> {
  const deadline = performance.now() + milliseconds;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`did not happen within ${milliseconds} ms: ${what}`);
    await Bun.sleep(5);
  }
}

function processState(pid: number): { pid: number; parent: number; state: string } | null {
  try {
    // The name in parentheses may hold anything; state and parent come behind the last one.
    const [state = "", parent] = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return { pid, parent: Number(parent), state };
  } catch {
    return null; // it ended meanwhile
  }
}
