/**
 * Finds the native parts: libnixl, ffmpeg, libturbojpeg, libwebp. Nothing is opened or started here; what is found is remembered for
 * the life of the process.
 *
 * A variable that names something that is not there is an error: falling through to another copy would hide the typing
 * error that made a fleet run two versions.
 */
import { readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { MediaError } from "../src/errors.ts";
import { type Environment, type EnvironmentName, readEnvironment } from "./environment.ts";
import { foldersOf, isExecutable, isFile, isFolder, isSharedLibrary } from "./files.ts";
import {
  FFMPEG_WHEEL,
  fileOfPackage,
  type NativePackage,
  NIXL_WHEEL,
  packageFolderName,
  TURBOJPEG_PACKAGE,
} from "./native_packages.ts";
import { pythonPackageFolders } from "./python.ts";

/**
 * Where a part was found: named by a variable, in the system's library folders, in an installed Python wheel, in an npm
 * package, on PATH, or in the folder that set-up fills.
 */
export type NativeSource = "environment" | "system" | "python-wheel" | "npm" | "path" | "project";

/** A native part that is there. */
export interface FoundPart {
  /** Absolute. */
  readonly path: string;
  readonly source: NativeSource;
  /** Null where only running or opening the part would tell. */
  readonly version: string | null;
}

/** A native part that is not there. */
export interface MissingPart {
  readonly path: null;
  /** One sentence: what to do about it. */
  readonly remedy: string;
}

export type LocatedPart = FoundPart | MissingPart;

/** What decides where is searched. */
export interface SearchScope {
  readonly environment: Environment;
  /** Folder of this package. */
  readonly packageRoot: string;
  /** The folder that holds the system's library folders and the dynamic linker's cache: "" unless in a test. */
  readonly systemRoot: string;
}

const PACKAGE_ROOT = dirname(import.meta.dir);
const NIXL_FILE = "libnixl_capi.so";
/** Wheels that carry libnixl, the tested one first. */
const NIXL_WHEEL_NAMES = ["nixl_cu12", "nixl_cu13"];
/** Prefixes of NVIDIA's containers, and of libnixl's own build. */
const NIXL_PREFIXES = ["/opt/nvidia/nvda_nixl", "/usr/local/nixl"];
/** Where the package ffmpeg-static has its program. */
const FFMPEG_IN_NPM = "ffmpeg-static/ffmpeg";
/** ABI 0 is the only one of libturbojpeg since 2010; the name without it comes with the development package. */
const TURBOJPEG_FILES = ["libturbojpeg.so.0", "libturbojpeg.so"];
const LIBWEBP_FILES = ["libwebp.so.7", "libwebp.so"];
const LIBRARY_CACHE = "/etc/ld.so.cache";

/** The scope of this process. */
export function processScope(): SearchScope {
  return { environment: process.env, packageRoot: PACKAGE_ROOT, systemRoot: "" };
}

const found = new Map<string, FoundPart>();

/** Only finds are remembered: set-up may bring what was missing. */
function remembered(name: string, find: (scope: SearchScope) => LocatedPart): LocatedPart {
  const before = found.get(name);
  if (before) return before;
  const part = find(processScope());
  if (part.path !== null) found.set(name, part);
  return part;
}

/** libnixl_capi.so, as {@link findNixl}. @throws MediaError native_missing */
export function locateNixl(): LocatedPart {
  return remembered("nixl", findNixl);
}

/** The ffmpeg program, as {@link findFfmpeg}. @throws MediaError native_missing */
export function locateFfmpeg(): LocatedPart {
  return remembered("ffmpeg", findFfmpeg);
}

/** libturbojpeg, as {@link findTurboJpeg}. @throws MediaError native_missing */
export function locateTurboJpeg(): LocatedPart {
  return remembered("turbojpeg", findTurboJpeg);
}

/** libwebp, as {@link findLibWebp}. @throws MediaError native_missing */
export function locateLibWebp(): LocatedPart {
  return remembered("libwebp", findLibWebp);
}

/**
 * Searches libnixl: NIXL_CAPI_PATH, the system's library folders, an installed wheel, the folder that set-up fills.
 * @throws MediaError native_missing when NIXL_CAPI_PATH names no library
 */
export function findNixl(scope: SearchScope): LocatedPart {
  const { environment } = scope;
  return (
    libraryNamedBy("NIXL_CAPI_PATH", NIXL_FILE, environment) ??
    systemLibrary([NIXL_FILE], NIXL_PREFIXES, scope) ??
    nixlOfPython(environment) ??
    fetchedPart(NIXL_WHEEL, NIXL_WHEEL.version, scope) ?? {
      path: null,
      remedy: `libnixl was not found: run "npm run setup" (or "nixl-media setup"), or set NIXL_CAPI_PATH to ${NIXL_FILE}.`,
    }
  );
}

/**
 * Searches ffmpeg: FFMPEG_BIN, the package ffmpeg-static, PATH, the folder that set-up fills.
 * @throws MediaError native_missing when FFMPEG_BIN names no program
 */
export function findFfmpeg(scope: SearchScope): LocatedPart {
  return (
    programNamedBy("FFMPEG_BIN", scope.environment) ??
    partOfNpm(FFMPEG_IN_NPM, isExecutable, scope) ??
    programOnPath("ffmpeg", scope.environment) ??
    fetchedPart(FFMPEG_WHEEL, null, scope) ?? {
      path: null,
      remedy:
        'ffmpeg was not found: run "npm run setup" (or "nixl-media setup"), install it (Debian: ffmpeg), or set FFMPEG_BIN to it.',
    }
  );
}

/**
 * Searches libturbojpeg: TURBOJPEG_PATH, the system's library folders, the package @julusian/jpeg-turbo, the folder that
 * set-up fills. The system's goes before them since it gets security updates by itself; unless it is older than 3.0, which
 * cannot decode a picture with two threads.
 * @throws MediaError native_missing when TURBOJPEG_PATH names no library
 */
export function findTurboJpeg(scope: SearchScope): LocatedPart {
  const named = libraryNamedBy("TURBOJPEG_PATH", "libturbojpeg.so.0", scope.environment);
  if (named) return named;
  const system = systemLibrary(TURBOJPEG_FILES, [], scope);
  return (
    (system && decodesBands(system.path) ? system : null) ??
    partOfNpm(join(TURBOJPEG_PACKAGE.name, TURBOJPEG_PACKAGE.file), isSharedLibrary, scope) ??
    fetchedPart(TURBOJPEG_PACKAGE, null, scope) ??
    system ?? {
      path: null,
      remedy:
        'libturbojpeg was not found: run "npm run setup" (or "nixl-media setup"), install it (Debian: libturbojpeg0), or set TURBOJPEG_PATH to it.',
    }
  );
}

/** Whether a libturbojpeg is of version 3.0 or later: it then has this function by name. */
export function decodesBands(path: string): boolean {
  return readFileSync(path).includes("tj3SetCroppingRegion");
}

/**
 * Searches libwebp: LIBWEBP_PATH, the system's library folders. It comes with most builds of ffmpeg that a system has.
 * @throws MediaError native_missing when LIBWEBP_PATH names no library
 */
export function findLibWebp(scope: SearchScope): LocatedPart {
  return (
    libraryNamedBy("LIBWEBP_PATH", "libwebp.so.7", scope.environment) ??
    systemLibrary(LIBWEBP_FILES, [], scope) ?? {
      path: null,
      remedy: "libwebp was not found: install it (Debian: libwebp7), or set LIBWEBP_PATH to it.",
    }
  );
}

/** libnixl's UCX plugin, which it opens by itself: in NIXL_PLUGIN_DIR, else beside the library. Null when it is missing. */
export function findUcxPlugin(nixlPath: string, environment: Environment = process.env): string | null {
  const folder = environment.NIXL_PLUGIN_DIR || join(dirname(nixlPath), "plugins");
  const plugin = join(folder, "libplugin_UCX.so");
  return isFile(plugin) ? plugin : null;
}

/**
 * Folders of fetched native parts, in the order in which they are searched; set-up fills the first that it may write to.
 * They need not exist.
 */
export function nativeFolders({ environment, packageRoot }: SearchScope): string[] {
  const named = readEnvironment("NIXL_MEDIA_NATIVE_DIR", environment);
  if (named !== null) return [resolve(named)];
  const [cache] = foldersOf(environment.XDG_CACHE_HOME);
  return [join(packageRoot, ".native"), join(cache ?? join(environment.HOME || homedir(), ".cache"), "nixl-media")];
}

/** The first of {@link nativeFolders}: where `npm run build:shim` puts the shim. */
export function projectNativeFolder(): string {
  return nativeFolders(processScope())[0] ?? join(PACKAGE_ROOT, ".native");
}

/** The file that a fetched package was fetched for, or null. */
export function fileInNativeFolders(native: NativePackage, scope: SearchScope): string | null {
  for (const folder of nativeFolders(scope)) {
    const file = fileOfPackage(native, join(folder, packageFolderName(native)));
    if (file !== null) return file;
  }
  return null;
}

function fetchedPart(native: NativePackage, version: string | null, scope: SearchScope): FoundPart | null {
  const path = fileInNativeFolders(native, scope);
  return path === null ? null : { path, source: "project", version };
}

function libraryNamedBy(name: EnvironmentName, fileName: string, environment: Environment): FoundPart | null {
  const value = readEnvironment(name, environment);
  if (value === null) return null;
  const path = isFolder(value) ? join(resolve(value), fileName) : resolve(value);
  if (!isFile(path)) throw new MediaError("native_missing", `${name} names ${path}, which is not there`);
  if (!isSharedLibrary(path)) {
    throw new MediaError(
      "native_missing",
      `${name} names ${path}, which is no shared library for ${process.arch} Linux`,
    );
  }
  return { path, source: "environment", version: versionOfWheelAround(path) };
}

function programNamedBy(name: EnvironmentName, environment: Environment): FoundPart | null {
  const value = readEnvironment(name, environment);
  if (value === null) return null;
  const path = resolve(value);
  if (!isFile(path)) throw new MediaError("native_missing", `${name} names ${path}, which is not there`);
  if (!isExecutable(path)) throw new MediaError("native_missing", `${name} names ${path}, which is not executable`);
  return { path, source: "environment", version: null };
}

/** The folders that the dynamic linker searches, in its order: LD_LIBRARY_PATH, its cache, the usual folders. */
function systemLibrary(
  fileNames: readonly string[],
  prefixes: readonly string[],
  { environment, systemRoot }: SearchScope,
): FoundPart | null {
  const triplet = process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  const usual = ["/usr/local", "/usr", "", ...prefixes].flatMap((prefix) =>
    [`lib/${triplet}`, "lib64", "lib"].map((folder) => `${systemRoot}${prefix}/${folder}`),
  );
  const inFolders = (folders: readonly string[]) =>
    fileNames.flatMap((file) => folders.map((folder) => join(folder, file)));
  const candidates = [
    ...inFolders(foldersOf(environment.LD_LIBRARY_PATH)),
    ...cachedLibraries(fileNames, systemRoot),
    ...inFolders(usual),
  ];
  const path = candidates.find(isSharedLibrary);
  return path === undefined ? null : { path, source: "system", version: versionOfWheelAround(path) };
}

/** Paths that the dynamic linker's cache has for the names: they stand in it as NUL-terminated strings. */
function cachedLibraries(fileNames: readonly string[], systemRoot: string): string[] {
  let cache: string;
  try {
    cache = readFileSync(`${systemRoot}${LIBRARY_CACHE}`, "latin1");
  } catch {
    return []; // no cache on this system
  }
  const paths = cache.split("\0").filter((text) => text.startsWith("/"));
  return fileNames.flatMap((file) => paths.filter((path) => path.endsWith(`/${file}`)));
}

function nixlOfPython(environment: Environment): FoundPart | null {
  for (const folder of pythonPackageFolders(environment)) {
    for (const wheel of NIXL_WHEEL_NAMES) {
      const path = join(folder, `.${wheel}.mesonpy.libs`, NIXL_FILE);
      if (isSharedLibrary(path)) return { path, source: "python-wheel", version: versionOfWheelAround(path) };
    }
  }
  return null;
}

/** Version of the wheel whose `.NAME.mesonpy.libs` folder holds the library, out of the name of its dist-info folder. */
function versionOfWheelAround(libraryPath: string): string | null {
  const folder = dirname(libraryPath);
  const wheel = /^\.(\w+)\.mesonpy\.libs$/.exec(basename(folder))?.[1];
  if (wheel === undefined) return null;
  const info = readdirSync(dirname(folder)).find((name) => name.startsWith(`${wheel}-`) && name.endsWith(".dist-info"));
  return info?.slice(wheel.length + 1, -".dist-info".length) ?? null;
}

/**
 * A file of an npm package, in a node_modules folder of this package or of the project around it, without running the
 * package's code. What it downloads may have been blocked: then it is there without the file.
 */
function partOfNpm(file: string, isUsable: (path: string) => boolean, { packageRoot }: SearchScope): FoundPart | null {
  for (let folder = packageRoot; ; folder = dirname(folder)) {
    const path = join(folder, "node_modules", file);
    if (isUsable(path)) return { path, source: "npm", version: null };
    if (folder === dirname(folder)) return null;
  }
}

function programOnPath(name: string, environment: Environment): FoundPart | null {
  const path = foldersOf(environment.PATH)
    .map((folder) => join(folder, name))
    .find(isExecutable);
  return path === undefined ? null : { path, source: "path", version: null };
}
