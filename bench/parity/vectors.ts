/** Reference values: what the reference and Pillow make of files, as test/vectors/media.json has them. */
import { z } from "zod";

/** Settings by the names that the vectors have for them. */
export const OPTION_SETS: Readonly<Record<string, object>> = {
  default: {},
  num_frames_4: { num_frames: 4 },
  num_frames_1: { num_frames: 1 },
  max_frames_7: { max_frames: 7 },
  fps_2: { fps: 2 },
};

const decodedSchema = z.object({
  shape: z.array(z.int()),
  metadata: z.record(z.string(), z.unknown()),
  content_hash: z.string(),
});
const outcomeSchema = z.union([z.object({ error: z.string() }), decodedSchema]);
const pillowSchema = z.union([
  z.object({ error: z.string() }),
  z.object({ mode: z.string(), shape: z.array(z.int()), content_hash: z.string() }),
  z.object({ mode: z.string(), note: z.string() }),
]);
const vectorsSchema = z.record(
  z.string(),
  z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("image"), reference: outcomeSchema, pillow: pillowSchema }),
    z.object({ kind: z.literal("video"), reference: z.record(z.string(), outcomeSchema) }),
  ]),
);

/** What the reference makes of a file: a tensor, or a refusal in its own words. */
export type ReferenceOutcome = z.infer<typeof outcomeSchema>;
/** What Pillow makes of a file; levels without an 8-bit counterpart have no hash. */
export type PillowOutcome = z.infer<typeof pillowSchema>;
export type Vectors = z.infer<typeof vectorsSchema>;

/** @throws Error for a file that has another form */
export async function readVectors(path: string): Promise<Vectors> {
  return vectorsSchema.parse(await Bun.file(path).json());
}
