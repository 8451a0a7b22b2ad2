/**
 * libvips, through sharp: JPEG (libjpeg-turbo's pixels, bit for bit), GIF, and the kinds of TIFF that the other decoder
 * does not know.
 */
import sharp from "sharp";
import { corruptImage } from "../byte_reader.ts";
import type { DecodableFormat } from "../header.ts";
import { readGifFrame } from "../headers/gif.ts";
import type { ImageHeader } from "../image_header.ts";
import type { DecodedPicture } from "./picture.ts";

let isConfigured = false;

/** One thread, no cache of operations, and only the loaders that are wanted: SVG, PDF and the rest cannot be reached. */
function configure(): void {
  if (isConfigured) return;
  sharp.cache(false);
  sharp.concurrency(1);
  sharp.block({ operation: ["VipsForeignLoad"] });
  sharp.unblock({ operation: ["VipsForeignLoadJpeg", "VipsForeignLoadNsgif", "VipsForeignLoadTiff"] });
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
  if (format === "Gif") return decodeGif(encoded, header);
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

/**
 * The first frame on the logical screen, always RGBA: outside of the frame (0, 0, 0, 0), and under its transparent
 * pixels the palette's colour, which libvips does not keep. libvips may also choose another canvas than the screen
 * (it distrusts some common screen sizes), but places the frame in it at the same coordinates.
 */
async function decodeGif(encoded: Uint8Array, header: ImageHeader): Promise<DecodedPicture> {
  const frame = readGifFrame(encoded);
  const canvas = await decodeRaw(encoded, header, "srgb");
  if (canvas.width < frame.left + frame.width || canvas.height < frame.top + frame.height || canvas.channels < 3) {
    throw corruptImage("Gif", "its first frame does not decode to the size that it says");
  }
  const { screenWidth, screenHeight } = frame;
  const [red, green, blue] = frame.transparentColor ?? [0, 0, 0];
  const { data, channels } = canvas;
  return {
    width: screenWidth,
    height: screenHeight,
    channels: 4,
    writeTo(payload) {
      payload.fill(0);
      const right = Math.min(screenWidth, frame.left + frame.width);
      const bottom = Math.min(screenHeight, frame.top + frame.height);
      for (let y = frame.top; y < bottom; y++) {
        let from = (y * canvas.width + frame.left) * channels;
        let to = (y * screenWidth + frame.left) * 4;
        for (let x = frame.left; x < right; x++, from += channels, to += 4) {
          const isOpaque = channels === 3 || data[from + 3] !== 0;
          payload[to] = isOpaque ? (data[from] ?? 0) : red;
          payload[to + 1] = isOpaque ? (data[from + 1] ?? 0) : green;
          payload[to + 2] = isOpaque ? (data[from + 2] ?? 0) : blue;
          payload[to + 3] = isOpaque ? 255 : 0;
        }
      }
    },
  };
}
