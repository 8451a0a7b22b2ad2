/**
 * What is known about a medium besides its tensor: zod schemas, the types they make, and the canonical JSON text.
 *
 * On the wire metadata are externally tagged, `{"Image":{…}}`, `{"Video":{…}}` or `{"Audio":{…},"sample_rate":…}`. The order of
 * keys is part of the format, since the text of a clip's or a sound's metadata enters its content hash; it is the order of the
 * schemas here, whatever the order in which the keys arrived.
 */
import { z } from "zod";
import { MediaError } from "../errors.ts";
import { dataTypeSchema } from "./data_type.ts";
import { formatSerdeFloat } from "./serde_float.ts";
import { shapeSchema } from "./shape.ts";

export const IMAGE_FORMATS = [
  "Png",
  "Jpeg",
  "Gif",
  "WebP",
  "Pnm",
  "Tiff",
  "Tga",
  "Dds",
  "Bmp",
  "Ico",
  "Hdr",
  "OpenExr",
  "Farbfeld",
  "Avif",
  "Qoi",
] as const;

export const imageFormatSchema = z.enum(IMAGE_FORMATS).describe("Container format, sniffed from the bytes.");
export type ImageFormat = z.infer<typeof imageFormatSchema>;

export const colorTypeSchema = z
  .enum(["L8", "La8", "Rgb8", "Rgba8"])
  .describe("Meaning of the channels: grey, grey + alpha, RGB, RGBA; eight bits each.");
export type ColorType = z.infer<typeof colorTypeSchema>;

export const imageMetadataSchema = z
  .object({
    format: imageFormatSchema,
    color_type: colorTypeSchema,
    layout: z.literal("HWC").describe("Order of the dimensions: height, width, channels."),
    source_width: z
      .int()
      .positive()
      .optional()
      .describe("Width in the file, pixels; only of a picture that was scaled down (max_pixels)."),
    source_height: z.int().positive().optional().describe("Height in the file, pixels; likewise."),
  })
  .readonly()
  .meta({ title: "ImageMetadata", description: "Metadata of a decoded image." });
export type ImageMetadata = z.infer<typeof imageMetadataSchema>;

export const videoMetadataSchema = z
  .object({
    source_fps: z.number().describe("Frame rate of the clip, frames per second."),
    source_duration: z.number().describe("Duration of the clip, seconds."),
    sampled_timestamps: z
      .array(z.number())
      .readonly()
      .describe("Presentation timestamp of each frame taken, seconds, in the order of the tensor's first dimension."),
  })
  .readonly()
  .meta({ title: "VideoMetadata", description: "Metadata of the frames sampled from a clip." });
export type VideoMetadata = z.infer<typeof videoMetadataSchema>;

const sampleRateSchema = z.int().positive();

export const audioMetadataSchema = z
  .strictObject({
    sample_rate: sampleRateSchema.describe("Sample rate of the tensor, samples per second and channel."),
    channels: z.int().positive().describe("Channels of the tensor: its second dimension."),
    source_sample_rate: sampleRateSchema.describe("Sample rate of the source."),
    source_channels: z.int().positive().describe("Channels of the source."),
    source_duration: z.number().nonnegative().describe("Duration of the source, seconds."),
  })
  .readonly()
  .meta({ title: "AudioMetadata", description: "Metadata of decoded sound." });
export type AudioMetadata = z.infer<typeof audioMetadataSchema>;

const taggedAudioSchema = z
  .strictObject({ Audio: audioMetadataSchema, sample_rate: sampleRateSchema })
  .refine(({ Audio, sample_rate }) => Audio.sample_rate === sample_rate, "two sample rates for one tensor");
/** Sound's metadata as they travel: workers read the sample rate beside the tagged object. */
export type TaggedAudioMetadata = Readonly<z.infer<typeof taggedAudioSchema>>;

/** Metadata of the kinds that this version writes, externally tagged. */
export type MediaMetadata = { readonly Image: ImageMetadata } | { readonly Video: VideoMetadata } | TaggedAudioMetadata;

/**
 * Metadata of a kind that this version does not know: another writer's, or a later version's. It is kept as it came and
 * printed again, so that a reader that only wants the tensor can have it.
 */
export type OtherMetadata = { readonly [kind: string]: unknown };

/** Metadata as a descriptor may carry them. */
export type DescriptorMetadata = MediaMetadata | OtherMetadata;

export const mediaMetadataSchema = z
  .union([
    z.strictObject({ Image: imageMetadataSchema }).readonly(),
    z.strictObject({ Video: videoMetadataSchema }).readonly(),
    taggedAudioSchema.readonly(),
  ])
  .meta({ title: "MediaMetadata", description: "Externally tagged metadata: an image's, a clip's or a sound's." });

/**
 * Reads metadata of any kind. `Image` and `Video` are checked and brought into canonical key order, keys beside or in them
 * that are not known are dropped; an object with neither passes as {@link OtherMetadata}. So does `Audio` with other keys than
 * this version writes: the fleet has no form for it that all agree on.
 */
