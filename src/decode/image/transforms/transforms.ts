/**
 * What the settings make of a picture behind its decoder, in this order: smaller, upright, sRGB, channels. Without such
 * settings nothing here runs, and pixels are decoded straight into their room.
 */

import { scaledSize } from "../../scaled_size.ts";
import { decodeCmykToSrgb, decodeScaledJpeg, type Pixels, scalePixels } from "../decoders/libvips.ts";
import type { DecodableFormat } from "../header.ts";
import type { ChannelCount, ImageHeader, PixelSize } from "../image_header.ts";
import { type ImageOptions, mayChangePicture } from "../options.ts";
import { channelsFor, toRgb, toRgba } from "./channels.ts";
import { profileSpace, toSrgb } from "./colour.ts";
import { readEmbedded } from "./embedded.ts";
import { turnUpright, uprightSize } from "./orientation.ts";
import { dctScaledSize } from "./scaling.ts";

/** Formats whose header leaves no doubt about how many channels a decoder makes. */
const CERTAIN_CHANNELS: ReadonlySet<DecodableFormat> = new Set(["Jpeg", "Png", "WebP"]);

/** What is to become of one picture. */
export interface Transforms {
  /** Size and channels that come out where the picture is what its header says; what comes out is never more. */
  readonly size: PixelSize & { readonly channels: ChannelCount };
  /** @param decode decodes the picture as it is in the file */
  run(decode: () => Promise<Pixels>): Promise<Transformed>;
}

/** What became of a picture. */
export interface Transformed {
  readonly picture: Pixels;
  /** Its size in the file, where it was scaled down. */
  readonly source: PixelSize | null;
}

/** Size of what a decoder makes of the picture: all of it, but for a JPEG that is scaled while it is decoded. */
export function decodedSize(
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
  options: ImageOptions,
): PixelSize {
  const scaled = scaledSize(header, options.max_pixels ?? Number.POSITIVE_INFINITY);
  return isScaledByDecoder(format, header) ? dctScaledSize(encoded, header, scaled) : header;
}

function isScaledByDecoder(format: DecodableFormat, header: ImageHeader): boolean {
  return format === "Jpeg" && header.variant === undefined;
}

/** @returns null when the picture stays as it is in the file */
export function planTransforms(
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
  options: ImageOptions,
): Transforms | null {
  if (!mayChangePicture(options)) return null;
  const embedded = readEmbedded(encoded, format);
  const orientation = options.auto_orient ? embedded.orientation : 1;
  const profile = options.to_srgb ? embedded.profile : null;
  const channels = channelsFor(options.channels, header.channels);
  const scaled = scaledSize(header, options.max_pixels ?? Number.POSITIVE_INFINITY);
  const isScaled = scaled.width !== header.width || scaled.height !== header.height;
  const isKept = channels === header.channels && (options.channels === "keep" || CERTAIN_CHANNELS.has(format));
  if (orientation === 1 && profile === null && isKept && !isScaled) return null;
  const isCmykProfile = profile !== null && profileSpace(profile) === "CMYK" && isCmyk(format, header);

  const smaller = async (decode: () => Promise<Pixels>): Promise<Transformed> => {
    if (isScaled && isScaledByDecoder(format, header)) {
      return { picture: await decodeScaledJpeg(encoded, header, scaled), source: header };
    }
    const picture = await (isCmykProfile ? decodeCmykToSrgb(encoded, header) : decode());
    // A picture may turn out smaller than its header says.
    const size = isScaled ? scaledSize(picture, options.max_pixels ?? Number.POSITIVE_INFINITY) : picture;
    if (size.width === picture.width && size.height === picture.height) return { picture, source: null };
    return { picture: await scalePixels(picture, size), source: picture };
  };
  return {
    size: { ...uprightSize(scaled, orientation), channels },
    async run(decode) {
      const { picture: small, source } = await smaller(decode);
      let picture = turnUpright(small, orientation);
      if (profile !== null && !isCmykProfile) picture = await toSrgb(picture, profile);
      if (options.channels === "rgb") picture = toRgb(picture, options.background);
      if (options.channels === "rgba") picture = toRgba(picture);
      return { picture, source };
    },
  };
}

/** Four samples of a JPEG, or of a TIFF that becomes RGB. */
function isCmyk(format: DecodableFormat, header: ImageHeader): boolean {
  if (header.variant === "cmyk") return true;
  return format === "Tiff" && header.variant === undefined && header.channels === 3 && header.bytesPerPixel % 4 === 0;
}
