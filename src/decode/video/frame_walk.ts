/** Which frames of a clip are taken: a walk in presentation order. */
import { MediaError } from "../../errors.ts";
import type { ClipFacts } from "./facts.ts";
import { MOST_FRAMES, type VideoSettings } from "./options.ts";
import {
  evenIndices,
  firstTimestampAt,
  requestedFrameCount,
  spanOf,
  timestampThresholds,
  totalFrames,
} from "./sampling.ts";

/** What is walked over, and what is taken of it. */
export interface FrameWalk {
  /** From which place on a frame may be the i-th one taken, ascending. */
  readonly thresholds: readonly number[];
  /** What places are: presentation timestamps in the stream's time base, or the frames' numbers from the first one walked over. */
  readonly counts: "timestamps" | "frames";
  /** Timestamps of what is walked over, from `start` on and before `end`; null for all. */
  readonly span: { readonly start: number; readonly end: number } | null;
  /** Whether only key frames are decoded at all. */
  readonly isOfKeyFrames: boolean;
}

/**
 * @param keyTimestamps of the key frames; wanted only where these alone are sampled
 * @param checkCount judges how many frames are asked for, before they are told one by one: a header may promise any number
 * @returns the walk, and how many frames were asked for: there are thresholds for those that can be found at all
 * @throws MediaError frame_count_invalid, no_frames, limit_exceeded, media_corrupt, and what `checkCount` throws
 */
export function frameWalk(
  facts: ClipFacts,
  settings: VideoSettings,
  keyTimestamps: readonly number[] | null,
  checkCount: (count: number) => void,
): { readonly walk: FrameWalk; readonly count: number } {
  const whole = spanOf(facts, settings);
  const span = whole.isWhole
    ? null
    : { start: firstTimestampAt(whole.start, facts.timeBase), end: firstTimestampAt(whole.end, facts.timeBase) };
  const asked = requestedFrameCount(facts, settings);
  if (keyTimestamps) {
    const inside = keyTimestamps.filter((time) => !span || (time >= span.start && time < span.end));
    if (inside.length === 0) throw new MediaError("no_frames", "Failed to decode any frames, there is no key frame");
    const count = Math.min(asked, inside.length);
    const reachable = reachableFrames(count, facts);
    checkCount(count);
    const thresholds = evenIndices(count, inside.length, reachable).map((at) => inside[at] ?? 0);
    return { walk: { thresholds, counts: "timestamps", span, isOfKeyFrames: true }, count };
  }
  checkCount(asked);
  const reachable = reachableFrames(asked, facts);
  const walk =
    settings.sampling === "indices"
      ? { thresholds: evenIndices(asked, totalFrames(facts, whole), reachable), counts: "frames" as const }
      : { thresholds: timestampThresholds(asked, facts, reachable, whole), counts: "timestamps" as const };
  return { walk: { ...walk, span, isOfKeyFrames: false }, count: asked };
}

/**
 * The walk itself, where all timestamps are known.
 * @param timestamps in presentation order
 * @returns numbers of the frames taken
 */
export function framesTaken(timestamps: readonly number[], { thresholds, counts, span }: FrameWalk): number[] {
  const taken: number[] = [];
  let number = 0;
  for (const [frame, time] of timestamps.entries()) {
    const threshold = thresholds[taken.length];
    if (threshold === undefined || (span && time >= span.end)) break;
    if (span && time < span.start) continue;
    if ((counts === "frames" ? number : time) >= threshold) taken.push(frame);
    number += 1;
  }
  return taken;
}

/**
 * How many of the frames wanted can be found at all, which is what memory is asked for: a packet gives one frame at most, so a
 * frame count that the file's packets do not back costs nothing.
 */
function reachableFrames(count: number, { packetCount }: ClipFacts): number {
  const reachable = Math.min(count, packetCount);
  if (reachable === 0) throw new MediaError("no_frames", "Failed to decode any frames, the video has no packets");
  if (reachable > MOST_FRAMES) {
    throw new MediaError("limit_exceeded", `a clip of ${reachable} frames is over the limit of ${MOST_FRAMES} frames`);
  }
  return reachable;
}
