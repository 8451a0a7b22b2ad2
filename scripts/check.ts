/**
 * `npm run check`: format, lint, types and tests, each also when one before it failed. With `--setup` (`npm test`) the
 * native parts are fetched first. Other arguments go to `bun test`.
 */
import { constants } from "node:os";
import { join } from "node:path";
import { runSetup } from "../src/cli/setup.ts";

const ROOT = join(import.meta.dir, "..");
const INTERRUPTIONS = ["SIGHUP", "SIGINT", "SIGTERM"] as const;

interface Step {
  readonly name: string;
  /** Arguments of Bun, which also runs the checkers: a machine with Bun needs no Node.js. */
  readonly args: readonly string[];
}

const withSetup = process.argv.includes("--setup");
const testArguments = process.argv.slice(2).filter((argument) => argument !== "--setup");
const STEPS: readonly Step[] = [
  { name: "format and lint", args: ["node_modules/@biomejs/biome/bin/biome", "check"] },
  { name: "types", args: ["node_modules/typescript/bin/tsc", "--noEmit"] },
  { name: "tests", args: ["test", "--timeout", "60000", ...testArguments] },
];

process.exitCode = await main();

async function main(): Promise<number> {
  if (withSetup) {
    const exitCode = await runSetup({ print: (line) => console.log(line) });
    if (exitCode !== 0) return exitCode;
  }
  const failed: string[] = [];
  for (const step of STEPS) {
    console.log(`--- ${step.name}`);
    const { exitCode, interruption } = await run(step);
    if (interruption !== null) return 128 + constants.signals[interruption];
    if (exitCode !== 0) failed.push(step.name);
  }
  console.log(failed.length === 0 ? "--- all checks passed" : `--- failed: ${failed.join(", ")}`);
  return failed.length === 0 ? 0 : 1;
}

/** Runs a step; a signal that comes meanwhile ends it. */
async function run({ args }: Step): Promise<{ exitCode: number; interruption: NodeJS.Signals | null }> {
  // A group of its own: the checkers are programs behind launchers, and all of them have to end.
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: ROOT,
    stdio: ["ignore", "inherit", "inherit"],
    detached: true,
  });
  let interruption: NodeJS.Signals | null = null;
  const end = (signal: NodeJS.Signals): void => {
    interruption ??= signal;
    try {
      process.kill(-child.pid, signal);
    } catch {
      // it has ended by itself
    }
  };
  for (const signal of INTERRUPTIONS) process.on(signal, end);
  try {
    return { exitCode: await child.exited, interruption };
  } finally {
    for (const signal of INTERRUPTIONS) process.off(signal, end);
  }
}
