import { describe, expect, test } from "bun:test";
import { type VideoOptions, videoOptionsSchema } from "../../../src/decode/video/options.ts";
import {
  comparedPosition,
  firstTimestampAtOrAfter,
  requestedFrameCount,
  type StreamTiming,
  sourceDuration,
  sourceFps,
  targetPositions,
  timestampSeconds,
  timestampThresholds,
} from "../../../src/decode/video/sampling.ts";

/** Single precision by way of memory, which owes nothing to Math.fround. */
function single(value: number): number {
  return Float32Array.of(value)[0] ?? Number.NaN;
}

const TEN_SECONDS: StreamTiming = {
  timeBase: { num: 1, den: 16384 },
  durationTicks: 163840,
  frameRate: { num: 30, den: 1 },
  frameCount: 300,
};

function requested(options: VideoOptions, timing: Partial<StreamTiming> = {}): number {
  return requestedFrameCount({ ...TEN_SECONDS, ...timing }, videoOptionsSchema.parse(options));
}

describe("how many frames", () => {
  test("all of them unless told otherwise", () => expect(requested({})).toBe(300));
  test("num_frames as it is", () => expect(requested({ num_frames: 4 })).toBe(4));
  test("at least one", () => {
    expect(requested({ num_frames: 0 })).toBe(1);
    expect(requested({ max_frames: 0 })).toBe(1);
    expect(requested({ fps: 0.05 })).toBe(1);
  });
  test("fps times the duration, rounded down", () => {
    expect(requested({ fps: 2 })).toBe(20);
    expect(requested({ fps: 0.29 })).toBe(2);
  });
  test("max_frames caps fps and the total", () => {
    expect(requested({ max_frames: 7 })).toBe(7);
    expect(requested({ fps: 2, max_frames: 7 })).toBe(7);
    expect(requested({ fps: 2, max_frames: 70 })).toBe(20);
  });
  test("a container without a count: duration times rate, rounded down", () => {
    expect(requested({}, { frameCount: 0, frameRate: { num: 30000, den: 1001 } })).toBe(299);
  });
  test("more than there are is an error", () => {
    expect(() => requested({ num_frames: 301 })).toThrow(
      expect.objectContaining({
        code: "frame_count_invalid",
        message: "Cannot decode 301 frames from 300 total frames",
      }),
    );
    expect(() => requested({ fps: 31 })).toThrow("Cannot decode 310 frames from 300 total frames");
  });
  test("no telling how many is an error, whatever is asked for", () => {
    for (const timing of [{ durationTicks: 0 }, { frameRate: { num: 0, den: 1 } }, { frameRate: { num: 0, den: 0 } }]) {
      expect(() => requested({ num_frames: 1 }, { frameCount: 0, ...timing })).toThrow(
        "Cannot determine the video frame count",
      );
    }
  });
});

describe("where the frames are looked for", () => {
  test("one frame: in the middle", () => {
    expect(targetPositions(1, TEN_SECONDS)).toEqual([(10 - 1 / 30 - 0.001) / 2]);
  });
  test("several: evenly from the beginning to a frame and a millisecond before the end", () => {
    const last = 10 - 1 / 30 - 0.001;
    expect(targetPositions(3, TEN_SECONDS)).toEqual([0, last / 2, last]);
  });
  test("a clip shorter than a frame: all at the beginning", () => {
    expect(targetPositions(2, { ...TEN_SECONDS, durationTicks: 100 })).toEqual([0, 0]);
  });
  test("positions are whole microseconds in single precision", () => {
    const micro = single(single(1) / single(1e6));
    expect(comparedPosition(0)).toBe(0);
    expect(comparedPosition(1 / 3)).toBe(single(333333 * micro));
    expect(comparedPosition(0.0000005)).toBe(micro);
    // 100.123456 s are 100123456 µs, which single precision rounds to a multiple of 8.
    expect(comparedPosition(100.123456)).toBe(single(single(100123456) * micro));
  });
});

describe("seconds in single precision", () => {
  test("time base and rate are rounded before they are used", () => {
    const ntsc = { ...TEN_SECONDS, timeBase: { num: 1, den: 30000 }, durationTicks: 90090 };
    expect(sourceDuration(ntsc)).toBe(single(90090 * single(1 / 30000)));
    expect(sourceFps({ ...ntsc, frameRate: { num: 30000, den: 1001 } })).toBe(single(30000 / 1001));
    expect(timestampSeconds(-1001, ntsc.timeBase)).toBe(single(-1001 * single(1 / 30000)));
  });
});

/** Numbers in [0, 1), the same on every run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

const TIME_BASES = [1, 25, 1000, 12800, 15360, 30000, 90000, 1_000_000, 10_000_000].map((den) => ({ num: 1, den }));

describe("thresholds as integers", () => {
  test("are the first timestamp that reaches the position, and the one before does not", () => {
    const random = numbers(1);
    for (const timeBase of [...TIME_BASES, { num: 1001, den: 30000 }, { num: 2, den: 1 }]) {
      for (let round = 0; round < 200; round += 1) {
        const position = comparedPosition(random.next().value ** 4 * 100_000);
        const threshold = firstTimestampAtOrAfter(position, timeBase);
        expect(timestampSeconds(threshold, timeBase)).toBeGreaterThanOrEqual(position);
        expect(timestampSeconds(threshold - 1, timeBase)).toBeLessThan(position);
      }
    }
  });

  test("never decrease", () => {
    const thresholds = timestampThresholds(300, TEN_SECONDS);
    expect(thresholds).toEqual(thresholds.toSorted((a, b) => a - b));
    expect(thresholds[0]).toBe(0);
  });

  test("choose the frames that the comparison of seconds chooses", () => {
    const random = numbers(2);
    for (let round = 0; round < 300; round += 1) {
      const timeBase = TIME_BASES[round % TIME_BASES.length] ?? { num: 1, den: 1 };
      const rate = 1 + Math.floor(random.next().value * 60);
      const step = Math.max(1, Math.round(timeBase.den / rate));
      const frames = 2 + Math.floor(random.next().value * 200);
      const start = Math.floor(random.next().value * 3) * step;
      const pts = Array.from({ length: frames }, (_, index) => start + index * step);
      const timing = { timeBase, durationTicks: frames * step, frameRate: { num: rate, den: 1 }, frameCount: frames };
      const count = 1 + Math.floor(random.next().value * frames);

      const bySeconds: number[] = [];
      const targets = targetPositions(count, timing).map(comparedPosition);
      for (const value of pts) {
        const target = targets[bySeconds.length];
        if (target !== undefined && timestampSeconds(value, timeBase) >= target) bySeconds.push(value);
      }
      const byThresholds: number[] = [];
      const thresholds = timestampThresholds(count, timing);
      for (const value of pts) {
        const threshold = thresholds[byThresholds.length];
        if (threshold !== undefined && value >= threshold) byThresholds.push(value);
      }
      expect(byThresholds).toEqual(bySeconds);
    }
  });
});
