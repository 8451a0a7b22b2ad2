/** Settings of a loader: one schema, which is the types and the documentation. */
import { z } from "zod";
import {
  audioOptionsSchema,
  decoderPoolOptionsSchema,
  imageOptionsSchema,
  videoOptionsSchema,
} from "../decode/index.ts";
import { fetchPolicySchema } from "../fetch/index.ts";
import { nixlAgentOptionsSchema, slabPoolOptionsSchema } from "../nixl/index.ts";
import { MAXIMUM_DELAY_MS } from "../options.ts";
import { mediaIoKwargsSchema } from "./media_settings.ts";

/** What a decoder without an agent takes. */
export const mediaDecoderOptionsSchema = z.strictObject({
  image: imageOptionsSchema
    .nullable()
    .prefault({})
    .describe("Image settings of this server, limits included (JSON, snake_case); null: images are not taken"),
  video: videoOptionsSchema
    .nullable()
    .prefault({})
    .describe("Video settings of this server, limits included (JSON, snake_case); null: clips are not taken"),
  audio: audioOptionsSchema
    .nullable()
    .prefault({})
    .describe("Audio settings of this server, limits included (JSON, snake_case); null: sound is not taken"),
  hashVideo: z.boolean().default(false).describe("Whether clips get a content hash; images and sounds always do"),
  fetch: fetchPolicySchema
    .prefault({})
    .describe(
      "What may be fetched, and how much of it (JSON, snake_case); what is not said here, the environment says",
    ),
  pool: slabPoolOptionsSchema
    .prefault({})
    .describe("Memory for tensors: slabBytes, budgetBytes, prefault, quarantineMs, scrub"),
  decoders: decoderPoolOptionsSchema
    .prefault({})
    .describe("Decoder processes: how many, how long they may take, when they are replaced"),
});
export type MediaDecoderOptions = z.input<typeof mediaDecoderOptionsSchema>;

const cacheOptionsSchema = z.strictObject({
  bytes: z
    .int()
    .nonnegative()
    .optional()
    .describe(
      "Most bytes of decoded media that are kept for the next one who wants them; default DYN_MULTIMODAL_LOADER_CACHE_GB, else none",
    ),
  freshness: z
    .enum(["ignore", "http"])
    .default("ignore")
    .describe(
      'Whether what a URL gave is good until it is evicted, or as long as HTTP says ("http": Cache-Control is honoured, and origins are asked with ETag)',
    ),
});

const requestLimitsSchema = z.strictObject({
  maxMedia: z
    .int()
    .nonnegative()
    .default(1000)
    .describe("Most media of one chat request; one with more is refused before anything is fetched"),
  concurrency: z.int().positive().default(32).describe("Most media of one chat request that are loaded at a time"),
});
export type RequestLimits = z.output<typeof requestLimitsSchema>;

const tenantLimit = z.int().positive().nullable().default(null);

/** What a loader takes: the same, and the settings of what it hands out. */
export const mediaLoaderOptionsSchema = mediaDecoderOptionsSchema.extend({
  cache: cacheOptionsSchema.prefault({}).describe("Decoded media that are kept: bytes, freshness"),
  maxHoldMs: z
    .int()
    .positive()
    .max(MAXIMUM_DELAY_MS)
    .default(300_000)
    .describe(
      "Time after which a descriptor that was neither disposed of nor renewed counts as leaked and is given back, ms",
    ),
  releaseKeys: z
    .boolean()
    .default(false)
    .describe(
      "Whether descriptors carry a key by which a reader gives them back when it has read: for one reader each",
    ),
  tenants: z
    .strictObject({
      maxBytes: tenantLimit.describe(
        "Most bytes of tensors that descriptors of one tenant keep, judged when a load ends: bound what is under way by maxLoads; null: no limit",
      ),
      maxLoads: tenantLimit.describe("Most loads of one tenant at a time; null: no limit"),
    })
    .prefault({})
    .describe("The share of each tenant that loads name: maxBytes, maxLoads"),
  requests: requestLimitsSchema.prefault({}).describe("What one chat request may ask for: maxMedia, concurrency"),
  agent: nixlAgentOptionsSchema
    .prefault({})
    .describe("NIXL agent: name, backend, progressDelayMicroseconds, drainIntervalMs"),
});
export type MediaLoaderOptions = z.input<typeof mediaLoaderOptionsSchema>;

/** Settings of one medium that is decoded. */
export const decodeOptionsSchema = z.strictObject({
  mediaIoKwargs: mediaIoKwargsSchema.describe(
    "Settings of the request by modality, which replace the server's as a whole; limits stay the server's (JSON, snake_case)",
  ),
  hashVideo: z.boolean().optional().describe("Whether this clip gets a content hash; default as the loader was set"),
  signal: z
    .instanceof(AbortSignal)
    .optional()
    .describe("Gives up: a waiting medium at once, a running one by ending its decoder"),
});
export type DecodeOptions = z.input<typeof decodeOptionsSchema>;

/** Settings of one medium that is loaded. */
export const loadOptionsSchema = decodeOptionsSchema.extend({
  tenant: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("Whose load it is: counted against the tenant's share; default nobody's"),
});
export type LoadOptions = z.input<typeof loadOptionsSchema>;

/** Settings of one chat request. */
export const loadMessagesOptionsSchema = loadOptionsSchema.extend({
  onDecodeError: z
    .enum(["fail", "passthrough"])
    .default("fail")
    .describe(
      'What becomes of a medium that cannot be decoded here: the request fails, or the worker is given its URL ("passthrough")',
    ),
});
export type LoadMessagesOptions = z.input<typeof loadMessagesOptionsSchema>;
