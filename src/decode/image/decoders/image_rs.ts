/**
 * The Rust `image` crate, through `@napi-rs/image`: exact for PNG, WebP, TIFF, BMP, ICO, PNM and four-component JPEG.
 * Its AVIF (libavif) does not turn pictures by their orientation and stays within 4 levels of Pillow's.
 */
import { JsColorType, Transformer } from "@napi-rs/image";
import type { DecodableFormat } from "../header.ts";
import type { ChannelCount, ImageHeader } from "../image_header.ts";
import { corruptImage, unsupportedImage } from "../refusals.ts";
import type { DecodedPicture } from "./picture.ts";
import { roundTo8Bits } from "./samples.ts";

interface PixelKind {
  readonly channels: ChannelCount;
  readonly bits: 8 | 16;
}

/** Pixel kinds with whole-number samples. The floating-point kinds are missing on purpose: no 8-bit picture is meant. */
const PIXEL_KINDS = new Map<JsColorType, PixelKind>([
  [JsColorType.L8, { channels: 1, bits: 8 }],
  [JsColorType.La8, { channels: 2, bits: 8 }],
  [JsColorType.Rgb8, { channels: 3, bits: 8 }],
  [JsColorType.Rgba8, { channels: 4, bits: 8 }],
  [JsColorType.L16, { channels: 1, bits: 16 }],
  [JsColorType.La16, { channels: 2, bits: 16 }],
  [JsColorType.Rgb16, { channels: 3, bits: 16 }],
  [JsColorType.Rgba16, { channels: 4, bits: 16 }],
]);

export async function decodeWithImageRs(
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
): Promise<DecodedPicture> {
  const transformer = new Transformer(format === "Avif" ? withAvifBrand(encoded) : encoded);
  const { width, height, kind } = await pictureOf(transformer, format, header);
  // On this thread, which has nothing else to do: handing over costs more than a small picture.
  const pixels = transformer.rawPixelsSync();
  if (pixels.byteLength !== width * height * kind.channels * (kind.bits / 8)) {
    throw corruptImage(format, "it does not decode to what its header says");
  }
  const samples = kind.bits === 16 ? uint16View(pixels) : pixels;
  // It makes RGBA of 8 bits of every AVIF.
  const dropsAlpha = format === "Avif" && header.channels === 3 && kind.channels === 4;
  return {
    width,
    height,
    channels: dropsAlpha ? 3 : kind.channels,
    writeTo(payload) {
      if (dropsAlpha) writeWithoutAlpha(pixels, payload);
      else if (kind.bits === 16)
        for (let at = 0; at < payload.length; at++) payload[at] = roundTo8Bits(samples[at] ?? 0);
      else payload.set(samples);
      // Given back now rather than when it is collected: the next picture finds it again, without a page fault.
      if (pixels.buffer instanceof ArrayBuffer) pixels.buffer.transfer(0);
    },
  };
}

/** Size and samples of the picture that will come out. */
async function pictureOf(
  transformer: Transformer,
  format: DecodableFormat,
  { width, height, channels, bytesPerPixel }: ImageHeader,
): Promise<{ width: number; height: number; kind: PixelKind }> {
  // A PNG's header says it all; asking takes as long as a small picture.
  if (format === "Png") return { width, height, kind: { channels, bits: bytesPerPixel > channels ? 16 : 8 } };
  const metadata = await transformer.metadata();
  const kind = PIXEL_KINDS.get(metadata.colorType);
  if (!kind) throw unsupportedImage(format, "floating-point samples are not decoded");
  return { width: metadata.width, height: metadata.height, kind };
}

function writeWithoutAlpha(pixels: Uint8Array, payload: Uint8Array): void {
  for (let from = 0, to = 0; to < payload.length; from += 4, to += 3) {
    payload[to] = pixels[from] ?? 0;
    payload[to + 1] = pixels[from + 1] ?? 0;
    payload[to + 2] = pixels[from + 2] ?? 0;
  }
}

/** The same memory as native-endian 16-bit samples; copied only where it does not begin on an even address. */
function uint16View(bytes: Uint8Array): Uint16Array {
  const even = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(even.buffer, even.byteOffset, even.byteLength / 2);
}

/** The crate knows only the brand "avif"; image sequences ("avis") and "mif1" files hold a still picture in the same way. */
function withAvifBrand(encoded: Uint8Array): Uint8Array {
  const brand = new TextEncoder().encode("avif");
  if (brand.every((byte, index) => encoded[8 + index] === byte)) return encoded;
  const copy = encoded.slice();
  copy.set(brand, 8);
  return copy;
}
