/**
 * The Python wheels that carry the native parts, pinned by version and by hash: native code that is fetched and then
 * runs in this process must be the code that was tested.
 *
 * To move a pin: `pip download --no-deps --python-version 3.12 --platform manylinux_2_28_x86_64` (and `_aarch64`), then
 * `pip hash` on both files. pip takes the one that suits the machine.
 */
export interface NativeWheel {
  /** Name on PyPI. */
  readonly name: string;
  readonly version: string;
  /** Size of the download, for the progress line. */
  readonly megabytes: number;
  /** SHA-256 of the wheels for x86_64 and aarch64. */
  readonly sha256: readonly string[];
  /** Glob below the folder that the wheel is unpacked in: the file that all this is about. */
  readonly file: string;
  /** Environment variable by which a copy of one's own is named, for the remedy. */
  readonly override: "NIXL_CAPI_PATH" | "FFMPEG_BIN";
}

/**
 * The Python that the wheel of libnixl is fetched for, whatever Python fetches it: the bindings in it are never loaded,
 * and one version means two hashes to pin instead of ten.
 */
export const WHEEL_PYTHON_VERSION = "3.12";

export const NIXL_WHEEL: NativeWheel = {
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

/** Name of the folder of an unpacked wheel. It carries the version, so that a moved pin is fetched anew. */
export function wheelFolderName(wheel: NativeWheel): string {
  return `${wheel.name}-${wheel.version}`;
}

/** The wheel's file below a folder that it was unpacked in, or null. */
export function fileOfWheel(wheel: NativeWheel, folder: string): string | null {
  try {
    const [first] = new Bun.Glob(wheel.file).scanSync({ cwd: folder, absolute: true, dot: true });
    return first ?? null;
  } catch {
    return null; // there is no such folder
  }
}
