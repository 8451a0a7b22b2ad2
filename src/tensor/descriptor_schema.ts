/** The wire form of a descriptor: zod schemas and the types they make. */
import { z } from "zod";
import { contentHashPattern } from "./content_hash.ts";
import { bytesPerElement, dataTypeSchema } from "./data_type.ts";
import { descriptorMetadataSchema } from "./metadata.ts";
import { exactProduct, shapeSchema } from "./shape.ts";

/** NIXL's names of memory types; the position of a name is NIXL's number for it. */
export const MEMORY_TYPES = ["Dram", "Vram", "Block", "Object", "File", "Unknown"] as const;
export type MemoryType = (typeof MEMORY_TYPES)[number];

export const nixlDescriptorSchema = z
  .object({
    // Integers from 2^53 on are rounded by JSON.parse, always to values that are still 2^53 or more; z.int() refuses
    // those, so a rounded address cannot pass for an exact one.
    addr: z
      .int()
      .nonnegative()
      .describe("Address of the first byte in the memory of the process that holds it; under 2^53."),
    size: z.int().positive().describe("Bytes: the product of shape and element size."),
    mem_type: z.enum(MEMORY_TYPES).describe("NIXL's name of the memory's type."),
    device_id: z.int().nonnegative().describe("Number of the device that has the memory; 0 for Dram."),
  })
  .readonly()
  .meta({ title: "NixlDescriptor", description: "Where the tensor lies, as NIXL counts memory." });
export type NixlDescriptor = z.infer<typeof nixlDescriptorSchema>;

/**
 * The wire form of a descriptor: flat, in this order of keys. Keys that are not known are ignored, so that later versions
 * can add some; a content hash that does not look like one counts as none, since the tensor can still be read.
 */
export const descriptorSchema = z
  .object({
    nixl_metadata: z
      .string()
      .min(1)
      .describe(
        "Metadata of the agent that registered the memory: its blob, zlib, base64, prefix b64:. " +
          "A secret: whoever has it can read the memory of the process that wrote it.",
      ),
    nixl_descriptor: nixlDescriptorSchema,
    shape: shapeSchema,
    dtype: dataTypeSchema,
    metadata: descriptorMetadataSchema
      .nullable()
      .default(null)
      .describe("What else is known of the medium, externally tagged; null when nothing is."),
    content_hash: z
      .string()
      .regex(contentHashPattern)
      .optional()
      .catch(undefined)
      .describe("Content hash, 16 lower-case hex digits; left out when there is none."),
    release_key: z
      .string()
      .regex(/^[0-9a-f]{32}$/)
      .optional()
      .catch(undefined)
      .describe(
        "What a reader that is done may leave with the owner as its notification, so that the memory is given back; " +
          "32 lower-case hex digits, left out when readers are not to. Readers that do not know it ignore it.",
      ),
  })
  .refine(
    ({ shape, dtype, nixl_descriptor }) => exactProduct([...shape, bytesPerElement(dtype)]) === nixl_descriptor.size,
    { path: ["nixl_descriptor", "size"], error: "differs from the product of shape and element size" },
  )
  .readonly()
  .meta({
    title: "MediaDescriptor",
    description: "A decoded tensor in registered memory: enough for a NIXL agent elsewhere to read it.",
  });

/** A descriptor as it travels. */
export type WireDescriptor = z.output<typeof descriptorSchema>;