export const descriptorMetadataSchema = z
  .looseObject({ Image: imageMetadataSchema.optional(), Video: videoMetadataSchema.optional() })
  .refine((metadata) => metadata.Image === undefined || metadata.Video === undefined, {
    error: "metadata must be of one kind, got Image and Video",
  })
  .transform(({ Image, Video, ...other }): DescriptorMetadata => {
    if (Image !== undefined) return Object.freeze({ Image });
    if (Video !== undefined) return Object.freeze({ Video });
    return Object.freeze(taggedAudioSchema.safeParse(other).data ?? other);
  })
  .meta({
    title: "DescriptorMetadata",
    description: "Externally tagged metadata; kinds not known are kept as they are.",
  });

export const tensorInfoSchema = z
  .object({
    shape: shapeSchema,
    dtype: dataTypeSchema,
    metadata: mediaMetadataSchema.nullable().describe("What else is known of the medium; null when nothing is."),
  })
  .readonly()
  .meta({ title: "TensorInfo", description: "Everything about a tensor but its bytes." });

/** Everything about a tensor but its bytes, of media that this version decodes. */
export type TensorInfo = z.infer<typeof tensorInfoSchema>;

/** Whether metadata are an image's. Anything under the key `Image` was checked when it was read. */
export function isImageMetadata(metadata: DescriptorMetadata): metadata is { readonly Image: ImageMetadata } {
  return Object.hasOwn(metadata, "Image");
}

/** Whether metadata are a clip's. Anything under the key `Video` was checked when it was read. */
export function isVideoMetadata(metadata: DescriptorMetadata): metadata is { readonly Video: VideoMetadata } {
  return Object.hasOwn(metadata, "Video");
}

/** Whether metadata are a sound's, in the form that this version writes. */
export function isAudioMetadata(metadata: DescriptorMetadata): metadata is TaggedAudioMetadata {
  return Object.hasOwn(metadata, "Audio") && taggedAudioSchema.safeParse(metadata).success;
}

/** A sound's metadata as they travel. */
export function taggedAudio(metadata: AudioMetadata): TaggedAudioMetadata {
  return { Audio: metadata, sample_rate: metadata.sample_rate };
}

/**
 * The clip's metadata.
 * @throws MediaError metadata_missing when there are none; metadata_kind_mismatch when they are of another kind
 */
export function requireVideoMetadata(metadata: DescriptorMetadata | null): VideoMetadata {
  if (metadata === null) throw new MediaError("metadata_missing", "the tensor has no metadata, so it is no known clip");
  if (!isVideoMetadata(metadata)) {
    throw new MediaError("metadata_kind_mismatch", "the tensor's metadata are of another kind than Video");
  }
  return metadata.Video;
}

/** Canonical JSON text of an image's metadata (the inner object): no spaces, keys in the order of the schema. */
function imageMetadataJson(metadata: ImageMetadata): string {
  const { format, color_type, layout, source_width, source_height } = metadata;
  return JSON.stringify({ format, color_type, layout, source_width, source_height });
}

/**
 * Canonical JSON text of a clip's metadata (the inner object): no spaces, keys in the order of the schema, numbers as
 * serde_json prints them. It is hashed, so it is the same text wherever the clip was decoded.
 * @throws MediaError invalid_argument for a number that is not finite
 */
export function videoMetadataJson(metadata: VideoMetadata): string {
  const timestamps = metadata.sampled_timestamps.map(formatSerdeFloat).join(",");
  return (
    `{"source_fps":${formatSerdeFloat(metadata.source_fps)},` +
    `"source_duration":${formatSerdeFloat(metadata.source_duration)},"sampled_timestamps":[${timestamps}]}`
  );
}

/**
 * Canonical JSON text of a sound's metadata (the inner object), as {@link videoMetadataJson}.
 * @throws MediaError invalid_argument for a duration that is not finite
 */
export function audioMetadataJson(metadata: AudioMetadata): string {
  const { sample_rate, channels, source_sample_rate, source_channels, source_duration } = metadata;
  return (
    `{"sample_rate":${sample_rate},"channels":${channels},"source_sample_rate":${source_sample_rate},` +
    `"source_channels":${source_channels},"source_duration":${formatSerdeFloat(source_duration)}}`
  );
}

/** JSON text of metadata of any kind, tag included; of an unknown kind as `JSON.stringify` prints it. */
export function metadataJson(metadata: DescriptorMetadata | null): string {
  if (metadata === null) return "null";
  if (isImageMetadata(metadata)) return `{"Image":${imageMetadataJson(metadata.Image)}}`;
  if (isVideoMetadata(metadata)) return `{"Video":${videoMetadataJson(metadata.Video)}}`;
  if (isAudioMetadata(metadata)) {
    return `{"Audio":${audioMetadataJson(metadata.Audio)},"sample_rate":${metadata.sample_rate}}`;
  }
  return JSON.stringify(metadata);
}
