/**
 * libvips, through sharp: JPEG (libjpeg-turbo's pixels, bit for bit), also inside TIFF, and the kinds of TIFF that the
 * other library does not know.
 */
import sharp, { type Sharp } from "sharp";
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

function open(encoded: Uint8Array, header: ImageHeader): Sharp {
  configure();
  return sharp(encoded, {
    // Every warning of the decoder fails: libjpeg only warns of data that is missing or damaged in the middle.
    failOn: "warning",
    // An embedded colour profile would otherwise be applied to the pixels.
    ignoreIcc: true,
    limitInputPixels: header.width * header.height,
  });
}

export async function decodeWithLibvips(
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
): Promise<DecodedPicture> {
  // Grey that is not called so would become RGB.
  const image = open(encoded, header).toColourspace(header.channels === 1 ? "b-w" : "srgb");
  const { data, info } = await image.raw().toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  if (channels === 2) throw corruptImage(format, "it decodes to a number of channels that its header does not say");
  return { width, height, channels, writeTo: (payload) => payload.set(data) };
}

/** Fails as {@link decodeWithLibvips} does on damaged data, without making a tensor: for decoders that are lenient. */
export async function verifyWithLibvips(encoded: Uint8Array, header: ImageHeader): Promise<void> {
  // One channel of the picture takes all of the file to make, and a third of the memory.
  await open(encoded, header).toColourspace("srgb").extractChannel(0).raw().toBuffer();
}
