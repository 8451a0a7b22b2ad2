/**
 * Native libraries that decode straight into the room, where the machine has them: libturbojpeg and libwebp. What they refuse
 * is for the general decoders, whose verdict counts; so is everything on a machine without them.
 */
import { type LibWebp, openLibWebp } from "../../../../ffi/libwebp.ts";
import { openTurboJpeg, type TurboJpeg } from "../../../../ffi/turbojpeg.ts";
import type { NativeDecoders } from "../../contract.ts";
import type { DecodableFormat } from "../header.ts";
import type { ImageHeader } from "../image_header.ts";

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
        console.warn(`nixl-media: images are decoded without it: ${error}`);
      }
      libraries.set(path, library);
    }
    return library;
  };
}

const turboJpegAt = openedOnce<TurboJpeg>(openTurboJpeg);
const libWebpAt = openedOnce<LibWebp>(openLibWebp);

/**
 * Decodes an image where its tensor will lie.
 * @param header as our own reader has it; what the library reads must be the same
 * @param pixels exactly width × height × channels bytes
 * @returns whether it is done; if not, `pixels` are undefined and another decoder has the verdict
 */
export function decodeInPlace(
  native: NativeDecoders,
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
  pixels: Uint8Array,
): boolean {
  if (header.variant !== undefined) return false;
  if (format === "Jpeg") return decodeJpeg(turboJpegAt(native.turboJpegPath), encoded, header, pixels);
  if (format === "WebP") return decodeWebp(libWebpAt(native.webpPath), encoded, header, pixels);
  return false;
}

function decodeJpeg(library: TurboJpeg | null, encoded: Uint8Array, header: ImageHeader, pixels: Uint8Array): boolean {
  const read = library?.readHeader(encoded);
  if (!library || !read) return false;
  const { width, height, channels } = read;
  if (width !== header.width || height !== header.height || channels !== header.channels) return false;
  return library.decodeInto(encoded, read, pixels) === null;
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
