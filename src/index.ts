/**
 * nixl-media: decodes images and clips once, names them by content hash, leaves the tensors in NIXL-registered memory and
 * hands out small JSON descriptors that workers read them by.
 */
export { ERROR_CODES, type ErrorCode, MediaError } from "./errors.ts";
export type { MediaSource } from "./fetch/index.ts";
export {
  type DecodedLease,
  type LoadOptions,
  MediaDecoder,
  type MediaDecoderOptions,
  MediaLoader,
  type MediaLoaderOptions,
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
