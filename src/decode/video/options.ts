/** Settings of video decoding: one zod schema that is the types, the checks and the documentation. */
import { z } from "zod";

/** Decoded bytes of one clip that are allowed where no limit is set: 512 MiB. */
export const DEFAULT_VIDEO_MAX_ALLOC = 512 * 1024 * 1024;

/**
 * Most frames that one clip may give, whatever the limits: more than an hour at 30 frames a second. The walk over frames is an
 * expression with a threshold for each, of which ffmpeg makes a tree of some 600 bytes a threshold.
 */
export const MOST_FRAMES = 131_072;

export const videoLimitsSchema = z
  .strictObject({
    max_alloc: z
      .int()
      .nonnegative()
      .nullable()
      .default(DEFAULT_VIDEO_MAX_ALLOC)
      .describe(
        `Most bytes that the decoded frames of one clip may take, and one frame before it is scaled down; null is no limit but ${MOST_FRAMES} frames.`,
      ),
  })
  .meta({ title: "VideoLimits", description: "Limits of the server; a request cannot change them." });

export const videoOptionsSchema = z
  .strictObject({
    fps: z
      .number()
      .positive()
      .nullish()
      .describe("Frames to take per second of the clip. Not together with num_frames."),
    max_frames: z.int().nonnegative().nullish().describe("Most frames to take. Not together with num_frames."),
    num_frames: z
      .int()
      .nonnegative()
      .nullish()
      .describe("Frames to take, spread evenly over the clip; at least one is taken. All of them when neither is set."),
    start: z
      .number()
      .nonnegative()
      .nullish()
      .describe("From where on frames are taken, seconds by the clip's own timestamps. Default: its beginning."),
    end: z
      .number()
      .positive()
      .nullish()
      .describe(
        "Before where frames are taken, seconds. Default: the clip's end. Timestamps stay those of the whole clip.",
      ),
    sampling: z
      .enum(["targets", "indices", "keyframes"])
      .default("targets")
      .describe(
        "Which frames are taken: the first ones at or behind positions evenly spread over the time, as the fleet's reference does; those whose numbers are " +
          "evenly spread from the first to the last; or key frames alone, of which as many are taken, evenly, as are asked for.",
      ),
    max_pixels: z
      .int()
      .positive()
      .nullish()
      .describe("Most pixels of a frame: larger ones are scaled down, sides in proportion and rounded down."),
    strict: z
      .boolean()
      .default(false)
      .describe("Refuse a clip of which any part that is needed is damaged or missing, instead of skipping it."),
    auto_rotate: z
      .boolean()
      .default(false)
      .describe(
        "Turn the frames as the display matrix of an MP4 or QuickTime file says: quarter turns and mirrorings.",
      ),
    color: z
      .enum(["reference", "tagged"])
      .default("reference")
      .describe(
        "Conversion to RGB: by BT.601's coefficients whatever the clip says, or by the matrix that it is tagged with.",
      ),
    with_audio: z
      .boolean()
      .default(false)
      .describe(
        "In chat requests, the clip's sound comes as a second medium, if it has one: fetched once, decoded as audio settings say.",
      ),
    limits: videoLimitsSchema
      .nullable()
      .prefault({})
      .describe("Absent or empty: the defaults. Null: no limits at all."),
  })
  .superRefine(({ fps, max_frames, num_frames, start, end }, context) => {
    const refuse = (first: string, second: string): void =>
      context.addIssue({ code: "custom", message: `${first} and ${second} cannot be specified at the same time` });
    if (present(fps) && present(num_frames)) refuse("fps", "num_frames");
    if (present(max_frames) && present(num_frames)) refuse("max_frames", "num_frames");
    if (present(end) && end <= (start ?? 0)) context.addIssue({ code: "custom", message: "end must be behind start" });
  })
  .meta({ title: "VideoOptions", description: "Which frames of a clip are decoded." });

/** Options as a caller writes them. */
export type VideoOptions = z.input<typeof videoOptionsSchema>;
/** Options with defaults filled in. */
export type VideoSettings = z.output<typeof videoOptionsSchema>;

function present<T>(value: T | null | undefined): value is T {
  return value !== null && value !== undefined;
}
