/**
 * Decoding of clips. Only a decoder child imports this file; the parent process, which checks settings, imports options.ts, so
 * that it loads neither codecs nor native code.
 */
export { decodeVideo, type VideoDecodeOptions } from "./decode.ts";
export {
  DEFAULT_VIDEO_MAX_ALLOC,
  type VideoOptions,
  type VideoSettings,
  videoLimitsSchema,
  videoOptionsSchema,
} from "./options.ts";
