/** Dynamo's own client as a reader, in the Python environment that scripts/interop.sh prepares. */
import { join } from "node:path";
import { z } from "zod";
import { output } from "./processes.ts";

/** Whether torch itself takes the place of the numpy stand-in. */
export const REAL_TORCH = process.env.INTEROP_TORCH === "real";
/** Runs a command in the environment. */
export const ENVIRONMENT = [join(import.meta.dir, "../../scripts/interop.sh"), ...(REAL_TORCH ? ["--torch"] : [])];
/** Reads the descriptors whose lines come on stdin. */
export const READER = [...ENVIRONMENT, "python", join(import.meta.dir, "read_descriptors.py")];
/** Installing takes half a minute on a fast line; a slow one gets its time. */
export const PREPARE_TIMEOUT_MS = 20 * 60_000;

export const shapeSchema = z.array(z.int());
const readSchema = z.strictObject({
  index: z.int(),
  shape: shapeSchema,
  dtype: z.string(),
  metadata: z.unknown(),
  sha256: z.string(),
  content_hash: z.string().nullable(),
});

/** What the client got of one descriptor. */
export type Read = z.infer<typeof readSchema>;

/** Fetches what the client needs, once. @throws Error when that fails */
export async function prepareEnvironment(): Promise<void> {
  const environment = Bun.spawn([...ENVIRONMENT, "prepare"], { stdin: "ignore", stdout: "inherit", stderr: "inherit" });
  if ((await environment.exited) !== 0) throw new Error("the Python environment could not be prepared; see above");
}

/** JSON lines, each checked. */
export function parseLines<T>(schema: z.ZodType<T>, text: string): T[] {
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => schema.parse(JSON.parse(line)));
}

/** Has a reader, in a fresh process, read what descriptor lines name. */
export async function readLines(reader: readonly string[], descriptorLines: string): Promise<Read[]> {
  return parseLines(readSchema, await output(reader, descriptorLines));
}
