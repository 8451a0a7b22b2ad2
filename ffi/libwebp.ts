/**
 * libwebp, opened at run time: still WebP pictures decoded straight into memory of the caller's choice. For decoder children
 * only; a machine without the library decodes WebP by other means.
 */
import { dlopen, type FFIFunction } from "bun:ffi";
import { MediaError } from "../src/errors.ts";

const INTO_ARGUMENTS = [
  /* WebP */ "ptr",
  /* its bytes */ "u64",
  /* pixels, written */ "ptr",
  /* bytes of pixels */ "u64",
  /* stride, bytes */ "i32",
] as const;

const SYMBOLS = {
  WebPGetInfo: {
    args: [/* WebP */ "ptr", /* its bytes */ "u64", /* int *width */ "ptr", /* int *height */ "ptr"],
    returns: "i32",
  },
  WebPDecodeRGBInto: { args: INTO_ARGUMENTS, returns: "ptr" },
  WebPDecodeRGBAInto: { args: INTO_ARGUMENTS, returns: "ptr" },
} as const satisfies Record<string, FFIFunction>;

/** Decodes WebP; has no state. */
export interface LibWebp {
  /** Width and height, pixels; null when the library refuses the header. */
  readSize(encoded: Uint8Array): { readonly width: number; readonly height: number } | null;
  /**
   * Decodes 8-bit rows from the top, RGB or RGBA (colours not multiplied by alpha), with smooth upsampling.
   * @param pixels exactly width × height × channels bytes, of the size that {@link readSize} gives
   * @returns whether the library took the WebP; if not, `pixels` are undefined
   */
  decodeInto(encoded: Uint8Array, pixels: Uint8Array, width: number, channels: 3 | 4): boolean;
}

/** @throws MediaError native_missing when the library cannot be opened */
export function openLibWebp(path: string): LibWebp {
  const library = opened(path);
  const size = new Int32Array(2);
  return {
    readSize(encoded) {
      if (library.WebPGetInfo(encoded, encoded.byteLength, size.subarray(0, 1), size.subarray(1, 2)) === 0) return null;
      return { width: size[0] ?? 0, height: size[1] ?? 0 };
    },
    decodeInto(encoded, pixels, width, channels) {
      const decode = channels === 3 ? library.WebPDecodeRGBInto : library.WebPDecodeRGBAInto;
      return decode(encoded, encoded.byteLength, pixels, pixels.byteLength, width * channels) !== null;
    },
  };
}

function opened(path: string) {
  try {
    return dlopen(path, SYMBOLS).symbols;
  } catch (cause) {
    throw new MediaError("native_missing", `libwebp at ${path} cannot be used`, { cause });
  }
}
