/** OpenAI's content parts: the media of a chat request. */
import { z } from "zod";
import { MediaError } from "../errors.ts";
import type { MediaKind } from "../fetch/index.ts";
import { describeIssues } from "../options.ts";

/** Types of parts that carry media, and what each carries. The names are also those of the worker's slots. */
export const PART_KINDS = { image_url: "image", video_url: "video", audio_url: "audio" } as const satisfies Record<
  string,
  MediaKind
>;
export type MediaPartType = keyof typeof PART_KINDS;

/** A user's own name for a medium, which the worker's cache goes by. */
const uuidSchema = z.string().min(1).max(1000).nullish();

/** What stands under the part's type: the URL itself, or an object with it. Fields of other purposes are let through. */
const referenceSchema = z
  .union([
    z.string().transform((url) => ({ url, uuid: null })),
    z.looseObject({ url: z.string().nullish(), uuid: uuidSchema }),
  ])
  .nullish();

const mediaPartSchema = z.looseObject({
  type: z.enum(["image_url", "video_url", "audio_url"]),
  image_url: referenceSchema,
  video_url: referenceSchema,
  audio_url: referenceSchema,
  uuid: uuidSchema,
});

/** OpenAI's part for sound in the request itself. */
const INPUT_AUDIO = "input_audio";
const inputAudioSchema = z.looseObject({
  type: z.literal(INPUT_AUDIO),
  input_audio: z.looseObject({ data: z.string().nullish(), format: z.string().nullish() }).nullish(),
  uuid: uuidSchema,
});

interface MediaReference {
  readonly url?: string | null | undefined;
  readonly uuid?: string | null | undefined;
  readonly [field: string]: unknown;
}

/** A part as it stands in a chat request, e.g. `{type: "image_url", image_url: {url: "https://…"}}`. */
export type ContentPart =
  | {
      readonly [Type in MediaPartType]: {
        readonly type: Type;
        readonly uuid?: string | null | undefined;
        readonly [field: string]: unknown;
      } & { readonly [Name in Type]?: string | MediaReference | null | undefined };
    }[MediaPartType]
  | InputAudioPart;

/** Sound in the request itself, base64; its `format` is ignored, since formats are told from the bytes. */
export interface InputAudioPart {
  readonly type: typeof INPUT_AUDIO;
  readonly input_audio?: { readonly data: string; readonly format?: string | null | undefined } | null | undefined;
  readonly uuid?: string | null | undefined;
  readonly [field: string]: unknown;
}

/** A part after it was checked: it has a URL, a name, or both. */
export interface MediaPart {
  /** The worker's slot that it goes to. */
  readonly type: MediaPartType;
  readonly kind: MediaKind;
  readonly url: string | null;
  readonly uuid: string | null;
}

/** Whether something is a part that carries a medium, well formed or not. */
export function isMediaPart(part: unknown): part is { readonly type: MediaPartType | typeof INPUT_AUDIO } {
  if (typeof part !== "object" || part === null || !("type" in part)) return false;
  return typeof part.type === "string" && (part.type === INPUT_AUDIO || Object.hasOwn(PART_KINDS, part.type));
}

/** @throws MediaError request_invalid, for one with neither URL nor uuid too */
export function parseMediaPart(part: unknown): MediaPart {
  const { type, url, uuid } = isInputAudio(part) ? inputAudioOf(part) : referenceOf(part);
  if (url === null && uuid === null)
    throw new MediaError("request_invalid", `A part of type ${type} has neither a URL nor a uuid`);
  return { type, kind: PART_KINDS[type], url, uuid };
}

function referenceOf(part: unknown): Omit<MediaPart, "kind"> {
  const { type, uuid, ...references } = parsed(mediaPartSchema, part, "content part");
  const reference = references[type];
  return { type, url: reference?.url || null, uuid: uuid ?? reference?.uuid ?? null };
}

/** As a data URL, which is what it is but for its beginning. */
function inputAudioOf(part: unknown): Omit<MediaPart, "kind"> {
  const { input_audio, uuid } = parsed(inputAudioSchema, part, "content part");
  const subtype = /^[\w.+-]{1,40}$/.exec(input_audio?.format ?? "")?.[0];
  const mediaType = subtype === undefined ? "" : `audio/${subtype}`;
  const url = input_audio?.data ? `data:${mediaType};base64,${input_audio.data}` : null;
  return { type: "audio_url", url, uuid: uuid ?? null };
}

function isInputAudio(part: unknown): boolean {
  return isMediaPart(part) && part.type === INPUT_AUDIO;
}

function parsed<Value>(schema: z.ZodType<Value>, value: unknown, name: string): Value {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new MediaError("request_invalid", `The ${name} is not formed as it should be: ${describeIssues(result.error)}`);
}

const chatRequestSchema = z.looseObject({
  messages: z.array(z.looseObject({ content: z.unknown().optional() })),
  media_io_kwargs: z.unknown().optional(),
});

/** What of a chat completion request matters here. */
export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  readonly media_io_kwargs?: unknown;
}

/** A message: text, or parts. */
export interface ChatMessage {
  readonly content?: unknown;
  readonly [field: string]: unknown;
}

/** @throws MediaError request_invalid */
export function parseChatRequest(request: unknown): ChatRequest {
  return parsed(chatRequestSchema, request, "chat request");
}

/**
 * The media parts of all messages, in their order.
 * @param most parts; more are refused before any is looked at
 * @throws MediaError request_invalid
 */
export function mediaPartsOf(request: ChatRequest, most: number): MediaPart[] {
  const parts: unknown[] = [];
  for (const { content } of request.messages) {
    if (!Array.isArray(content)) continue;
    for (const part of content) if (isMediaPart(part)) parts.push(part);
  }
  if (parts.length > most) {
    throw new MediaError("request_invalid", `The request has ${parts.length} media: at most ${most} are taken`);
  }
  return parts.map(parseMediaPart);
}

/**
 * The messages as they are now, with empty strings in place of inline media: a worker is not sent twice what it reads from
 * memory. Copied are messages, lists of content and media parts; what else there is stays the caller's own objects.
 */
export function withoutInlineMedia(messages: readonly ChatMessage[]): ChatMessage[] {
  return messages.map((message) => {
    if (!Array.isArray(message.content)) return { ...message };
    return { ...message, content: message.content.map((part) => (isMediaPart(part) ? withoutDataUrls(part) : part)) };
  });
}

/** Under each of the names: a part says which it uses, but may have others. */
function withoutDataUrls(part: object): object {
  const names = Object.keys(PART_KINDS).filter((name) => Object.hasOwn(part, name));
  const fields = part as Record<string, unknown>;
  const references = names.map((name) => [name, withoutDataUrl(fields[name])]);
  const sound = fields[INPUT_AUDIO];
  const isInlineSound = typeof sound === "object" && sound !== null && "data" in sound;
  return {
    ...part,
    ...Object.fromEntries(references),
    ...(isInlineSound ? { [INPUT_AUDIO]: { ...sound, data: "" } } : {}),
  };
}

function withoutDataUrl(reference: unknown): unknown {
  if (isInline(reference)) return "";
  if (typeof reference !== "object" || reference === null || !("url" in reference)) return reference;
  return isInline(reference.url) ? { ...reference, url: "" } : reference;
}

/** Leading white space is no protection: URL parsers drop it. */
function isInline(url: unknown): boolean {
  return typeof url === "string" && /^\s*data:/i.test(url);
}
