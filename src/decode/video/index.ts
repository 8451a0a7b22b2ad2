/** Decoding of clips. Used in a decoder child only. */
export { decodeVideo, type VideoDecodeContext, type VideoDecodeOptions } from "./decode.ts";
export {
  DEFAULT_VIDEO_MAX_ALLOC,
  parseVideoOptions,
  type VideoOptions,
  type VideoSettings,
  videoLimitsSchema,
  videoOptionsSchema,
} from "./options.ts";
export type { ProcessRunner } from "./process.ts";
