/**
 * libturbojpeg, opened at run time: JPEG decoded straight into memory of the caller's choice, without a copy. For decoder
 * children only; a machine without the library decodes JPEG by other means.
 *
 * Whole pictures are decoded through the functions of its 2.x API, which 3.x has unchanged; bands of rows need 3.x.
 */
import { dlopen, type FFIFunction, type Pointer } from "bun:ffi";
import { MediaError } from "../src/errors.ts";
import { pointerOf } from "./native.ts";

const handle = "ptr";
const jpeg = "ptr";
const byteLength = "u64";

const SYMBOLS = {
  tjInitDecompress: { args: [], returns: handle },
  tjDecompressHeader3: {
    args: [
      handle,
      jpeg,
      byteLength,
      /* int *width */ "ptr",
      /* int *height */ "ptr",
      /* int *chrominance subsampling */ "ptr",
      /* int *colour space */ "ptr",
    ],
    returns: "i32",
  },
  tjDecompress2: {
    args: [
      handle,
      jpeg,
      byteLength,
      /* pixels, written */ "ptr",
      /* width, pixels */ "i32",
      /* pitch, bytes */ "i32",
      /* height, pixels */ "i32",
      /* pixel format */ "i32",
      /* flags */ "i32",
    ],
    returns: "i32",
  },
  tjGetErrorStr2: { args: [handle], returns: "cstring" },
} as const satisfies Record<string, FFIFunction>;

const SYMBOLS_3 = {
  tj3Init: { args: [/* kind of work */ "i32"], returns: handle },
  tj3Set: { args: [handle, /* parameter */ "i32", /* value */ "i32"], returns: "i32" },
  tj3Get: { args: [handle, /* parameter */ "i32"], returns: "i32" },
  tj3DecompressHeader: { args: [handle, jpeg, byteLength], returns: "i32" },
  tj3SetCroppingRegion: {
    // A struct of four ints by value: both on x86-64 (System V) and AArch64 it goes in two registers, two ints in each.
    args: [handle, /* x, y */ "u64", /* width, height */ "u64"],
    returns: "i32",
  },
  tj3Decompress8: {
    args: [handle, jpeg, byteLength, /* pixels, written */ "ptr", /* pitch, bytes */ "i32", /* pixel format */ "i32"],
    returns: "i32",
  },
  tj3GetErrorStr: { args: [handle], returns: "cstring" },
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

/** TJINIT_DECOMPRESS, and members of the enumeration TJPARAM. */
const INIT_DECOMPRESS = 1;
const PARAMETERS = { stopOnWarning: 0, progressive: 12, scanLimit: 13, lossless: 15 } as const;

/** What a JPEG says of itself. */
export interface TurboJpegHeader {
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 3;
}

/** A band of a picture. */
export interface RowRange {
  /** The first row; a multiple of 32 is at a block's edge whatever the subsampling. */
  readonly first: number;
  readonly count: number;
}

/** Decodes JPEG with native handles of its own; for one thread, as long as the process lives. */
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
  /** Decodes bands; null when the library is older than 3.0. */
  readonly bands: TurboJpegBands | null;
}

/** Decodes a band of a picture at a time. What is above it is read, not made: that takes some two thirds of the time. */
export interface TurboJpegBands {
  /** Whether bands pay: not for a progressive JPEG, of which each reads everything, nor for a lossless one, which has none. */
  suits(encoded: Uint8Array): boolean;
  /**
   * Decodes rows exactly as {@link TurboJpeg.decodeInto} does.
   * @param pixels of the whole picture, as there; only those of the band are written
   */
  decodeRows(encoded: Uint8Array, header: TurboJpegHeader, pixels: Uint8Array, rows: RowRange): string | null;
}

