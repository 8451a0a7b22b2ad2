/**
 * Settings of image decoding, as a server is configured with them. JSON, hence snake_case.
 */
import { z } from "zod";

/** Decoded bytes that one image may have when nothing else is said: 128 MiB. */
const DEFAULT_MAX_ALLOC = 128 * 1024 * 1024;

const wholeNumber = z.number().int().nonnegative();

const imageLimitsSchema = z
  .strictObject({
    max_image_width: wholeNumber.optional().describe("Largest width that is decoded, pixels. Default: no limit."),
    max_image_height: wholeNumber.optional().describe("Largest height that is decoded, pixels. Default: no limit."),
    max_alloc: wholeNumber
      .default(DEFAULT_MAX_ALLOC)
      .describe(
        "Most bytes that one decoded image may have (16-bit samples count two, and AVIF always has alpha), as it is decoded and as settings change it; while they do, up to three times as much is held besides. Default: 128 MiB.",
      ),
  })
  .meta({ title: "ImageLimits" });

const colourSchema = z.union([
  z.tuple([colourLevel(), colourLevel(), colourLevel()]),
  z
    .string()
    .regex(/^#[0-9a-fA-F]{6}$/, { error: "expected #rrggbb or [r, g, b]" })
    .transform((text): Colour => [hexByte(text, 1), hexByte(text, 3), hexByte(text, 5)]),
]);

/** Levels of red, green and blue, 0 to 255. */
export type Colour = [red: number, green: number, blue: number];

export const imageOptionsSchema = z
  .strictObject({
    auto_orient: z
      .boolean()
      .default(false)
      .describe(
        "Turn and mirror the picture as its EXIF orientation says (JPEG, PNG, WebP, TIFF; of AVIF the properties irot and imir), as Pillow's ImageOps.exif_transpose does.",
      ),
    to_srgb: z
      .boolean()
      .default(false)
      .describe(
        "Convert to sRGB from the embedded ICC profile (JPEG, PNG, WebP, TIFF, AVIF), with perceptual intent. Without a profile, or with one for other channels, nothing changes; grey stays grey.",
      ),
    channels: z
      .enum(["keep", "rgb", "rgba"])
      .default("keep")
      .describe("Channels of the tensor: as the file has them, three, or four (opaque where the file has no alpha)."),
    background: colourSchema
      .default([255, 255, 255])
      .describe('Colour under transparent pixels when channels is "rgb": [r, g, b] or "#rrggbb". Default: white.'),
    max_pixels: z
      .int()
      .positive()
      .nullish()
      .describe(
        "Scale larger pictures down to at most so many pixels, keeping their aspect; metadata then have source_width and source_height. Baseline JPEG is scaled while it is decoded, and max_alloc then counts what that makes; all other formats are decoded whole. Default: no scaling.",
      ),
    limits: imageLimitsSchema
      .nullable()
      .prefault({})
      .describe(
        "Limits, judged on the header before anything is decoded. Absent or {}: the defaults. null: none but the decoders' own (512 MiB for most).",
      ),
  })
  .meta({ title: "ImageOptions", description: "Server-level settings of image decoding." });

function colourLevel() {
  return z.int().min(0).max(255);
}

function hexByte(text: string, at: number): number {
  return Number.parseInt(text.slice(at, at + 2), 16);
}

/** Whether these settings may make anything but the picture as it lies in the file. */
export function mayChangePicture(options: ImageOptions): boolean {
  return options.auto_orient || options.to_srgb || options.channels !== "keep" || isPresent(options.max_pixels);
}

function isPresent<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined;
}

/** Image settings after parsing: every default is filled in. */
export type ImageOptions = z.output<typeof imageOptionsSchema>;
/** Image settings as they are written. */
export type ImageOptionsInput = z.input<typeof imageOptionsSchema>;
/** Limits after parsing; null means none. */
export type ImageLimits = ImageOptions["limits"];
