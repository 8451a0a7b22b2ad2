/** Which frames are taken of a part of a clip, by number, or of key frames alone; and frames that are scaled down. */
import { describe, expect, test } from "bun:test";
import { scaledSize } from "../../../src/decode/scaled_size.ts";
import type { VideoOptions } from "../../../src/decode/video/index.ts";
import { evenIndices } from "../../../src/decode/video/sampling.ts";
import { isVideoMetadata } from "../../../src/tensor/index.ts";
import { mediaBytes } from "../../support/media.ts";
import { decode, decodeError, madeClip, replaceBox } from "./clips.ts";
import { keptCount, planOf } from "./plans.ts";

const H264 = ["-c:v", "libx264", "-sc_threshold", "0"];
/** Containers of one clip of 4 s at 25 frames a second, a key frame every 10 frames. */
const CLIPS = {
  mp4: await counting("mp4", [...H264, "-bf", "2"]),
  mkv: await counting("mkv", [...H264, "-bf", "2"]),
  ts: await counting("ts", [...H264, "-bf", "2"]),
  avi: await counting("avi", ["-c:v", "mpeg4", "-sc_threshold", "1000000000"]),
  webm: await counting("webm", ["-c:v", "libvpx", "-b:v", "1M"]),
} as const;
const CONTAINERS = Object.keys(CLIPS) as (keyof typeof CLIPS)[];

/** Each frame is of one grey, which grows from one to the next. */
function counting(extension: string, codec: readonly string[]): Promise<Uint8Array> {
  const source = "nullsrc=s=64x48:r=25:d=4,geq=lum='16+2*N':cb=128:cr=128";
  const encoding = ["-g", "10", "-keyint_min", "10", "-pix_fmt", "yuv420p"];
  return madeClip(extension, ["-f", "lavfi", "-i", source, ...codec, ...encoding]);
}

interface Taken {
  /** Seconds, from the clip's first frame on. */
  readonly times: readonly number[];
  /** Of each frame, by its grey. */
  readonly numbers: readonly number[];
  readonly shape: readonly number[];
}

async function taken(clip: Uint8Array, options: VideoOptions): Promise<Taken> {
  const { tensor, pixels } = await decode(clip, options);
  if (!isVideoMetadata(tensor.metadata)) throw new Error("no clip");
  const [frames = 0, height = 0, width = 0] = tensor.shape;
  const frameBytes = height * width * 3;
  const middle = (height >> 1) * width * 3 + (width >> 1) * 3;
  // Full range out of 16…235: a step of two there is one of 2.33.
  const numbers = Array.from({ length: frames }, (_, frame) => {
    return Math.round((((pixels[frame * frameBytes + middle] ?? 0) / 255) * 219) / 2);
  });
  return { times: tensor.metadata.Video.sampled_timestamps, numbers, shape: tensor.shape };
}

/** Transport streams do not begin at 0. */
const firstTime = async (clip: Uint8Array): Promise<number> => (await taken(clip, {})).times[0] ?? 0;

describe.each(CONTAINERS)("of a clip in %s", (container) => {
  const clip = CLIPS[container];

  test("a part is taken, and timestamps stay the clip's", async () => {
    if (container === "ts") return expect(await firstTime(clip)).toBeGreaterThan(0);
    const { times, numbers } = await taken(clip, { start: 1, end: 2 });
    expect(numbers).toEqual(Array.from({ length: 25 }, (_, index) => 25 + index));
    expect(times[0]).toBeCloseTo(1, 2);
    expect(times.at(-1)).toBeCloseTo(1.96, 2);
  });

  test("frames are spread over the part", async () => {
    if (container === "ts") return;
    const { numbers } = await taken(clip, { start: 1, end: 3, num_frames: 3 });
    expect(numbers[0]).toBe(25);
    expect(numbers.every((number) => number >= 25 && number < 75)).toBe(true);
    expect(Math.abs((numbers[1] ?? 0) - 49.5)).toBeLessThanOrEqual(1);
    expect(numbers[2]).toBeGreaterThanOrEqual(73);
  });

  test("frames are taken by number, from the first to the last", async () => {
    const { numbers } = await taken(clip, { sampling: "indices", num_frames: 5 });
    expect(numbers).toEqual([0, 24, 49, 74, 99]);
    const all = await taken(clip, { sampling: "indices" });
    expect(all.numbers).toEqual(Array.from({ length: 100 }, (_, index) => index));
  });

  test("key frames alone are taken, evenly when there are more than wanted", async () => {
    const { numbers } = await taken(clip, { sampling: "keyframes" });
    expect(numbers).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    expect((await taken(clip, { sampling: "keyframes", num_frames: 4 })).numbers).toEqual([0, 30, 60, 90]);
    expect((await taken(clip, { sampling: "keyframes", num_frames: 50 })).numbers).toEqual(numbers);
  });

  test("frames are scaled down, sides in proportion", async () => {
    const { shape, numbers } = await taken(clip, { max_pixels: 1000, num_frames: 4 });
    expect(shape).toEqual([4, 27, 36, 3]);
    const whole = await taken(clip, { num_frames: 4 });
    expect(whole.shape).toEqual([4, 48, 64, 3]);
    for (const [frame, number] of whole.numbers.entries()) {
      expect(Math.abs((numbers[frame] ?? 0) - number)).toBeLessThanOrEqual(1); // the scaler rounds
    }
  });
});

