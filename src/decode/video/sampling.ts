/**
 * Which frames of a clip are taken, as integers in the stream's time base.
 *
 * The rules are those of the Rust frontend of NVIDIA Dynamo (`dynamo-llm`), whose arithmetic is part of them: durations,
 * rates and timestamps are single precision, positions of the frames wanted are double precision and then whole
 * microseconds. A frame is taken when its timestamp, so rounded, is not below the position, so rounded; done with other
 * rounding, the same clip would have other frames and another name.
 */
import { MediaError } from "../../errors.ts";
import type { VideoSettings } from "./options.ts";
import type { Rational } from "./rational.ts";

const { fround } = Math;

/** Kept free at a clip's end, seconds, besides one frame: a target there might have no frame behind it. */
const END_MARGIN_SECONDS = 0.001;
const MICROSECONDS = 1_000_000;
/** Parts of a clip are told in double precision, where 4.52 - 0.52 is not quite 4. */
const TOLERANCE_SECONDS = 1e-9;

/** What sampling needs to know of a stream. */
export interface StreamTiming {
  readonly timeBase: Rational;
  /** In units of the time base. */
  readonly durationTicks: number;
  readonly frameRate: Rational;
  /** What the container says, 0 where it does not. */
  readonly frameCount: number;
}

/** A fraction in single precision: both numbers are rounded first, then their quotient. */
function singlePrecision(value: Rational): number {
  return fround(fround(value.num) / fround(value.den));
}

/** Seconds of a presentation timestamp, in single precision. */
export function timestampSeconds(pts: number, timeBase: Rational): number {
  return fround(fround(pts) * singlePrecision(timeBase));
}

/** The clip's duration in seconds. */
export function sourceDuration(timing: StreamTiming): number {
  return timestampSeconds(timing.durationTicks, timing.timeBase);
}

/** The clip's frame rate, frames per second. */
export function sourceFps(timing: StreamTiming): number {
  return singlePrecision(timing.frameRate);
}

/** The part of a clip that frames are taken from, seconds. */
export interface Span {
  readonly start: number;
  /** The first moment behind it. */
  readonly end: number;
  readonly isWhole: boolean;
  /** How many frames it has; of the whole clip, as its container counts them; 0 when there is no telling. */
  readonly frames: number;
}

/** All of a clip, as its container tells it. */
export function wholeClip(timing: StreamTiming): Span {
  const end = sourceDuration(timing);
  const frames = timing.frameCount > 0 ? timing.frameCount : wholeFrames(end * sourceFps(timing));
  return { start: 0, end, isWhole: true, frames };
}

/**
 * How many frames to look for.
 * @throws MediaError frame_count_invalid when more are wanted than there are, or when there is no telling how many there are
 */
export function requestedFrameCount(
  timing: StreamTiming,
  settings: VideoSettings,
  span: Span = wholeClip(timing),
): number {
  const duration = span.end - span.start;
  const total = span.frames;
  if (total === 0) throw new MediaError("frame_count_invalid", "Cannot determine the video frame count");

  const wanted = wantedFrames(settings, span.isWhole ? duration : duration + TOLERANCE_SECONDS) ?? total;
  const requested = Math.max(1, Math.min(wanted, settings.max_frames ?? wanted));
  // Of key frames nobody knows the number: as many are taken as there are.
  if (requested > total && settings.sampling === "keyframes") return total;
  if (requested > total) {
    throw new MediaError("frame_count_invalid", `Cannot decode ${requested} frames from ${total} total frames`);
  }
  return requested;
}

/** Frames asked for by number or rate; null when all are. */
function wantedFrames({ fps, num_frames }: VideoSettings, duration: number): number | null {
  return typeof fps === "number" ? wholeFrames(duration * fps) : (num_frames ?? null);
}

/** A number of frames out of a product with a duration: rounded down, 0 for what is no number. */
function wholeFrames(value: number): number {
  return value >= 1 ? Math.min(Math.trunc(value), Number.MAX_SAFE_INTEGER) : 0;
}

