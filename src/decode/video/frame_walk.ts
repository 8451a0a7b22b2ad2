/** Which frames of a clip are taken: a walk in presentation order. */
import { MediaError } from "../../errors.ts";
import type { ClipFacts } from "./facts.ts";
import { MOST_FRAMES, type VideoSettings } from "./options.ts";
import { lastPacketEnd, type Picture } from "./packets.ts";
import {
  endMargin,
  evenIndices,
  exactSeconds,
  firstTimestampAt,
  requestedFrameCount,
  type Span,
  timestampSeconds,
  timestampThresholds,
  wholeClip,
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

/** Whether the walk has to know all pictures: the whole clip by time is walked over as the fleet's reference does, without. */
export function needsPictures({ start, end, sampling }: VideoSettings): boolean {
  return sampling !== "targets" || Boolean(start) || typeof end === "number";
}

/**
 * @param pictures all that are shown, in their order; null where {@link needsPictures} says so
 * @param checkCount judges how many frames are asked for, before they are told one by one: a header may promise any number
 * @returns the walk, and how many frames were asked for: there are thresholds for those that can be found at all
 * @throws MediaError frame_count_invalid, no_frames, limit_exceeded, media_corrupt, and what `checkCount` throws
 */
export function frameWalk(
  facts: ClipFacts,
  settings: VideoSettings,
  pictures: readonly Picture[] | null,
  checkCount: (count: number) => void,
): { readonly walk: FrameWalk; readonly count: number } {
  const part = pictures && partOf(pictures, facts, settings);
  const span = part?.ticks ?? null;
  const seconds = part?.seconds ?? wholeClip(facts);
  const asked = requestedFrameCount(facts, settings, seconds);
  if (part && settings.sampling === "keyframes") {
    const inside = part.pictures.filter(({ isKey }) => isKey);
    if (inside.length === 0) throw new MediaError("no_frames", "Failed to decode any frames, there is no key frame");
    const count = Math.min(asked, inside.length);
    const reachable = reachableFrames(count, facts);
    checkCount(count);
    const thresholds = evenIndices(count, inside.length, reachable).map((at) => inside[at]?.pts ?? 0);
    return { walk: { thresholds, counts: "timestamps", span, isOfKeyFrames: true }, count };
  }
  checkCount(asked);
  const reachable = reachableFrames(asked, facts);
  const walk =
    settings.sampling === "indices"
      ? { thresholds: evenIndices(asked, seconds.frames, reachable), counts: "frames" as const }
      : { thresholds: timestampThresholds(asked, facts, reachable, seconds), counts: "timestamps" as const };
  return { walk: { ...walk, span, isOfKeyFrames: false }, count: asked };
}

/** What of a clip is walked over: its pictures, where it lies in ticks (null: all of it) and in seconds. */
interface Part {
  readonly pictures: readonly Picture[];
  readonly ticks: FrameWalk["span"];
  readonly seconds: Span;
}

/** @throws MediaError frame_count_invalid, no_frames */
function partOf(pictures: readonly Picture[], facts: ClipFacts, settings: VideoSettings): Part {
  const { timeBase } = facts;
  const whole = wholeClip(facts);
  // What is cut off by an edit list counts for the container, and is not shown.
  const frames = settings.sampling === "targets" ? whole.frames : pictures.length;
  const clipEnd = Math.max(lastPacketEnd(pictures, timeBase), (pictures.at(-1)?.pts ?? 0) + 1);
  const { start, end } = settings;
  if (start && firstTimestampAt(start, timeBase) >= clipEnd) {
    const endSeconds = timestampSeconds(clipEnd, timeBase);
    throw new MediaError(
      "frame_count_invalid",
      `Cannot decode frames from ${start} s on: the clip ends at ${endSeconds} s`,
    );
  }
  const ticks = {
    start: start ? firstTimestampAt(start, timeBase) : Math.min(0, pictures[0]?.pts ?? 0),
    end: typeof end === "number" ? Math.min(firstTimestampAt(end, timeBase), clipEnd) : clipEnd,
  };
  const inside = pictures.filter(({ pts }) => pts >= ticks.start && pts < ticks.end);
  const [first, last] = [inside[0], inside.at(-1)];
  if (!first || !last)
    throw new MediaError("no_frames", "Failed to decode any frames, there is none in that part of the clip");
  if (!start && inside.length === pictures.length) return { pictures, ticks: null, seconds: { ...whole, frames } };
  const seconds = {
    // Where the video begins late, there is nothing to be found before it does.
    start: Math.max(0, start ?? 0, exactSeconds(first.pts, timeBase)),
    // Behind where the last picture begins there is none to be found, however long that one lasts.
    end: Math.min(exactSeconds(ticks.end, timeBase), exactSeconds(last.pts, timeBase) + endMargin(facts)),
    isWhole: false,
    frames: inside.length,
  };
  return { pictures: inside, ticks, seconds };
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
