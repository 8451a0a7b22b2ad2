/** How a request's media are decoded: the server's settings, or the request's own within the server's limits. */
import { z } from "zod";
import { audioOptionsSchema, imageOptionsSchema, videoOptionsSchema } from "../decode/index.ts";
import { MediaError } from "../errors.ts";
import type { MediaKind } from "../fetch/index.ts";
import { describeIssues } from "../options.ts";

/** Settings by modality; null where the server does not take it. */
export interface MediaSettings {
  readonly image: z.output<typeof imageOptionsSchema> | null;
  readonly video: z.output<typeof videoOptionsSchema> | null;
  readonly audio: z.output<typeof audioOptionsSchema> | null;
}

const requestedSchema = z.record(z.string(), z.unknown()).nullish();

/** `media_io_kwargs` of a request. Settings of modalities that are not taken here are no concern. */
export const mediaIoKwargsSchema = z
  .strictObject({ image: requestedSchema, video: requestedSchema, audio: requestedSchema })
  .nullish();

/** A request's settings: those of a modality replace the server's as a whole, but for the limits, which are the server's. */
export type MediaIoKwargs = z.input<typeof mediaIoKwargsSchema>;

/**
 * The settings that a request's media are decoded with.
 * @param requested the request's `media_io_kwargs`: whatever limits it names are ignored
 * @throws MediaError invalid_options
 */
export function settingsFor(server: MediaSettings, requested: unknown): MediaSettings {
  const result = mediaIoKwargsSchema.safeParse(requested);
  if (!result.success) throw invalid("media_io_kwargs", result.error);
  const { image, video, audio } = result.data ?? {};
  return {
    image: image && server.image ? replaced("image", imageOptionsSchema, image, server.image) : server.image,
    video: video && server.video ? replaced("video", videoOptionsSchema, video, server.video) : server.video,
    audio: audio && server.audio ? replaced("audio", audioOptionsSchema, audio, server.audio) : server.audio,
  };
}

/**
 * A modality's settings.
 * @throws MediaError modality_not_enabled
 */
export function enabledSettings(settings: MediaSettings, kind: MediaKind): object {
  const enabled = settings[kind];
  if (enabled === null) throw new MediaError("modality_not_enabled", `Model does not support ${kind} inputs`);
  return enabled;
}

function replaced<Settings extends { limits: unknown }>(
  name: string,
  schema: z.ZodType<Settings>,
  { limits: _, ...requested }: Record<string, unknown>,
  server: Settings,
): Settings {
  const result = schema.safeParse(requested);
  if (!result.success) throw invalid(`media_io_kwargs.${name}`, result.error);
  return { ...result.data, limits: server.limits };
}

function invalid(what: string, error: z.ZodError): MediaError {
  return new MediaError("invalid_options", `invalid ${what}: ${describeIssues(error)}`, { cause: error });
}
