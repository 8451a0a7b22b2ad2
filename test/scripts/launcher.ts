/** A small project around the real launcher scripts, and processes that start there. */
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");

/** Removes nothing by itself: the caller removes the folder. */
export function makeProject(options: {
  installed: boolean;
  postinstall?: string;
  files?: Record<string, string>;
}): string {
  const root = mkdtempSync(join(tmpdir(), "nixl-media-launcher-"));
  for (const path of ["scripts/run.sh", "scripts/find_bun.sh", "bin/nixl-media", "bunfig.toml", "tsconfig.json"]) {
    cpSync(join(ROOT, path), join(root, path));
  }
  const { engines } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const about = { name: "nixl-media", version: "0.0.0" };
  const scripts = {
    cli: "exec sh scripts/run.sh --in-callers-folder src/cli/main.ts",
    ...(options.postinstall === undefined ? {} : { postinstall: options.postinstall }),
  };
  writeFiles(root, {
    "package.json": JSON.stringify({ ...about, engines, scripts }),
    "package-lock.json": JSON.stringify({ ...about, lockfileVersion: 3, requires: true, packages: { "": about } }),
    "scripts/setup.ts": 'console.log("set-up ran");',
    ...options.files,
  });
  if (options.installed) writeFiles(root, { "node_modules/.package-lock.json": "{}" });
  return root;
}

export function writeFiles(root: string, files: Record<string, string>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(join(root, path, ".."), { recursive: true });
    writeFileSync(join(root, path), content);
  }
}

/** A program that prints a version, as a Bun of that version would. */
export function writeBunOfVersion(path: string, version: string): void {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, `#!/bin/sh\necho '${version}'\n`);
  chmodSync(path, 0o755);
}

/** A folder with the Bun that runs the tests, as Bun's installer makes it (BUN_INSTALL). */
export function installBun(root: string): string {
  const folder = join(root, "bun-install");
  mkdirSync(join(folder, "bin"), { recursive: true });
  symlinkSync(process.execPath, join(folder, "bin/bun"));
  return folder;
}

/** A PATH with the few programs that the scripts start, and no Bun, however the machine is set up. */
export function pathWithoutBun(root: string): string {
  const folder = join(root, "tools");
  mkdirSync(folder);
  for (const tool of ["sh", "sed", "head", "dirname", "readlink", "uname", "find", "env"]) {
    const path = Bun.which(tool);
    if (path === null) throw new Error(`the machine has no ${tool}`);
    symlinkSync(path, join(folder, tool));
  }
  return folder;
}

export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | number | null;
}

/** What a started process left when it had ended. */
export async function endOf(child: Bun.Subprocess<"pipe" | "ignore", "pipe", "pipe">): Promise<Ended> {
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, exitCode: child.exitCode, signal: child.signalCode };
}

/** Starts a command in a folder, which also is its home: by that {@link processesOf} finds what came of it. */
export function start(command: string[], cwd: string, environment: Record<string, string>) {
  const env: Record<string, string | undefined> = { ...process.env, HOME: cwd };
  // What an npm around the tests set must not reach an npm inside them.
  for (const name of Object.keys(env)) if (/^(npm_|INIT_CWD$|NODE_ENV$)/i.test(name)) delete env[name];
  return Bun.spawn(command, { cwd, env: { ...env, ...environment }, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
}

/** Process ids of the living processes whose home is the folder. */
export function processesOf(home: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`HOME=${home}\0`);
      } catch {
        return false; // it has ended, or is another user's
      }
    });
}
