/**
 * libvips, through sharp: JPEG (libjpeg-turbo's pixels, bit for bit), also inside TIFF, and the kinds of TIFF that the
 * other library does not know; animated WebP as clips; and pictures of any format that are to be scaled or converted.
 */
import sharp, { type Sharp } from "sharp";
import type { DecodableFormat } from "../header.ts";
import type { ChannelCount, ImageHeader, PixelSize } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";
import type { DecodedPicture } from "./picture.ts";

/** A picture in memory: 8-bit samples, rows from the top, channels interleaved. */
export interface Pixels extends PixelSize {
  readonly channels: ChannelCount;
  readonly bytes: Uint8Array;
}

let isConfigured = false;

/** One thread, no cache of operations, and only the loaders that are wanted: SVG, PDF and the rest cannot be reached. */
export function configureLibvips(): void {
  // It holds for the whole process: a Worker would take loaders from under others' hands while it sets them.
  if (isConfigured || !Bun.isMainThread) return;
  sharp.cache(false);
  sharp.concurrency(1);
  sharp.block({ operation: ["VipsForeignLoad"] });
  sharp.unblock({ operation: ["VipsForeignLoadJpeg", "VipsForeignLoadTiff", "VipsForeignLoadWebp"] });
  isConfigured = true;
}

function open(encoded: Uint8Array, header: PixelSize, { ignoreIcc = true } = {}): Sharp {
  configureLibvips();
  return sharp(encoded, {
    // Every warning of the decoder fails: libjpeg only warns of data that is missing or damaged in the middle.
    failOn: "warning",
    // An embedded colour profile would otherwise be applied to the pixels.
    ignoreIcc,
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

/**
 * A JPEG scaled while it is decoded: by half, a quarter or an eighth in its DCT, and the rest by Lanczos resampling.
 * @throws what libvips says of a JPEG that is damaged
 */
export function decodeScaledJpeg(encoded: Uint8Array, header: ImageHeader, size: PixelSize): Promise<Pixels> {
  return pixelsOf(resized(open(encoded, header), size), header.channels);
}

/** A CMYK picture of a JPEG or TIFF file, converted to sRGB by its profile. */
export function decodeCmykToSrgb(encoded: Uint8Array, header: ImageHeader): Promise<Pixels> {
  return pixelsOf(open(encoded, header, { ignoreIcc: false }), 3);
}

/** A TIFF without compression, converted to sRGB by the profile inside it. Alpha stays; grey stays grey. */
export function convertToSrgb(tiff: Uint8Array, { width, height, channels }: Omit<Pixels, "bytes">): Promise<Pixels> {
  return pixelsOf(open(tiff, { width, height }, { ignoreIcc: false }), channels);
}

/** Lanczos resampling; colours are weighted by their alpha, so that none comes out of transparent pixels. */
export function scalePixels({ width, height, channels, bytes }: Pixels, size: PixelSize): Promise<Pixels> {
  configureLibvips();
  const raw = sharp(bytes, { raw: { width, height, channels }, limitInputPixels: width * height });
  return pixelsOf(resized(raw, size), channels);
}

function resized(image: Sharp, { width, height }: PixelSize): Sharp {
  return image.resize(width, height, { fit: "fill", kernel: "lanczos3" });
}

async function pixelsOf(image: Sharp, expected: ChannelCount): Promise<Pixels> {
  // Raw output of a grey picture leaves its alpha out, so that it is made as RGBA.
  const made = expected === 2 ? 4 : expected;
  const inSpace = image.toColourspace(made === 1 ? "b-w" : "srgb");
  const { data, info } = await inSpace.raw().toBuffer({ resolveWithObject: true });
  const { width, height } = info;
  if (info.channels !== made) throw new Error(`${info.channels} channels came out, not ${made}`);
  return { width, height, channels: expected, bytes: expected === 2 ? greyAndAlpha(data) : data };
}

function greyAndAlpha(rgba: Uint8Array): Uint8Array {
  const pairs = new Uint8Array(rgba.length / 2);
  for (let from = 0, to = 0; to < pairs.length; from += 4, to += 2) {
    pairs[to] = rgba[from] ?? 0;
    pairs[to + 1] = rgba[from + 3] ?? 0;
  }
  return pairs;
}
