/**
 * The packages that carry native parts, pinned by version and by hash: native code that is fetched and then runs in this
 * process must be the code that was tested.
 */
import { readFileSync } from "node:fs";
import type { EnvironmentName } from "./environment.ts";

interface PinnedPackage {
  /** Name in its registry. */
  readonly name: string;
  readonly version: string;
  /** Size of the download, for the progress line. */
  readonly megabytes: number;
  /** Glob below the folder that the package is unpacked in: the file that all this is about. */
  readonly file: string;
  /** Environment variable by which a copy of one's own is named, for the remedy. */
  readonly override: EnvironmentName;
}

/**
 * A Python wheel.
 *
 * To move a pin: `pip download --no-deps --python-version 3.12 --platform manylinux_2_28_x86_64` (and `_aarch64`), then
 * `pip hash` on both files. pip takes the one that suits the machine.
 */
export interface NativeWheel extends PinnedPackage {
  readonly registry: "pypi";
  /** SHA-256 of the wheels for x86_64 and aarch64. */
  readonly sha256: readonly string[];
}

/** An npm package, whose `file` is a plain path. To move a pin: `npm view NAME@VERSION dist.integrity`. */
export interface NativeNpmPackage extends PinnedPackage {
  readonly registry: "npm";
  /** Of the tarball, as in a lockfile: `sha512-` and the digest in base64. */
  readonly integrity: string;
  /** Files that are kept beside {@link PinnedPackage.file}; of the others there may be many, for other systems. */
  readonly alsoKept: readonly string[];
}

export type NativePackage = NativeWheel | NativeNpmPackage;

/**
 * The Python that the wheel of libnixl is fetched for, whatever Python fetches it: the bindings in it are never loaded,
 * and one version means two hashes to pin instead of ten.
 */
export const WHEEL_PYTHON_VERSION = "3.12";

export const NIXL_WHEEL: NativeWheel = {
  registry: "pypi",
  name: "nixl-cu12",
  version: "1.5.1",
  megabytes: 69,
  sha256: [
    "a02005f84e498641b8fe02d058fdc6762c99edf7ae6430176d2d16fa57f4fb93",
    "98d4b169813a5110842aefc383ba3bf259a886cd09cc9d54c7a6db69bb36de4d",
  ],
  file: ".nixl_cu12.mesonpy.libs/libnixl_capi.so",
  override: "NIXL_CAPI_PATH",
};

export const FFMPEG_WHEEL: NativeWheel = {
  registry: "pypi",
  name: "imageio-ffmpeg",
  version: "0.8.1",
  megabytes: 68,
  sha256: [
    "050d6850601c3b3890bd2b28306f3b842b3daea390a561101174375a1c460bda",
    "fad3176f859b25869e60a8ed79957d4e3ed74a97a95e5f0cdcb91455f6c6d00e",
  ],
  file: "imageio_ffmpeg/binaries/ffmpeg-linux-*",
  override: "FFMPEG_BIN",
};

/**
 * libjpeg-turbo 3.1.3 as a shared library, ready made. Its binding to Node.js is not wanted, nor what that depends on,
 * hence no dependency of this package.
 */
export const TURBOJPEG_PACKAGE: NativeNpmPackage = {
  registry: "npm",
  name: "@julusian/jpeg-turbo",
  version: "3.0.1",
  megabytes: 3,
  integrity: "sha512-ITORmmt8XPCxGh/GhG1VGGAQH10zh0iN0lHpuODDVpNeyzAULtEIFHuQLOLDSbVSAkAvGylQPsp4uJb8NLI6fw==",
  file: `prebuilds/jpeg-turbo-linux-${process.arch}${runsOnMusl() ? "-musl" : ""}/libturbojpeg.so.0`,
  alsoKept: ["package.json", "LICENSE"],
  override: "TURBOJPEG_PATH",
};

/** Whether this process, which is to open the library, runs on musl rather than on glibc: by the loader that started it. */
function runsOnMusl(): boolean {
  try {
    return readFileSync("/proc/self/maps", "latin1").includes("/ld-musl-");
  } catch {
    return false; // no /proc
  }
}

/** Name of the folder of an unpacked package. It carries the version, so that a moved pin is fetched anew. */
export function packageFolderName({ name, version }: NativePackage): string {
  return `${name.slice(name.lastIndexOf("/") + 1)}-${version}`;
}

/** The package's file below a folder that it was unpacked in, or null. */
export function fileOfPackage({ file }: NativePackage, folder: string): string | null {
  try {
    const [first] = new Bun.Glob(file).scanSync({ cwd: folder, absolute: true, dot: true });
    return first ?? null;
  } catch {
    return null; // there is no such folder
  }
}
