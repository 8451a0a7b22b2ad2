/**
 * nixl-media: decodes images, clips and sound once, names them by content hash, leaves the tensors in NIXL-registered memory and
 * hands out small JSON descriptors that workers read them by.
 */
export { ERROR_CODES, type ErrorCode, MediaError } from "./errors.ts";
export {
  type FetchedMedium,
  type FetchPolicy,
  type FetchPolicyOptions,
  type FetchRequest,
  fetchPolicyFromEnv,
  MediaFetcher,
  type MediaKind,
  type MediaSource,
} from "./fetch/index.ts";
export {
  type CacheStats,
  type ChatMessage,
  type ContentPart,
  type DecodedLease,
  type DecodeOptions,
  type ExtraArgs,
  type HoldStats,
  LoadedMessages,
  type LoaderStats,
  type LoadMessagesOptions,
  type LoadOptions,
  type LoadSource,
  MediaDecoder,
  type MediaDecoderOptions,
  type MediaIoKwargs,
  MediaLoader,
  type MediaLoaderOptions,
  type MediaPartType,
  type MediaSlot,
  type MultiModalData,
} from "./loader/index.ts";
export {
  getNixlAgent,
  getNixlMetadata,
  intoRdmaDescriptor,
  MediaReader,
  type MediaReaderOptions,
  NixlAgent,
  type NixlAgentOptions,
  type ReadMedia,
  type ReadOptions,
  SlabPool,
  type SlabPoolOptions,
} from "./nixl/index.ts";
export * from "./tensor/index.ts";
