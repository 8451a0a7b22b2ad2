/** Settings of a loader: one schema, which is the types and the documentation. */
import { z } from "zod";
import { imageOptionsSchema } from "../decode/image/options.ts";
import { decoderPoolOptionsSchema } from "../decode/options.ts";
import { videoOptionsSchema } from "../decode/video/options.ts";
import { nixlAgentOptionsSchema, slabPoolOptionsSchema } from "../nixl/index.ts";

const MEBIBYTE = 1024 * 1024;

/** What a decoder without an agent takes. */
export const mediaDecoderOptionsSchema = z.strictObject({
  image: imageOptionsSchema.prefault({}).describe("Image settings of this server, limits included (JSON, snake_case)"),
  video: videoOptionsSchema.prefault({}).describe("Video settings of this server, limits included (JSON, snake_case)"),
  hashVideo: z.boolean().default(false).describe("Whether clips get a content hash; images always do"),
  maxEncodedBytes: z
    .int()
    .positive()
    .default(512 * MEBIBYTE)
    .describe("The largest encoded medium that is taken, bytes"),
  maxDataUrlBytes: z
    .int()
    .positive()
    .default(16 * MEBIBYTE)
    .describe("The most bytes that a data URL may hold, decoded"),
  pool: slabPoolOptionsSchema.prefault({}).describe("Memory for tensors: slabBytes, budgetBytes, prefault"),
  decoders: decoderPoolOptionsSchema
    .prefault({})
    .describe("Decoder processes: how many, how long they may take, when they are replaced"),
});
export type MediaDecoderOptions = z.input<typeof mediaDecoderOptionsSchema>;

/** What a loader takes: the same, and the agent's settings. */
export const mediaLoaderOptionsSchema = mediaDecoderOptionsSchema.extend({
  agent: nixlAgentOptionsSchema
    .prefault({})
    .describe("NIXL agent: name, backend, progressDelayMicroseconds, drainIntervalMs"),
});
export type MediaLoaderOptions = z.input<typeof mediaLoaderOptionsSchema>;

/** Settings of one medium. */
export const loadOptionsSchema = z.strictObject({
  hashVideo: z.boolean().optional().describe("Whether this clip gets a content hash; default as the loader was set"),
  signal: z
    .instanceof(AbortSignal)
    .optional()
    .describe("Gives up: a waiting medium at once, a running one by ending its decoder"),
});
export type LoadOptions = z.input<typeof loadOptionsSchema>;
