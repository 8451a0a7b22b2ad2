/** The reference: Dynamo's own media code as a program that prints JSON lines, one for each stage. */
import { dirname } from "node:path";
import { locateNixl } from "../../ffi/locate.ts";

/** Medians of the reference's stages, ms, by its names for them. */
export type ReferenceStages = ReadonlyMap<string, number>;

/** Runs the reference to its end. @throws Error with what it says when it fails */
export async function runReference(program: string, args: readonly string[]): Promise<Record<string, unknown>[]> {
  const nixl = locateNixl().path;
  const libraries = [nixl === null ? null : dirname(nixl), process.env.LD_LIBRARY_PATH].filter(Boolean).join(":");
  const run = Bun.spawn([program, ...args], {
    env: { ...process.env, LD_LIBRARY_PATH: libraries },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [text] = await Promise.all([run.stdout.text(), run.exited]);
  const lines = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const failure = lines.find((line) => "error" in line);
  if (failure || run.exitCode !== 0) throw new Error(`the reference failed: ${failure?.error ?? run.exitCode}`);
  return lines;
}

/** `bench` of the reference: its stages' medians over so many iterations. */
export async function referenceStages(program: string, args: readonly string[]): Promise<ReferenceStages> {
  const lines = await runReference(program, ["bench", ...args]);
  return new Map(lines.flatMap((line) => ("median_ms" in line ? [[String(line.stage), Number(line.median_ms)]] : [])));
}
