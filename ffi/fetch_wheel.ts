/** Fetches a wheel with pip, and never its dependencies: libnixl's would pull in gigabytes of CUDA. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { MediaError } from "../src/errors.ts";
import type { Environment } from "./environment.ts";
import { type PackageFetch, runTool } from "./fetch_tool.ts";
import { type NativeWheel, WHEEL_PYTHON_VERSION } from "./native_packages.ts";
import { pythonInterpreters } from "./python.ts";

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

/** @throws MediaError setup_failed when there is no pip */
export async function wheelFetch(wheel: NativeWheel, environment: Environment): Promise<PackageFetch> {
  const interpreter = await findPip(wheel, environment);
  return async (staging, options) => {
    const target = join(staging, "wheel");
    const requirements = join(staging, "requirements.txt");
    const hashes = wheel.sha256.map((digest) => `--hash=sha256:${digest}`);
    writeFileSync(requirements, `${wheel.name}==${wheel.version} ${hashes.join(" ")}\n`);
    // Only libraries and programs are wanted, which do not care what Python unpacks them.
    // biome-ignore format: one option with its value a line
    const command = [
      interpreter, "-m", "pip", "install",
      "--no-deps", "--require-hashes", "--no-compile", "--ignore-requires-python",
      "--only-binary", ":all:",
      "--python-version", WHEEL_PYTHON_VERSION,
      "--progress-bar", "off",
      "--target", target,
      "--requirement", requirements,
    ];
    // Its temporary files go where they are removed in any case: pip leaves them behind when it is killed.
    const pipEnvironment = { ...environment, ...PIP_ENVIRONMENT, TMPDIR: staging };
    await runTool(wheel, command, { cwd: process.cwd(), environment: pipEnvironment }, options);
    return target;
  };
}

/** The first Python on PATH that has pip. */
async function findPip(wheel: NativeWheel, environment: Environment): Promise<string> {
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
