/** Judges what a header promises, before any decoder sees the bytes. */
import { MediaError } from "../../errors.ts";
import type { ImageFormat } from "../../tensor/index.ts";
import type { ImageHeader, PixelSize } from "./image_header.ts";
import type { ImageLimits } from "./options.ts";

/**
 * @param decoded size of what the decoder makes, pixels: less than the header's where a JPEG is scaled while it is decoded
 * @param limits null for none; even then the size must be a number that can be counted exactly
 * @throws MediaError `limit_exceeded`, naming the dimensions and the limit
 */
export function judgeImageLimits(
  format: ImageFormat,
  header: ImageHeader,
  limits: ImageLimits,
  decoded: PixelSize = header,
): void {
  const { width, height } = header;
  const bytes = decoded.width * decoded.height * header.bytesPerPixel;
  const refuse = (limit: string) => {
    throw new MediaError(
      "limit_exceeded",
      `${format} image: dimensions ${width}x${height} are over the limit, ${limit}`,
    );
  };
  if (limits?.max_image_width !== undefined && width > limits.max_image_width) {
    refuse(`max_image_width ${limits.max_image_width}`);
  }
  if (limits?.max_image_height !== undefined && height > limits.max_image_height) {
    refuse(`max_image_height ${limits.max_image_height}`);
  }
  if (limits && bytes > limits.max_alloc) refuse(`max_alloc ${limits.max_alloc} bytes`);
  if (!Number.isSafeInteger(bytes)) refuse("2^53 bytes");
}

/**
 * Judges what the settings make of a picture: four channels take more than the one that the file has, and a request's settings
 * do not loosen the server's limits.
 * @throws MediaError `limit_exceeded`
 */
export function judgeTensorBytes(
  format: ImageFormat,
  { width, height, channels }: PixelSize & { readonly channels: number },
  limits: ImageLimits,
): void {
  if (!limits || width * height * channels <= limits.max_alloc) return;
  throw new MediaError(
    "limit_exceeded",
    `${format} image: dimensions ${width}x${height} with ${channels} channels are over the limit, max_alloc ${limits.max_alloc} bytes`,
  );
}
