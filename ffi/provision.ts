/**
 * Fetches the wheels of wheels.ts with pip into the native folder: no root, no compiler, and never a wheel's dependencies
 * (libnixl's wheel would pull in gigabytes of CUDA).
 *
 * A wheel is unpacked beside its final folder and renamed when it is whole. So a set-up that is interrupted leaves nothing
 * under the final name, and of two at the same time one wins and the other takes what is there.
 */
import {
  accessSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { MediaError } from "../src/errors.ts";
import { fileInNativeFolders, nativeFolders, processScope, type SearchScope } from "./locate.ts";
import { pythonInterpreters } from "./python.ts";
import { fileOfWheel, type NativeWheel, WHEEL_PYTHON_VERSION, wheelFolderName } from "./wheels.ts";

const STAGING_PREFIX = ".partial-";
/** A staging folder this old belongs to a set-up that was killed; younger ones may be another's, still at work. */
const STAGING_LEFTOVER_MS = 60 * 60_000;
/** How often a fetch that takes long shows that it lives. */
const PROGRESS_INTERVAL_MS = 5000;
/** As much of pip's complaint as fits on a line or two. */
const COMPLAINT_LENGTH = 300;
/**
 * Said by variables, since an older pip refuses options that it does not know. The last two undo settings of the user
 * that cannot go together with installing into a folder.
 */
const PIP_ENVIRONMENT = {
  PIP_DISABLE_PIP_VERSION_CHECK: "1",
  PIP_NO_INPUT: "1",
  PIP_ROOT_USER_ACTION: "ignore",
  PIP_USER: "0",
  PIP_REQUIRE_VIRTUALENV: "0",
};

export interface ProvisionOptions {
  /** Gets a line when the fetch starts, and every few seconds while it goes on. */
  readonly progress: (line: string) => void;
  /** Ends the fetch; what was fetched so far is removed. */
  readonly signal?: AbortSignal;
  readonly scope?: SearchScope;
}

/**
 * Fetches a wheel, unless it is there.
 * @returns path of the file that the wheel was fetched for
 * @throws MediaError setup_failed with the remedy; aborted
 */
export async function provisionWheel(wheel: NativeWheel, options: ProvisionOptions): Promise<string> {
  const scope = options.scope ?? processScope();
  const present = fileInNativeFolders(wheel, scope);
  if (present !== null) return present;

  const pip = await findPip(wheel, scope);
  throwIfAborted(wheel, options.signal);
  const folder = writableNativeFolder(scope);
  removeLeftovers(folder);
  const staging = mkdtempSync(join(folder, STAGING_PREFIX));
  try {
    options.progress(`fetching ${wheel.name} ${wheel.version} (${wheel.megabytes} MB) into ${folder}`);
    const unpacked = join(staging, "wheel");
    await runPip(pip, wheel, staging, unpacked, options, scope);
    if (fileOfWheel(wheel, unpacked) === null) {
      throw failure(wheel, "the wheel does not hold the expected file", undefined);
    }
    return putInPlace(wheel, staging, unpacked, join(folder, wheelFolderName(wheel)));
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

/** The first Python on PATH that has pip. */
async function findPip(wheel: NativeWheel, { environment }: SearchScope): Promise<string> {
  const interpreters = pythonInterpreters(environment);
  for (const interpreter of interpreters) {
    const asked = Bun.spawn([interpreter, "-m", "pip", "--version"], {
      env: { ...environment },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    });
    if ((await asked.exited) === 0) return interpreter;
  }
  const wanted = interpreters.length === 0 ? "Python with pip" : "pip for your Python";
  throw new MediaError(
    "setup_failed",
    `${wheel.name} cannot be fetched: install ${wanted} (Debian: python3-pip), or set ${wheel.override} to a copy of your own.`,
  );
}

function writableNativeFolder(scope: SearchScope): string {
  const folders = nativeFolders(scope);
  let cause: unknown;
  for (const folder of folders) {
    try {
      mkdirSync(folder, { recursive: true });
      accessSync(folder, constants.W_OK | constants.X_OK);
      return folder;
    } catch (error) {
      cause = error;
    }
  }
  throw new MediaError(
    "setup_failed",
    `There is no folder to fetch native parts into (tried ${folders.join(", ")}): set NIXL_MEDIA_NATIVE_DIR to one that can be written to.`,
    { cause },
  );
}

/** Removes what set-ups that were killed left behind. */
function removeLeftovers(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(STAGING_PREFIX)) continue;
    const path = join(folder, name);
    const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now();
    if (Date.now() - changed > STAGING_LEFTOVER_MS) rmSync(path, { recursive: true, force: true });
  }
}

async function runPip(
  interpreter: string,
  wheel: NativeWheel,
  staging: string,
  target: string,
  { progress, signal }: ProvisionOptions,
  { environment }: SearchScope,
): Promise<void> {
  const requirements = join(staging, "requirements.txt");
  const hashes = wheel.sha256.map((digest) => `--hash=sha256:${digest}`);
  writeFileSync(requirements, `${wheel.name}==${wheel.version} ${hashes.join(" ")}\n`);
  // Its temporary files go where they are removed in any case: pip leaves them behind when it is killed.
  const pipEnvironment = { ...environment, ...PIP_ENVIRONMENT, TMPDIR: staging };
  // Only libraries and programs are wanted, which do not care what Python unpacks them.
  // biome-ignore format: one option with its value a line
  const pip = Bun.spawn([
    interpreter, "-m", "pip", "install",
    "--no-deps", "--require-hashes", "--no-compile", "--ignore-requires-python",
    "--only-binary", ":all:",
    "--python-version", WHEEL_PYTHON_VERSION,
    "--progress-bar", "off",
    "--target", target,
    "--requirement", requirements,
  ], { env: pipEnvironment, detached: true, stdin: "ignore", stdout: "ignore", stderr: "pipe" });

  const started = performance.now();
  const ticker = setInterval(() => {
    progress(`still fetching ${wheel.name} (${Math.round((performance.now() - started) / 1000)} s)`);
  }, PROGRESS_INTERVAL_MS);
  const stop = (): void => killGroup(pip.pid);
  signal?.addEventListener("abort", stop);
  if (signal?.aborted) stop();
  try {
    const [complaint, exitCode] = await Promise.all([pip.stderr.text(), pip.exited]);
    throwIfAborted(wheel, signal);
    if (exitCode !== 0) throw failure(wheel, "pip failed", new Error(shortened(complaint)));
  } finally {
    signal?.removeEventListener("abort", stop);
    clearInterval(ticker);
  }
}

function throwIfAborted(wheel: NativeWheel, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new MediaError("aborted", `fetching ${wheel.name} was interrupted`);
}

/** A version manager may have put a script around pip: the process that was started is not the one that works. */
function killGroup(leader: number): void {
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // it has ended by itself
  }
}

