/** Settings of the slab pool: one schema, which is the types, the checks and the documentation. */
import { z } from "zod";
import { PAGE_BYTES } from "../../ffi/memory.ts";
import { MAXIMUM_DELAY_MS } from "../options.ts";

const MEBIBYTE = 1024 * 1024;

/** Settings of the slab pool. */
export const slabPoolOptionsSchema = z
  .strictObject({
    slabBytes: z
      .int()
      .min(PAGE_BYTES * 2)
      .multipleOf(PAGE_BYTES)
      .default(64 * MEBIBYTE)
      .describe("Bytes of one slab, a multiple of 4096: the unit that decoder children are given"),
    budgetBytes: z
      .int()
      .positive()
      .default(1024 * MEBIBYTE)
      .describe("Bytes of all slabs together, rounded down to whole slabs; the most that tensors can occupy"),
    prefault: z
      .boolean()
      .default(false)
      .describe(
        "Make all pages at start-up, about a second a GiB, and hand each decoder its first slab ahead, so that requests need not",
      ),
    quarantineMs: z
      .int()
      .nonnegative()
      .max(MAXIMUM_DELAY_MS)
      .default(2000)
      .describe(
        "Time that described memory rests after its last descriptor was given back, for readers that are slow, ms; shorter under pressure, which is counted",
      ),
    scrub: z.boolean().default(false).describe("Overwrite memory with zeros before it is given out again"),
  })
  .refine((options) => options.budgetBytes >= options.slabBytes, {
    message: "budgetBytes must hold at least one slab",
    path: ["budgetBytes"],
  });
export type SlabPoolOptions = z.input<typeof slabPoolOptionsSchema>;
