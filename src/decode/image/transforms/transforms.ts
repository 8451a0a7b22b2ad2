/**
 * What the settings make of a picture behind its decoder, in this order: smaller, upright, sRGB, channels. Without such
 * settings nothing here runs, and pixels are decoded straight into their room.
 */
import { decodeCmykToSrgb, decodeScaledJpeg, type Pixels, scalePixels } from "../decoders/libvips.ts";
import type { DecodableFormat } from "../header.ts";
import type { ChannelCount, ImageHeader, PixelSize } from "../image_header.ts";
import { type ImageOptions, mayChangePicture } from "../options.ts";
import { channelsFor, toRgb, toRgba } from "./channels.ts";
import { profileSpace, toSrgb } from "./colour.ts";
import { readEmbedded } from "./embedded.ts";
import { turnUpright, uprightSize } from "./orientation.ts";
import { dctScaledSize, scaledSize } from "./scaling.ts";

/** What is to become of one picture. */
export interface Transforms {
  /** Size and channels that come out where the picture is what its header says; what comes out is never more. */
  readonly size: PixelSize & { readonly channels: ChannelCount };
  /** The header's size, when the picture is scaled down from it. */
  readonly source: PixelSize | null;
  /** @param decode decodes the picture as it is in the file */
  run(decode: () => Promise<Pixels>): Promise<Pixels>;
}

/** Size of what a decoder makes of the picture: all of it, but for a JPEG that is scaled while it is decoded. */
export function decodedSize(
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
  options: ImageOptions,
): PixelSize {
  if (options.max_pixels === undefined || !isScaledByDecoder(format, header)) return header;
  return dctScaledSize(encoded, header, scaledSize(header, options.max_pixels));
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
  const scaled = options.max_pixels === undefined ? header : scaledSize(header, options.max_pixels);
  const isScaled = scaled.width !== header.width || scaled.height !== header.height;
  if (orientation === 1 && profile === null && options.channels === "keep" && !isScaled) return null;
  const isCmykProfile = profile !== null && profileSpace(profile) === "CMYK" && isCmyk(format, header);

  const smaller = async (decode: () => Promise<Pixels>): Promise<Pixels> => {
    if (isScaled && isScaledByDecoder(format, header)) return decodeScaledJpeg(encoded, header, scaled);
    const picture = await (isCmykProfile ? decodeCmykToSrgb(encoded, header) : decode());
    // A picture may turn out smaller than its header says.
    const size = isScaled ? scaledSize(picture, options.max_pixels ?? Number.POSITIVE_INFINITY) : picture;
    return size.width === picture.width && size.height === picture.height ? picture : scalePixels(picture, size);
  };
  return {
    size: { ...uprightSize(scaled, orientation), channels },
    source: isScaled ? { width: header.width, height: header.height } : null,
    async run(decode) {
      let picture = turnUpright(await smaller(decode), orientation);
      if (profile !== null && !isCmykProfile) picture = await toSrgb(picture, profile);
      if (options.channels === "keep") return picture;
      return options.channels === "rgb" ? toRgb(picture, options.background) : toRgba(picture);
    },
  };
}

/** Four samples of a JPEG, or of a TIFF that becomes RGB. */
function isCmyk(format: DecodableFormat, header: ImageHeader): boolean {
  if (header.variant === "cmyk") return true;
  return format === "Tiff" && header.variant === undefined && header.channels === 3 && header.bytesPerPixel % 4 === 0;
}
