/**
 * Native libraries that decode straight into the room, where the machine has them: libturbojpeg and libwebp. What they refuse
 * is for the general decoders, whose verdict counts; so is everything on a machine without them.
 */
import { type LibWebp, openLibWebp } from "../../../../ffi/libwebp.ts";
import { openTurboJpeg, type TurboJpeg } from "../../../../ffi/turbojpeg.ts";
import { warn } from "../../child/warning.ts";
import type { DecodeContext } from "../../contract.ts";
import type { DecodableFormat } from "../header.ts";
import type { ImageHeader } from "../image_header.ts";
import { decodeInBands } from "./jpeg_bands.ts";

/** Opens a library once; null when it cannot be, which is no reason not to decode. */
function openedOnce<Library>(open: (path: string) => Library): (path: string | null) => Library | null {
  const libraries = new Map<string, Library | null>();
  return (path) => {
    if (path === null) return null;
    let library = libraries.get(path);
    if (library === undefined) {
      try {
        library = open(path);
      } catch (error) {
        library = null;
        warn(`images are decoded without it: ${error}`);
      }
      libraries.set(path, library);
    }
    return library;
  };
}

const turboJpegAt = openedOnce<TurboJpeg>(openTurboJpeg);
const libWebpAt = openedOnce<LibWebp>(openLibWebp);

/** Paths of the libraries, and how many threads may work on the picture. */
export type InPlaceContext = Pick<DecodeContext, "turboJpegPath" | "webpPath" | "threads">;

/**
 * Decodes an image where its tensor will lie.
 * @param header as our own reader has it; what the library reads must be the same
 * @param pixels exactly width × height × channels bytes
 * @returns whether it is done; if not, `pixels` are undefined and another decoder has the verdict
 */
export function decodeInPlace(
  context: InPlaceContext,
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
  pixels: Uint8Array,
): boolean {
  if (header.variant !== undefined) return false;
  if (format === "Jpeg") return decodeJpeg(context, encoded, header, pixels);
  if (format === "WebP") return decodeWebp(libWebpAt(context.webpPath), encoded, header, pixels);
  return false;
}

function decodeJpeg(
  { turboJpegPath: path, threads }: InPlaceContext,
  encoded: Uint8Array,
  header: ImageHeader,
  pixels: Uint8Array,
): boolean {
  const library = turboJpegAt(path);
  const read = library?.readHeader(encoded);
  if (path === null || !library || !read) return false;
  const { width, height, channels } = read;
  if (width !== header.width || height !== header.height || channels !== header.channels) return false;
  const inBands = threads > 1 ? decodeInBands(library, path, encoded, read, pixels) : null;
  return inBands ?? library.decodeInto(encoded, read, pixels) === null;
}

function decodeWebp(
  library: LibWebp | null,
  encoded: Uint8Array,
  { width, height, channels }: ImageHeader,
  pixels: Uint8Array,
): boolean {
  const size = library?.readSize(encoded);
  if (!library || size?.width !== width || size.height !== height) return false;
  return (channels === 3 || channels === 4) && library.decodeInto(encoded, pixels, width, channels);
}
