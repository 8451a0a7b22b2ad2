/** A soak with origins of its own, which are ended with it. */
import { join } from "node:path";
import { linesOf } from "../support/cli.ts";
import { type SoakState, soak } from "./rounds.ts";

const ORIGIN = join(import.meta.dir, "../support/hostile_origin.ts");

/** @throws Error as {@link soak} */
export async function soakWithOrigin(count: number, report: (state: SoakState) => void): Promise<void> {
  const child = Bun.spawn([process.execPath, ORIGIN], { stdin: "pipe", stdout: "pipe" });
  try {
    const { value } = await linesOf(child.stdout).next();
    await soak(JSON.parse(value ?? "{}").port, count, report);
  } finally {
    await child.stdin.end();
    await child.exited;
  }
}
