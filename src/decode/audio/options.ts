/** Settings of audio decoding: one zod schema that is the types, the checks and the documentation. */
import { z } from "zod";

/** Decoded bytes of one sound that are allowed where no limit is set: 256 MiB, 70 minutes at 16 kHz. */
export const DEFAULT_AUDIO_MAX_ALLOC = 256 * 1024 * 1024;

/** Most decoded bytes of one sound, whatever the limits: it is decoded into one mapped file before it gets its memory. */
export const MOST_AUDIO_BYTES = 2 ** 31;

export const audioLimitsSchema = z
  .strictObject({
    max_alloc: z
      .int()
      .nonnegative()
      .nullable()
      .default(DEFAULT_AUDIO_MAX_ALLOC)
      .describe("Most bytes that a decoded sound may take, counted while it is decoded; null is no limit but 2 GiB."),
  })
  .meta({ title: "AudioLimits", description: "Limits of the server; a request cannot change them." });

export const audioOptionsSchema = z
  .strictObject({
    sample_rate: z
      .int()
      .min(1000)
      .max(384_000)
      .nullable()
      .default(16_000)
      .describe("Sample rate that the sound is converted to, samples per second; null: the source's."),
    channels: z
      .union([z.literal(1), z.literal(2)])
      .nullable()
      .default(1)
      .describe("Channels that the sound is mixed to: 1 or 2; null: the source's."),
    max_duration: z
      .number()
      .min(0.001)
      .max(1_000_000)
      .nullish()
      .describe("Seconds of sound that are taken, from its beginning; all of it when not set."),
    limits: audioLimitsSchema
      .nullable()
      .prefault({})
      .describe("Absent or empty: the defaults. Null: no limits at all."),
  })
  .meta({ title: "AudioOptions", description: "What becomes of sound." });

/** Options as a caller writes them. */
export type AudioOptions = z.input<typeof audioOptionsSchema>;
/** Options with defaults filled in. */
export type AudioSettings = z.output<typeof audioOptionsSchema>;
