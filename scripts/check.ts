/**
 * `npm run check`: format, lint, types and tests, each also when one before it failed. With `--setup` (`npm test`) the
 * native parts are fetched first. Other arguments go to `bun test`.
 */
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
  { name: "tests", args: ["test", ...testArguments] },
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
    const exitCode = await run(step);
    if (exitCode >= 128) return exitCode;
    if (exitCode !== 0) failed.push(step.name);
  }
  console.log(failed.length === 0 ? "--- all checks passed" : `--- failed: ${failed.join(", ")}`);
  return failed.length === 0 ? 0 : 1;
}

/** @returns the exit code; 128 + signal when this process was told to end meanwhile, or a signal ended the step */
async function run({ args }: Step): Promise<number> {
  const child = Bun.spawn([process.execPath, ...args], { cwd: ROOT, stdio: ["ignore", "inherit", "inherit"] });
  const forward = (signal: NodeJS.Signals): void => child.kill(signal);
  for (const signal of INTERRUPTIONS) process.on(signal, forward);
  try {
    const exitCode = await child.exited;
    return exitCode;
  } finally {
    for (const signal of INTERRUPTIONS) process.off(signal, forward);
  }
}
