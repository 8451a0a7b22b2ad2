/** The processes of the interop test: each starts in a session of its own, so that all that came of it can be found. */
import { readdirSync, readFileSync } from "node:fs";

/** What a process that ended left behind. */
export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  /** Null when a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | number | null;
}

/** Sessions of all processes started here; the session's number is the process id of its first process. */
const sessions = new Set<number>();

/** Starts a process with all three streams as pipes, in a session of its own. */
export function start(command: readonly string[]) {
  const child = Bun.spawn([...command], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
    detached: true,
  });
  sessions.add(child.pid);
  return child;
}

/** Runs a process to its end with `input` on its stdin. */
export async function run(command: readonly string[], input = ""): Promise<Ended> {
  const child = start(command);
  child.stdin.write(input);
  child.stdin.end();
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, exitCode: child.exitCode, signal: child.signalCode };
}

/** As {@link run}, for a process that must succeed: its stdout, or an error that carries its stderr. */
export async function output(command: readonly string[], input = ""): Promise<string> {
  const ended = await run(command, input);
  if (ended.exitCode !== 0) {
    throw new Error(`${command.join(" ")}\nended with ${ended.exitCode ?? ended.signal}:\n${ended.stderr}`);
  }
  return ended.stdout;
}

/** Process ids of the living processes of a session, orphans too; one that has ended and waits to be reaped is not. */
export function sessionProcesses(session: number): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        // proc(5): "pid (name) state ppid pgrp session …"; the name may itself hold spaces and brackets.
        const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
        const [state, , , of] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
        return Number(of) === session && state !== "Z";
      } catch {
        return false; // ended between the listing and the reading
      }
    });
}

/** Ends by force whatever is left of the processes started here. */
export function killStarted(): void {
  for (const pid of [...sessions].flatMap(sessionProcesses)) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // ended by itself in the meantime
    }
  }
  sessions.clear();
}
