/**
 * libvips, through sharp: JPEG (libjpeg-turbo's pixels, bit for bit), also inside TIFF, and the kinds of TIFF that the
 * other library does not know.
 */
import sharp from "sharp";
import type { DecodableFormat } from "../header.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";
import type { DecodedPicture } from "./picture.ts";

let isConfigured = false;

/** One thread, no cache of operations, and only the loaders that are wanted: SVG, PDF and the rest cannot be reached. */
function configure(): void {
  if (isConfigured) return;
  sharp.cache(false);
  sharp.concurrency(1);
  sharp.block({ operation: ["VipsForeignLoad"] });
  sharp.unblock({ operation: ["VipsForeignLoadJpeg", "VipsForeignLoadTiff"] });
  isConfigured = true;
}

interface RawImage {
  readonly data: Uint8Array;
  readonly width: number;
  readonly height: number;
  readonly channels: number;
}

/** @param colourspace "b-w" keeps grey at one channel; sharp would make RGB of it */
async function decodeRaw(encoded: Uint8Array, header: ImageHeader, colourspace: "b-w" | "srgb"): Promise<RawImage> {
  configure();
  const image = sharp(encoded, {
    // Every warning of the decoder fails: libjpeg only warns of data that is missing or damaged in the middle.
    failOn: "warning",
    // An embedded colour profile would otherwise be applied to the pixels.
    ignoreIcc: true,
    limitInputPixels: header.width * header.height,
  });
  const { data, info } = await image.toColourspace(colourspace).raw().toBuffer({ resolveWithObject: true });
  return { data, width: info.width, height: info.height, channels: info.channels };
}

export async function decodeWithLibvips(
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
): Promise<DecodedPicture> {
  const image = await decodeRaw(encoded, header, header.channels === 1 ? "b-w" : "srgb");
  const { data, width, height, channels } = image;
  if (channels !== 1 && channels !== 3 && channels !== 4) {
    throw corruptImage(format, "it decodes to a number of channels that its header does not say");
  }
  return { width, height, channels, writeTo: (payload) => payload.set(data) };
}

/** Fails as {@link decodeWithLibvips} does on damaged data, without making a tensor: for decoders that are lenient. */
export async function verifyWithLibvips(encoded: Uint8Array, header: ImageHeader): Promise<void> {
  await decodeRaw(encoded, header, "srgb");
}