/** @throws MediaError native_missing when the library cannot be opened or is older than 1.4 */
export function openTurboJpeg(path: string): TurboJpeg {
  const { library, decompressor } = opened(path);
  const out = [new Int32Array(1), new Int32Array(1), new Int32Array(1), new Int32Array(1)] as const;
  const [width, height, subsampling, colourSpace] = out;
  return {
    bands: openBands(path),
    readHeader(encoded) {
      const { byteLength } = encoded;
      if (library.tjDecompressHeader3(decompressor, encoded, byteLength, width, height, subsampling, colourSpace)) {
        return null;
      }
      const channels = COLOUR_SPACES.get(colourSpace[0] ?? -1);
      return channels === undefined ? null : { width: width[0] ?? 0, height: height[0] ?? 0, channels };
    },
    decodeInto(encoded, header, pixels) {
      checkLength(header, pixels);
      const { width, height, channels } = header;
      const format = PIXEL_FORMATS[channels];
      const flags = STOP_ON_WARNING | LIMIT_SCANS;
      const pitch = width * channels;
      // Given the picture's own size it decodes unscaled; a JPEG that turned out larger would be refused or scaled down.
      // biome-ignore format: one line of C
      const status = library.tjDecompress2(decompressor, encoded, encoded.byteLength, pixels, width, pitch, height, format, flags);
      return status === 0 ? null : String(library.tjGetErrorStr2(decompressor));
    },
  };
}

function openBands(path: string): TurboJpegBands | null {
  let library: ReturnType<typeof dlopen<typeof SYMBOLS_3>>["symbols"];
  try {
    library = dlopen(path, SYMBOLS_3).symbols;
  } catch {
    return null; // an older one
  }
  const decompressor = pointerOf(Number(library.tj3Init(INIT_DECOMPRESS) ?? 0));
  if (!decompressor) return null;
  library.tj3Set(decompressor, PARAMETERS.stopOnWarning, 1);
  library.tj3Set(decompressor, PARAMETERS.scanLimit, 500);
  return {
    suits(encoded) {
      const isRead = library.tj3DecompressHeader(decompressor, encoded, encoded.byteLength) === 0;
      const is = (parameter: number): boolean => library.tj3Get(decompressor, parameter) !== 0;
      return isRead && !is(PARAMETERS.progressive) && !is(PARAMETERS.lossless);
    },
    decodeRows(encoded, header, pixels, { first, count }) {
      checkLength(header, pixels);
      const { width, height, channels } = header;
      if (!(first >= 0 && count > 0 && first + count <= height)) {
        throw new MediaError("invalid_argument", `${count} rows from ${first} on are not in a picture of ${height}`);
      }
      const pitch = width * channels;
      const band = pixels.subarray(first * pitch, (first + count) * pitch);
      const failed =
        library.tj3DecompressHeader(decompressor, encoded, encoded.byteLength) ||
        library.tj3SetCroppingRegion(decompressor, pair(0, first), pair(width, count)) ||
        library.tj3Decompress8(decompressor, encoded, encoded.byteLength, band, pitch, PIXEL_FORMATS[channels]);
      return failed ? String(library.tj3GetErrorStr(decompressor)) : null;
    },
  };
}

/** Two ints as they lie in one register of a little-endian machine. */
function pair(low: number, high: number): number {
  return high * 2 ** 32 + low;
}

function checkLength({ width, height, channels }: TurboJpegHeader, pixels: Uint8Array): void {
  if (pixels.byteLength === width * height * channels) return;
  throw new MediaError("invalid_argument", `${pixels.byteLength} bytes do not hold ${width}x${height} pixels`);
}

function opened(path: string): { library: ReturnType<typeof open>; decompressor: Pointer } {
  try {
    const library = open(path);
    const decompressor = library.tjInitDecompress();
    if (decompressor === null) throw new Error("no decompressor could be made");
    return { library, decompressor: pointerOf(Number(decompressor)) };
  } catch (cause) {
    throw new MediaError("native_missing", `libturbojpeg at ${path} cannot be used`, { cause });
  }
}

function open(path: string) {
  return dlopen(path, SYMBOLS).symbols;
}
