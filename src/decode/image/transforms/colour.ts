/** Conversion to sRGB by an embedded ICC profile (ICC.1:2022, 7.2: the profile's header). */
import { MediaError } from "../../../errors.ts";
import { convertToSrgb, type Pixels } from "../decoders/libvips.ts";

/** Colour spaces of the data that a profile describes, as its header names them. */
export type ProfileSpace = "RGB " | "GRAY" | "CMYK";

const HEADER_BYTES = 128;
const SPACE_AT = 16;
const SIGNATURE_AT = 36;

/** The colour space that a profile is for; null when it is none of those that pictures have, or no profile. */
export function profileSpace(profile: Uint8Array): ProfileSpace | null {
  if (profile.length < HEADER_BYTES || textAt(profile, SIGNATURE_AT) !== "acsp") return null;
  const space = textAt(profile, SPACE_AT);
  return space === "RGB " || space === "GRAY" || space === "CMYK" ? space : null;
}

/**
 * The picture in sRGB, perceptual intent, by Little CMS (through libvips). Alpha is not touched. A profile for other channels
 * than the picture has leaves it as it is.
 */
export async function toSrgb(picture: Pixels, profile: Uint8Array): Promise<Pixels> {
  if (profileSpace(profile) !== (picture.channels < 3 ? "GRAY" : "RGB ")) return picture;
  return convertToSrgb(tiffWithProfile(picture, profile), picture);
}

/** TIFF field types (TIFF 6.0, section 2). */
const SHORT = 3;
const LONG = 4;
const UNDEFINED = 7;

/** An uncompressed TIFF of one strip: the way for pixels and their profile into libvips. */
function tiffWithProfile({ width, height, channels, bytes }: Pixels, profile: Uint8Array): Uint8Array {
  const hasAlpha = channels % 2 === 0;
  const pixelsAt = 8;
  const profileAt = pixelsAt + bytes.length;
  const bitsAt = profileAt + profile.length;
  const directoryAt = bitsAt + 8;
  const fields: readonly (readonly [tag: number, type: number, count: number, value: number])[] = [
    [256, LONG, 1, width],
    [257, LONG, 1, height],
    channels > 2 ? [258, SHORT, channels, bitsAt] : [258, SHORT, channels, channels === 2 ? 0x0008_0008 : 8],
    [259, SHORT, 1, 1], // no compression
    [262, SHORT, 1, channels < 3 ? 1 : 2], // black is zero, RGB
    [273, LONG, 1, pixelsAt],
    [277, SHORT, 1, channels],
    [278, LONG, 1, height],
    [279, LONG, 1, bytes.length],
    ...(hasAlpha ? ([[338, SHORT, 1, 2]] as const) : []), // unassociated alpha
    [34675, UNDEFINED, profile.length, profileAt],
  ];
  const length = directoryAt + 2 + fields.length * 12 + 4;
  if (length > 0xffff_ffff) throw new MediaError("limit_exceeded", "the picture is too large to be converted to sRGB");
  const tiff = new Uint8Array(length);
  const view = new DataView(tiff.buffer);
  view.setUint32(0, 0x49492a00); // "II", 42 in little-endian order
  view.setUint32(4, directoryAt, true);
  tiff.set(bytes, pixelsAt);
  tiff.set(profile, profileAt);
  for (let channel = 0; channel < 4; channel++) view.setUint16(bitsAt + 2 * channel, 8, true);
  view.setUint16(directoryAt, fields.length, true);
  for (const [index, [tag, type, count, value]] of fields.entries()) {
    const at = directoryAt + 2 + index * 12;
    view.setUint16(at, tag, true);
    view.setUint16(at + 2, type, true);
    view.setUint32(at + 4, count, true);
    view.setUint32(at + 8, value, true);
  }
  return tiff;
}

function textAt(bytes: Uint8Array, at: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + 4));
}
