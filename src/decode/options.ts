/** Settings of the decoder children: one zod schema that is the types, the checks and the documentation. */
import { z } from "zod";
import { MAXIMUM_DELAY_MS } from "../options.ts";

const GIBIBYTE = 1024 ** 3;

/** Settings of the decoder children. */
export const decoderPoolOptionsSchema = z.strictObject({
  children: z
    .int()
    .min(1)
    .max(256)
    .optional()
    .describe("Decoder processes; default one per core, at most one for every two slabs: each has slabs of its own"),
  queueLimit: z.int().nonnegative().default(1024).describe("Media that may wait for a decoder; more are refused"),
  queueBytes: z
    .int()
    .positive()
    .default(GIBIBYTE)
    .describe("Encoded bytes that may wait for a decoder or for memory, all together; more are refused"),
  queueTimeoutMs: z
    .int()
    .positive()
    .max(MAXIMUM_DELAY_MS)
    .default(60_000)
    .describe("Time after which a waiting medium is refused, ms"),
  roomQueueLimit: z
    .int()
    .nonnegative()
    .default(256)
    .describe("Media that may wait for memory when the pool is full; more are refused"),
  roomTimeoutMs: z
    .int()
    .nonnegative()
    .max(MAXIMUM_DELAY_MS)
    .default(10_000)
    .describe("Time after which a medium that waits for memory is refused, ms"),
  quarantinePatienceMs: z
    .int()
    .nonnegative()
    .max(MAXIMUM_DELAY_MS)
    .default(500)
    .describe("Time that a medium waits for memory before the quarantine of others is cut short for it, ms"),
  jobTimeoutMs: z
    .int()
    .positive()
    .max(MAXIMUM_DELAY_MS)
    .default(120_000)
    .describe("Time after which a decoder is killed, ms"),
  memoryLimitBytes: z
    .int()
    .min(256 * 1024 * 1024)
    .default(2 * GIBIBYTE)
    .describe("Memory that a decoder process may allocate beyond what it starts with, bytes"),
  threadsPerMedium: z
    .int()
    .min(1)
    .max(256)
    .optional()
    .describe(
      "Most threads that decode one medium, as long as there are processors that no other medium uses; default 4",
    ),
  recycleAfterJobs: z
    .int()
    .positive()
    .default(10_000)
    .describe("Media after which a decoder process is replaced by a fresh one, without a pause"),
  recycleAboveBytes: z
    .int()
    .positive()
    .default(GIBIBYTE / 2)
    .describe(
      "Private memory above which a decoder process is replaced, bytes; what large pictures took stays with it",
    ),
});
export type DecoderPoolOptions = z.input<typeof decoderPoolOptionsSchema>;