/**
 * Positions of the frames wanted, seconds: one in the middle, or evenly from the span's beginning to one frame before its end.
 * @param count how many are wanted, at least 1
 * @param reachable how many of them are told, from the first on
 */
export function targetPositions(
  count: number,
  timing: StreamTiming,
  reachable = count,
  { start, end }: Span = wholeClip(timing),
): number[] {
  const last = Math.max(0, end - start - endMargin(timing));
  if (count === 1) return [start + last / 2];
  return Array.from({ length: reachable }, (_, index) => start + (index * last) / (count - 1));
}

/** What is kept free of targets before the end of what they are spread over, seconds. */
export function endMargin(timing: StreamTiming): number {
  return 1 / sourceFps(timing) + END_MARGIN_SECONDS;
}

/** Numbers of frames evenly spread over all of them, the first and the last among them: rounded down, as numpy's linspace to int. */
export function evenIndices(count: number, total: number, reachable = count): number[] {
  if (count === 1) return [0];
  return Array.from({ length: reachable }, (_, index) => Math.floor((index * (total - 1)) / (count - 1)));
}

/** A position as timestamps are compared with it: whole microseconds, in single precision seconds. */
export function comparedPosition(seconds: number): number {
  const microseconds = Math.round(fround(fround(seconds) * MICROSECONDS));
  return fround(fround(microseconds) * fround(1 / MICROSECONDS));
}

/**
 * The smallest integer timestamp whose seconds are not below a compared position. {@link timestampSeconds} never decreases
 * with its argument, so "not below" turns true once, and comparing integers with this one is the same decision.
 * @param position not negative
 */
export function firstTimestampAtOrAfter(position: number, timeBase: Rational): number {
  const reached = (pts: number): boolean => timestampSeconds(pts, timeBase) >= position;
  let step = 1;
  let above = Math.max(0, Math.ceil((position * timeBase.den) / timeBase.num));
  while (!reached(above)) {
    above += step;
    step *= 2;
  }
  step = 1;
  let below = above - 1;
  while (reached(below)) {
    below -= step;
    step *= 2;
  }
  if (!Number.isSafeInteger(above) || !Number.isSafeInteger(below)) {
    throw new MediaError("media_corrupt", "the clip's timestamps are too large to be told apart");
  }
  while (above - below > 1) {
    const middle = below + Math.floor((above - below) / 2);
    if (reached(middle)) above = middle;
    else below = middle;
  }
  return above;
}

/**
 * For each frame wanted, the timestamp from which on a frame may be it. Frames are walked in presentation order; the first
 * that is not below the current threshold is taken, and the next threshold becomes current. They never decrease.
 * @param reachable how many are told, from the first on: with so many packets, no later one is ever looked at
 */
export function timestampThresholds(
  count: number,
  timing: StreamTiming,
  reachable = count,
  span: Span = wholeClip(timing),
): number[] {
  const thresholds = targetPositions(count, timing, reachable, span).map((position) =>
    firstTimestampAtOrAfter(comparedPosition(position), timing.timeBase),
  );
  // In single precision a frame that begins where the span does may seem to begin before it.
  if (!span.isWhole && count > 1) thresholds[0] = firstTimestampAt(span.start, timing.timeBase);
  return thresholds;
}

/** Seconds of a timestamp in double precision: where a part of a clip lies is no arithmetic of the reference's. */
export function exactSeconds(pts: number, { num, den }: Rational): number {
  return (pts * num) / den;
}

/** Of a moment: some units of single precision in the last place, in which timestamps are given out and may come back. */
const MOMENT_TOLERANCE = 2 ** -22;

/** The first timestamp that is not before a moment, as far as single precision tells. @param seconds not negative */
export function firstTimestampAt(seconds: number, { num, den }: Rational): number {
  return Math.ceil((seconds * (1 - MOMENT_TOLERANCE) * den) / num - 1e-6);
}
