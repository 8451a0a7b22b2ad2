/**
 * libturbojpeg, opened at run time: JPEG decoded straight into memory of the caller's choice, without a copy. For decoder
 * children only; a machine without the library decodes JPEG by other means.
 *
 * The functions are those of its 2.x API, which 3.x has unchanged.
 */
import { dlopen, type FFIFunction, type Pointer } from "bun:ffi";
import { MediaError } from "../src/errors.ts";
import { pointerOf } from "./native.ts";

const SYMBOLS = {
  tjInitDecompress: { args: [], returns: "ptr" },
  tjDecompressHeader3: {
    args: [
      /* handle */ "ptr",
      /* JPEG */ "ptr",
      /* its bytes */ "u64",
      /* int *width */ "ptr",
      /* int *height */ "ptr",
      /* int *chrominance subsampling */ "ptr",
      /* int *colour space */ "ptr",
    ],
    returns: "i32",
  },
  tjDecompress2: {
    args: [
      /* handle */ "ptr",
      /* JPEG */ "ptr",
      /* its bytes */ "u64",
      /* pixels, written */ "ptr",
      /* width, pixels */ "i32",
      /* pitch, bytes */ "i32",
      /* height, pixels */ "i32",
      /* pixel format */ "i32",
      /* flags */ "i32",
    ],
    returns: "i32",
  },
  tjGetErrorStr2: { args: [/* handle */ "ptr"], returns: "cstring" },
} as const satisfies Record<string, FFIFunction>;

/** TJPF_RGB and TJPF_GRAY, by channels. */
const PIXEL_FORMATS = { 3: 0, 1: 6 } as const;
/** TJCS_RGB, TJCS_YCbCr and TJCS_GRAY; the others (CMYK, YCCK) are converted to RGB in more than one way. */
const COLOUR_SPACES: ReadonlyMap<number, 1 | 3> = new Map([
  [0, 3],
  [1, 3],
  [2, 1],
]);
/** TJFLAG_STOPONWARNING: data that is missing or damaged is an error, not grey. */
const STOP_ON_WARNING = 8192;
/** TJFLAG_LIMITSCANS: no more than 500 scans, since each may take as long as a picture (from 2.1 on). */
const LIMIT_SCANS = 32768;

/** What a JPEG says of itself. */
export interface TurboJpegHeader {
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 3;
}

/** Decodes JPEG with one native handle; for one thread, as long as the process lives. */
export interface TurboJpeg {
  /** Null when the library refuses the JPEG or it has four components. */
  readHeader(encoded: Uint8Array): TurboJpegHeader | null;
  /**
   * Decodes 8-bit rows from the top, RGB or grey, with the accurate inverse DCT and smooth upsampling (the defaults).
   * @param pixels exactly width × height × channels bytes of the header
   * @returns null, or what the library has against the JPEG; `pixels` are then undefined
   * @throws MediaError invalid_argument when `pixels` have another length
   */
  decodeInto(encoded: Uint8Array, header: TurboJpegHeader, pixels: Uint8Array): string | null;
}

/** @throws MediaError native_missing when the library cannot be opened or is older than 1.4 */
export function openTurboJpeg(path: string): TurboJpeg {
  const { library, handle } = opened(path);
  const out = new Int32Array(4);
  const [width, height, subsampling, colourSpace] = [0, 1, 2, 3].map((index) => out.subarray(index, index + 1)) as [
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
  ];
  return {
    readHeader(encoded) {
      const { byteLength } = encoded;
      if (library.tjDecompressHeader3(handle, encoded, byteLength, width, height, subsampling, colourSpace) !== 0) {
        return null;
      }
      const channels = COLOUR_SPACES.get(colourSpace[0] ?? -1);
      return channels === undefined ? null : { width: width[0] ?? 0, height: height[0] ?? 0, channels };
    },
    decodeInto(encoded, { width, height, channels }, pixels) {
      const pitch = width * channels;
      if (pixels.byteLength !== pitch * height) {
        throw new MediaError("invalid_argument", `${pixels.byteLength} bytes do not hold ${width}x${height} pixels`);
      }
      const format = PIXEL_FORMATS[channels];
      const flags = STOP_ON_WARNING | LIMIT_SCANS;
      // Given the picture's own size it decodes unscaled; a JPEG that turned out larger would be refused or scaled down.
      const status = library.tjDecompress2(
        handle,
        encoded,
        encoded.byteLength,
        pixels,
        width,
        pitch,
        height,
        format,
        flags,
      );
      return status === 0 ? null : String(library.tjGetErrorStr2(handle));
    },
  };
}

function opened(path: string): { library: ReturnType<typeof open>; handle: Pointer } {
  try {
    const library = open(path);
    const handle = library.tjInitDecompress();
    if (handle === null) throw new Error("no decompressor could be made");
    return { library, handle: pointerOf(Number(handle)) };
  } catch (cause) {
    throw new MediaError("native_missing", `libturbojpeg at ${path} cannot be used`, { cause });
  }
}

function open(path: string) {
  return dlopen(path, SYMBOLS).symbols;
}