/** Gives the unpacked wheel its final name, or takes the one that another set-up put there in the meantime. */
function putInPlace(wheel: NativeWheel, staging: string, unpacked: string, final: string): string {
  try {
    renameSync(unpacked, final);
  } catch (error) {
    const theirs = fileOfWheel(wheel, final);
    if (theirs !== null) return theirs;
    // A folder that lost its file. Moved away rather than emptied: a process may still have other files of it open.
    try {
      renameSync(final, join(staging, "damaged"));
      renameSync(unpacked, final);
    } catch {
      throw failure(wheel, `${dirname(final)} cannot be written to`, error);
    }
  }
  const file = fileOfWheel(wheel, final);
  if (file === null) throw failure(wheel, `${final} was changed by something else`, undefined);
  return file;
}

function failure(wheel: NativeWheel, reason: string, cause: unknown): MediaError {
  return new MediaError(
    "setup_failed",
    `${wheel.name} ${wheel.version} could not be fetched (${reason}): check the network and pip's settings, or set ${wheel.override} to a copy of your own.`,
    { cause },
  );
}

/** pip's last error line; it may have written hundreds. */
function shortened(complaint: string): string {
  const lines = complaint.split("\n").filter((line) => line.trim() !== "");
  const line = lines.findLast((text) => text.startsWith("ERROR:")) ?? lines.at(-1) ?? "pip gave no reason";
  return line.trim().slice(0, COMPLAINT_LENGTH);
}
