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
        "Most bytes that one decoded image may have (16-bit samples count two, and AVIF always has alpha). Default: 128 MiB.",
      ),
  })
  .meta({ title: "ImageLimits" });

export const imageOptionsSchema = z
  .strictObject({
    limits: imageLimitsSchema
      .nullable()
      .prefault({})
      .describe(
        "Limits, judged on the header before anything is decoded. Absent or {}: the defaults. null: none but the decoders' own (512 MiB for most).",
      ),
  })
  .meta({ title: "ImageOptions", description: "Server-level settings of image decoding." });

/** Image settings after parsing: every default is filled in. */
export type ImageOptions = z.output<typeof imageOptionsSchema>;
/** Image settings as they are written. */
export type ImageOptionsInput = z.input<typeof imageOptionsSchema>;
/** Limits after parsing; null means none. */
export type ImageLimits = ImageOptions["limits"];
