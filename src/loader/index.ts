/** load(): fetch, decode, register and describe in a row; the cache, and who holds what for how long. */
export type { CacheStats } from "./cache.ts";
export type { ChatMessage, ContentPart, MediaPartType } from "./content_parts.ts";
export type { HoldStats } from "./holds.ts";
export { type DecodedLease, type LoadSource, MediaDecoder } from "./media_decoder.ts";
export { type LoaderStats, MediaLoader } from "./media_loader.ts";
export type { MediaIoKwargs } from "./media_settings.ts";
export { type ExtraArgs, LoadedMessages, type MediaSlot, type MultiModalData } from "./messages.ts";
export {
  type DecodeOptions,
  decodeOptionsSchema,
  type LoadMessagesOptions,
  type LoadOptions,
  loadMessagesOptionsSchema,
  loadOptionsSchema,
  type MediaDecoderOptions,
  type MediaLoaderOptions,
  mediaDecoderOptionsSchema,
  mediaLoaderOptionsSchema,
} from "./options.ts";
