/**
 * Fetches an npm package with this very Bun, so that npm need not be there; Bun goes by the user's .npmrc, proxies and the
 * like. It installs by a lockfile that names this package alone: no dependency of it, and the hash that its tarball must have.
 */
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "./environment.ts";
import { type PackageFetch, runTool } from "./fetch_tool.ts";
import { isFile } from "./files.ts";
import type { NativeNpmPackage } from "./native_packages.ts";

/** Nothing is unpacked that was not checked: neither the lockfile nor the hash in it can be passed over by a user's variable. */
const STRICT_ENVIRONMENT = {
  BUN_CONFIG_NO_VERIFY: undefined,
  BUN_CONFIG_SKIP_LOAD_LOCKFILE: undefined,
  // A large tarball would be unpacked while it still arrives, and removed again if its hash turned out wrong.
  BUN_FEATURE_FLAG_DISABLE_STREAMING_INSTALL: "1",
};

export function npmFetch(native: NativeNpmPackage, environment: Environment): PackageFetch {
  return async (staging, options) => {
    const project = join(staging, "project");
    mkdirSync(project);
    writeLockedProject(project, native);
    // biome-ignore format: one option with its value a line
    const command = [
      process.execPath, "install",
      "--frozen-lockfile", "--ignore-scripts",
      "--no-progress", "--no-summary",
      // With a user's setting of its own the package would be elsewhere.
      "--linker", "hoisted",
    ];
    // The user's cache is left alone: what comes out of it is not checked again, and temporary files stay when Bun is killed.
    const bunEnvironment = {
      ...environment,
      ...STRICT_ENVIRONMENT,
      BUN_INSTALL_CACHE_DIR: join(staging, "cache"),
      BUN_TMPDIR: staging,
    };
    await runTool(native, command, { cwd: project, environment: bunEnvironment }, options);
    const target = join(staging, "kept");
    copyKeptFiles(native, join(project, "node_modules", native.name), target);
    return target;
  };
}

/** package.json and bun.lock of a project that depends on the package, whose own dependencies the lockfile leaves out. */
function writeLockedProject(folder: string, { name, version, integrity }: NativeNpmPackage): void {
  const dependencies = { [name]: version };
  const lock = {
    lockfileVersion: 1,
    workspaces: { "": { dependencies } },
    // Resolution; tarball's address, "" being the registry's; dependencies and the like; hash.
    packages: { [name]: [`${name}@${version}`, "", {}, integrity] },
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify({ dependencies }));
  writeFileSync(join(folder, "bun.lock"), JSON.stringify(lock));
}

/** Copies the files that are wanted, as far as they are there, to where they stood in the package. */
function copyKeptFiles({ file, alsoKept }: NativeNpmPackage, unpacked: string, target: string): void {
  for (const kept of [file, ...alsoKept]) {
    if (isFile(join(unpacked, kept))) cpSync(join(unpacked, kept), join(target, kept));
  }
}
