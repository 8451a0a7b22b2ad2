/** The command as a process. */
import { join } from "node:path";

export const PROJECT = join(import.meta.dir, "../..");
const MAIN = join(PROJECT, "src/cli/main.ts");

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command to its end, or kills it after 30 s (then `code` is null). */
export async function runCli(
  args: string[],
  options: { stdin?: string; env?: Record<string, string> } = {},
): Promise<Run> {
  const started = startCli(args, options.env);
  started.stdin.write(options.stdin ?? "");
  await started.stdin.end();
  const timer = setTimeout(() => started.kill("SIGKILL"), 30_000);
  const [stdout, stderr] = await Promise.all([started.stdout.text(), started.stderr.text()]);
  await started.exited;
  clearTimeout(timer);
  return { code: started.exitCode, stdout, stderr };
}

/** Starts the command with pipes; the caller ends it. */
export function startCli(args: string[], env: Record<string, string> = {}) {
  return Bun.spawn([process.execPath, MAIN, ...args], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
}

/** Lines of a stream as they come, so that a test can wait for the next one. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const chunk of stream) {
    const lines = (pending + decoder.decode(chunk, { stream: true })).split("\n");
    pending = lines.pop() ?? "";
    yield* lines;
  }
  if (pending !== "") yield pending;
}