describe("of a part", () => {
  test("by number and of key frames, only those in it are taken", async () => {
    const byNumber = await taken(CLIPS.mkv, { start: 1, end: 2, sampling: "indices", num_frames: 3 });
    expect(byNumber.numbers).toEqual([25, 37, 49]);
    const planned = await taken(CLIPS.mp4, { start: 1, end: 2, sampling: "indices", num_frames: 3 });
    expect(planned.numbers).toEqual([25, 37, 49]);
    const keys = await taken(CLIPS.mp4, { start: 1.5, end: 3.2, sampling: "keyframes" });
    expect(keys.numbers).toEqual([40, 50, 60, 70]);
  });

  test("the rate counts within it", async () => {
    expect((await taken(CLIPS.mp4, { start: 1, end: 3, fps: 2 })).numbers.length).toBe(4);
    expect((await taken(CLIPS.mp4, { start: 3, fps: 5 })).numbers.length).toBe(5);
  });

  test("more frames than it has are refused", async () => {
    const error = await decodeError(CLIPS.mp4, { start: 1, end: 2, num_frames: 26 });
    expect(error).toMatchObject({ code: "frame_count_invalid", status: 400 });
  });

  test("that begins behind the clip's end, nothing can be taken", async () => {
    const error = await decodeError(CLIPS.mp4, { start: 4 });
    expect(error).toMatchObject({ code: "frame_count_invalid", status: 400 });
    expect(error.message).toContain("ends at 4 s");
  });

  test("that has no key frame, none is taken", async () => {
    const error = await decodeError(CLIPS.mp4, { start: 0.1, end: 0.3, sampling: "keyframes" });
    expect(error).toMatchObject({ code: "no_frames", status: 400 });
  });

  test("of a file with boxes nested beyond all measure is refused with a code", async () => {
    const nested = Buffer.alloc(800_000);
    for (let at = 0; at < nested.byteLength; at += 8) {
      nested.writeUInt32BE(nested.byteLength - at, at);
      nested.write("udta", at + 4, "latin1");
    }
    const clip = replaceBox(CLIPS.mp4, ["moov", "trak", "tkhd"], (box) => [box, nested]);
    for (const part of [{ start: 1 }, { sampling: "indices" }, { sampling: "keyframes" }] as const) {
      expect(await decodeError(clip, part)).toMatchObject({ code: "media_corrupt" });
    }
  });

  test("that is the whole, the name is the whole's", async () => {
    const whole = await decode(CLIPS.mp4, { num_frames: 6 });
    const part = await decode(CLIPS.mp4, { num_frames: 6, start: 0, end: 100 });
    expect(part.tensor).toEqual(whole.tensor);
  });

  test("only what it needs is decoded", async () => {
    const plan = await planOf(CLIPS.mp4, { start: 2, end: 2.2 });
    if (!plan) throw new Error("it is decoded linearly");
    expect(keptCount(plan)).toBeLessThan(20);
    const numbered = await planOf(CLIPS.mp4, { sampling: "indices", num_frames: 2 });
    if (!numbered) throw new Error("it is decoded linearly");
    expect(keptCount(numbered)).toBeLessThan(40);
  });
});

describe("a rotated clip that is scaled down", () => {
  test("is so before it is turned", async () => {
    const whole = await decode(await mediaBytes("rotated90.mp4"), { num_frames: 1, auto_rotate: true });
    const small = await decode(await mediaBytes("rotated90.mp4"), {
      num_frames: 1,
      auto_rotate: true,
      max_pixels: 4800,
    });
    const [, height = 0, width = 0] = whole.tensor.shape;
    const [, smallHeight = 0, smallWidth = 0] = small.tensor.shape;
    expect(smallHeight * smallWidth).toBeLessThanOrEqual(4800);
    expect(Math.abs(smallHeight / smallWidth - height / width)).toBeLessThan(0.05);
  });
});

test("memory is asked for by the size that frames are scaled to, and so is the limit", async () => {
  const limits = { max_alloc: 4 * 1000 * 3 };
  const { roomBytes } = await decode(CLIPS.mp4, { max_pixels: 1000, num_frames: 4, limits });
  expect(roomBytes).toBeLessThanOrEqual(limits.max_alloc);
  expect(await decodeError(CLIPS.mp4, { num_frames: 4, limits })).toMatchObject({ code: "limit_exceeded" });
});

test("sides are rounded down, and are never nothing", () => {
  expect(scaledSize({ width: 1920, height: 1080 }, Number.POSITIVE_INFINITY)).toEqual({ width: 1920, height: 1080 });
  expect(scaledSize({ width: 1920, height: 1080 }, 1920 * 1080)).toEqual({ width: 1920, height: 1080 });
  expect(scaledSize({ width: 1920, height: 1080 }, 500_000)).toEqual({ width: 942, height: 530 });
  expect(scaledSize({ width: 1, height: 10_000 }, 100)).toEqual({ width: 1, height: 100 });
  expect(scaledSize({ width: 10_000, height: 1 }, 100)).toEqual({ width: 100, height: 1 });
  expect(scaledSize({ width: 7, height: 7 }, 1)).toEqual({ width: 1, height: 1 });
});

test("numbers are those of numpy's linspace, as whole numbers", () => {
  expect(evenIndices(1, 10)).toEqual([0]);
  expect(evenIndices(4, 10)).toEqual([0, 3, 6, 9]);
  expect(evenIndices(8, 90)).toEqual([0, 12, 25, 38, 50, 63, 76, 89]);
  expect(evenIndices(10, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test.each([
  { start: -1 },
  { end: 0 },
  { start: 2, end: 2 },
  { start: 2, end: 1 },
  { max_pixels: 0 },
  { sampling: "some" },
])("options that make no sense are refused: %p", async (options) => {
  const { videoOptionsSchema } = await import("../../../src/decode/video/options.ts");
  expect(videoOptionsSchema.safeParse(options).success).toBe(false);
});
