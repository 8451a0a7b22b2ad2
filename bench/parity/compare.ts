/** Whether an outcome is the same as another's, and if not, which known deviation it is. */
import { DEVIATIONS, type Deviation } from "./deviations.ts";
import type { OurOutcome } from "./measure.ts";
import type { PillowOutcome, ReferenceOutcome } from "./vectors.ts";

/** "same", or what differs. */
export type Difference = "same" | "ours refuses" | "ours decodes" | "shape" | "metadata" | "levels";

export function differenceFromReference(ours: OurOutcome, reference: ReferenceOutcome): Difference {
  if ("error" in reference) return "code" in ours ? "same" : "ours decodes";
  if ("code" in ours) return "ours refuses";
  if (ours.shape.join() !== reference.shape.join()) return "shape";
  // Both texts through one printer: the vectors' numbers were read as JSON.
  const isSame = JSON.stringify(JSON.parse(ours.metadata)) === JSON.stringify(reference.metadata);
  if (!isSame) return "metadata";
  return ours.hash === reference.content_hash ? "same" : "levels";
}

export function differenceFromPillow(ours: OurOutcome, pillow: PillowOutcome): Difference {
  if ("error" in pillow) return "code" in ours ? "same" : "ours decodes";
  if ("code" in ours) return "ours refuses";
  if (!("content_hash" in pillow)) return "levels";
  if (ours.shape.join() !== pillow.shape.join()) return "shape";
  return ours.hash === pillow.content_hash ? "same" : "levels";
}

/** What a difference is met with. */
export interface Observed {
  readonly file: string;
  readonly against: Deviation["against"];
  readonly difference: Difference;
  /** The code when ours refuses. */
  readonly code: string | null;
  /** Whether clips are decoded by the ffmpeg that exactness is judged with. */
  readonly isJudgingFfmpeg: boolean;
}

/** The deviation that an observed difference is; undefined for one that nobody has explained. */
export function explain(observed: Observed): Deviation | undefined {
  return DEVIATIONS.find(
    ({ files, against, difference, code, ffmpeg }) =>
      files.includes(observed.file) &&
      against === observed.against &&
      difference === observed.difference &&
      (code === undefined || code === observed.code) &&
      (ffmpeg !== "other" || !observed.isJudgingFfmpeg),
  );
}
