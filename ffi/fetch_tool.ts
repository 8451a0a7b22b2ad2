/** Runs a tool that fetches a native package (pip, Bun): tells that it lives, ends it in time, says why it failed. */
import { MediaError } from "../src/errors.ts";
import type { Environment } from "./environment.ts";
import type { NativePackage } from "./native_packages.ts";

/** How often a fetch that takes long shows that it lives. */
const PROGRESS_INTERVAL_MS = 5000;
/** As much of a tool's complaint as fits on a line or two. */
const COMPLAINT_LENGTH = 300;
/** What fetches from a registry, and the settings that it goes by. */
const TOOLS = {
  pypi: { name: "pip", settings: "pip's settings" },
  npm: { name: "Bun", settings: "npm's settings (.npmrc)" },
} as const;

export interface FetchOptions {
  /** Gets a line when the fetch starts, and every few seconds while it goes on. */
  readonly progress: (line: string) => void;
  /** Ends the fetch; what was fetched so far is removed. */
  readonly signal?: AbortSignal;
  /** Milliseconds that the fetch may take; without it only the tool's own limits hold. */
  readonly timeLimitMs?: number;
}

/**
 * Fetches a package into a staging folder, which is empty and is removed afterwards.
 * @returns the folder, within staging, that holds the package and is to be kept
 */
export type PackageFetch = (staging: string, options: FetchOptions) => Promise<string>;

/**
 * Runs the tool to its end.
 * @throws MediaError setup_failed, with the tool's complaint as the cause; aborted
 */
export async function runTool(
  native: NativePackage,
  command: readonly string[],
  where: { cwd: string; environment: Environment },
  { progress, signal, timeLimitMs }: FetchOptions,
): Promise<void> {
  const tool = Bun.spawn([...command], {
    cwd: where.cwd,
    env: { ...where.environment },
    detached: true,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const started = performance.now();
  const ticker = setInterval(() => {
    progress(`still fetching ${native.name} (${Math.round((performance.now() - started) / 1000)} s)`);
  }, PROGRESS_INTERVAL_MS);
  const timeLimit = timeLimitMs === undefined ? undefined : AbortSignal.timeout(timeLimitMs);
  const ends = [signal, timeLimit].filter((end) => end !== undefined);
  const stop = (): void => killGroup(tool.pid);
  for (const end of ends) end.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  try {
    const [complaint, exitCode] = await Promise.all([tool.stderr.text(), tool.exited]);
    throwIfAborted(native, signal);
    if (exitCode === 0) return;
    if (timeLimit?.aborted) throw fetchFailure(native, "it took too long");
    throw fetchFailure(native, `${TOOLS[native.registry].name} failed`, new Error(shortened(complaint)));
  } finally {
    for (const end of ends) end.removeEventListener("abort", stop);
    clearInterval(ticker);
  }
}

export function throwIfAborted(native: NativePackage, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new MediaError("aborted", `fetching ${native.name} was interrupted`);
}

export function fetchFailure(native: NativePackage, reason: string, cause?: unknown): MediaError {
  return new MediaError(
    "setup_failed",
    `${native.name} ${native.version} could not be fetched (${reason}): check the network and ${TOOLS[native.registry].settings}, or set ${native.override} to a copy of your own.`,
    { cause },
  );
}

/** A version manager may have put a script around the tool: the process that was started is not the one that works. */
function killGroup(leader: number): void {
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // it has ended by itself
  }
}

/** The tool's last error line; it may have written hundreds. */
function shortened(complaint: string): string {
  const lines = complaint.split("\n").filter((line) => line.trim() !== "");
  const line = lines.findLast((text) => /^error:/i.test(text)) ?? lines.at(-1) ?? "it gave no reason";
  return line.trim().slice(0, COMPLAINT_LENGTH);
}
