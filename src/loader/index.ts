/** load(): fetch, decode, register and describe in a row. */
export { type DecodedLease, MediaDecoder } from "./media_decoder.ts";
export { MediaLoader } from "./media_loader.ts";
export {
  type LoadOptions,
  loadOptionsSchema,
  type MediaDecoderOptions,
  type MediaLoaderOptions,
  mediaDecoderOptionsSchema,
  mediaLoaderOptionsSchema,
} from "./options.ts";
