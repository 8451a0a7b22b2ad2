/** Animated GIF and WebP as clips. */
import { describe, expect, test } from "bun:test";
import sharp from "sharp";
import { withShownDelays } from "../../../src/decode/video/gif_delays.ts";
import type { VideoOptions } from "../../../src/decode/video/index.ts";
import { MediaLoader } from "../../../src/index.ts";
import { isVideoMetadata } from "../../../src/tensor/index.ts";
import { mediaBytes } from "../../support/media.ts";
import { refusal } from "../../support/refusal.ts";
import { decode, decodeError, madeClip } from "./clips.ts";

const [WIDTH, HEIGHT, FRAMES] = [40, 30, 20];
/** How long each frame is shown, ms. */
const DELAYS = Array.from({ length: FRAMES }, (_, frame) => (frame % 2 === 0 ? 50 : 150));
const TIMES = DELAYS.map((_, frame) => DELAYS.slice(0, frame).reduce((sum, delay) => sum + delay, 0) / 1000);

/** Frame i is all of one grey, 10·i. */
const PAGES = Buffer.concat(Array.from({ length: FRAMES }, (_, frame) => Buffer.alloc(WIDTH * HEIGHT * 3, frame * 10)));
const stack = () => sharp(PAGES, { raw: { width: WIDTH, height: HEIGHT * FRAMES, channels: 3, pageHeight: HEIGHT } });
const ANIMATIONS = {
  webp: new Uint8Array(await stack().webp({ lossless: true, delay: DELAYS, loop: 0 }).toBuffer()),
  gif: new Uint8Array(await stack().gif({ delay: DELAYS, loop: 0, dither: 0 }).toBuffer()),
} as const;
/** A WebP chunk (RFC 9649): name, length, content, padding. */
function chunk(name: string, ...content: Uint8Array[]): Buffer {
  const bytes = Buffer.concat(content);
  const header = Buffer.alloc(8);
  header.write(name, "latin1");
  header.writeUInt32LE(bytes.byteLength, 4);
  return Buffer.concat([header, bytes, Buffer.alloc(bytes.byteLength % 2)]);
}

/** Numbers of 24 bits. */
function triples(...values: number[]): Buffer {
  return Buffer.from(values.flatMap((value) => [value & 255, (value >> 8) & 255, value >> 16]));
}

/** An animation in WebP of pictures of one pixel on a canvas of any size. */
async function dots(width: number, height: number, pages: number): Promise<Uint8Array> {
  const pixel = { width: 1, height: 1, channels: 4, background: "#fff" } as const;
  const still = await sharp({ create: pixel }).webp({ lossless: true }).toBuffer();
  const picture = chunk("ANMF", triples(0, 0, 0, 0, 40), Buffer.alloc(1), still.subarray(12));
  return chunk(
    "RIFF",
    Buffer.from("WEBP"),
    chunk("VP8X", Buffer.from([0x12, 0, 0, 0]), triples(width - 1, height - 1)),
    chunk("ANIM", Buffer.alloc(6)),
    ...Array.from({ length: pages }, () => picture),
  );
}

const FORMATS = Object.keys(ANIMATIONS) as (keyof typeof ANIMATIONS)[];

async function taken(encoded: Uint8Array, options: VideoOptions = {}) {
  const { tensor, pixels } = await decode(encoded, options);
  if (!isVideoMetadata(tensor.metadata)) throw new Error("no clip");
  const [frames = 0, height = 0, width = 0] = tensor.shape;
  const numbers = Array.from({ length: frames }, (_, frame) => (pixels[frame * height * width * 3] ?? 0) / 10);
  return { ...tensor.metadata.Video, numbers, shape: tensor.shape, pixels };
}

describe.each(FORMATS)("an animation in %s", (format) => {
  const encoded = ANIMATIONS[format];

  test("is a clip of all its frames, shown when it says", async () => {
    const { numbers, shape, sampled_timestamps, source_duration } = await taken(encoded, {
      sampling: "indices",
    });
    expect(shape).toEqual([FRAMES, HEIGHT, WIDTH, 3]);
    expect(numbers).toEqual(Array.from({ length: FRAMES }, (_, frame) => frame));
    for (const [frame, time] of TIMES.entries()) expect(sampled_timestamps[frame]).toBeCloseTo(time, 5);
    expect(source_duration).toBeCloseTo(2, 5);
  });

  test("gives the frames that are asked for, by time or by number", async () => {
    expect((await taken(encoded, { sampling: "indices", num_frames: 5 })).numbers).toEqual([0, 4, 9, 14, 19]);
    const byTime = await taken(encoded, { num_frames: 4 });
    // The last position is one frame of average length before the end, where the last frame, a long one, has begun.
    expect(byTime.numbers.length).toBe(3);
    expect(byTime.sampled_timestamps[0]).toBe(0);
    const part = await taken(encoded, { start: 0.5, end: 1 });
    expect(part.sampled_timestamps.every((time) => time >= 0.5 && time < 1)).toBe(true);
    expect(part.numbers.length).toBeGreaterThan(2);
  });

  test("is scaled down", async () => {
    const { shape, numbers } = await taken(encoded, { max_pixels: 300, sampling: "indices", num_frames: 2 });
    expect(shape).toEqual([2, 15, 20, 3]);
    expect(numbers[0]).toBe(0);
  });

  test("has limits", async () => {
    const limits = { max_alloc: FRAMES * WIDTH * HEIGHT * 3 - 1 };
    expect(await decodeError(encoded, { limits })).toMatchObject({ code: "limit_exceeded", status: 400 });
    expect(await decodeError(encoded, { num_frames: FRAMES + 1 })).toMatchObject({ code: "frame_count_invalid" });
  });

  test("is damaged when it is cut off", async () => {
    const cut = encoded.subarray(0, Math.floor(encoded.byteLength / 2));
    const error = await decodeError(cut, { strict: true });
    expect(error).toMatchObject({ code: "media_corrupt", status: 400 });
  });
});

test("a canvas counts as large as it is, also when the request has it scaled down", async () => {
  const error = await decodeError(await dots(16_383, 16_383, 2), { max_pixels: 100, num_frames: 1 });
  expect(error).toMatchObject({ code: "limit_exceeded", status: 400 });
});

test("a canvas that the decoder has no memory for is the host's matter", async () => {
  await using loader = await MediaLoader.create({
    decoders: { children: 1, memoryLimitBytes: 512 * 1024 * 1024 },
    video: { limits: null, max_pixels: 100, num_frames: 1 },
  });
  const url = `data:;base64,${Buffer.from(await dots(16_383, 16_383, 2)).toString("base64")}`;
  const error = await refusal(loader.load({ type: "video_url", video_url: url }));
  expect(error).toMatchObject({ code: "system_failed", status: 500 });
});

test("what takes too many pictures to draw is refused, and taking fewer of them helps", async () => {
  const encoded = await dots(800, 600, 2000);
  const error = await decodeError(encoded, { max_pixels: 100, sampling: "indices", num_frames: 500 });
  expect(error).toMatchObject({ code: "limit_exceeded", message: expect.stringContaining("to draw") });
  const { shape } = await taken(encoded, { max_pixels: 100, sampling: "indices", num_frames: 4 });
  expect(shape).toEqual([4, 8, 11, 3]);
});

test.each(["animated.gif", "animated.webp"])("%s is a picture as an image, a clip as a video", async (name) => {
  await using loader = await MediaLoader.create({ decoders: { children: 1 }, hashVideo: true });
  const url = `data:;base64,${Buffer.from(await mediaBytes(name)).toString("base64")}`;
  using clip = await loader.load({ type: "video_url", video_url: url });
  using picture = await loader.load({ type: "image_url", image_url: url });
  using bytes = await loader.load(await mediaBytes(name));
  expect([clip.shape.length, picture.shape.length, bytes.shape.length]).toEqual([4, 3, 3]);
  expect(clip.shape[0]).toBeGreaterThan(1);
  expect(clip.shape.slice(1, 3)).toEqual(picture.shape.slice(0, 2));
  // What the first frame shows is the same, but for transparency and the colours of lossy pictures.
  const [first, still] = [clip.localPayload ?? [], picture.localPayload ?? []];
  const channels = picture.shape[2] ?? 0;
  expect(Math.abs((first[0] ?? 0) - (still[0] ?? 0))).toBeLessThanOrEqual(channels === 4 ? 255 : 8);
});

test("what is transparent is white", async () => {
  const clear = await sharp({
    create: { width: 8, height: 8, channels: 4, background: { r: 9, g: 9, b: 9, alpha: 0 } },
  })
    .webp({ lossless: true })
    .toBuffer();
  expect([...(await taken(new Uint8Array(clear))).pixels.subarray(0, 3)]).toEqual([255, 255, 255]);
  const { pixels } = await taken(await mediaBytes("transparent.gif"));
  expect([...pixels].filter((value) => value === 255).length).toBeGreaterThan(0);
});

describe("frames of a GIF that are shown for less than browsers show any", () => {
  /** The animation with other delays, hundredths of a second, in its graphic control extensions. */
  function withDelays(...delays: number[]): Uint8Array {
    const gif = Buffer.from(ANIMATIONS.gif);
    const control = Buffer.of(0x21, 0xf9, 4);
    let frame = 0;
    for (let at = gif.indexOf(control); at >= 0; at = gif.indexOf(control, at + 8)) {
      gif.writeUInt16LE(delays[frame % delays.length] ?? 0, at + 4);
      frame += 1;
    }
    expect(frame).toBe(FRAMES);
    return new Uint8Array(gif);
  }

  test.each([
    [[0], [10]],
    [[1], [10]],
    [[2], [2]],
    [
      [1, 5],
      [10, 5],
    ],
    [
      [0, 3, 1, 255, 256],
      [10, 3, 10, 255, 256],
    ],
  ])("%j are shown as %j, whatever ffmpeg's version makes of them", async (delays, shown) => {
    const { sampled_timestamps, numbers } = await taken(withDelays(...delays), { sampling: "indices" });
    expect(numbers).toEqual(Array.from({ length: FRAMES }, (_, frame) => frame));
    let time = 0;
    for (const [frame, seconds] of sampled_timestamps.entries()) {
      expect(seconds).toBeCloseTo(time / 100, 5);
      time += shown[frame % shown.length] ?? 0;
    }
  });

  test("are read as far as a damaged file can be", () => {
    const gif = withDelays(0);
    for (let length = 0; length < gif.byteLength; length += 7) {
      const cut = gif.subarray(0, length);
      expect(withShownDelays(cut).byteLength).toBe(length);
    }
    const sound = withDelays(5);
    expect(withShownDelays(sound)).toBe(sound);
  });
});

test.each(["static.gif", "lossy.webp"])("one picture, %s, is a clip of one frame", async (name) => {
  expect((await taken(await mediaBytes(name))).shape[0]).toBe(1);
});

test("a picture of another format is no clip", async () => {
  expect(await decodeError(await mediaBytes("rgb.png"))).toMatchObject({ code: "media_unsupported" });
});

test("without ffmpeg a WebP animation is decoded, a GIF is not", async () => {
  const { tensor } = await decode(ANIMATIONS.webp, { sampling: "indices" }, null);
  expect(tensor.shape[0]).toBe(FRAMES);
  expect(await decodeError(ANIMATIONS.gif, {}, null)).toMatchObject({ code: "ffmpeg_unavailable", status: 500 });
});

test("a clip made by ffmpeg as a GIF has the frames that it has as a video", async () => {
  const source = "nullsrc=s=32x32:r=10:d=2,geq=lum='16+10*N':cb=128:cr=128";
  const gif = await taken(await madeClip("gif", ["-f", "lavfi", "-i", source]));
  expect(gif.shape).toEqual([20, 32, 32, 3]);
  expect(gif.source_fps).toBeCloseTo(10, 3);
  expect(gif.numbers.every((number, frame) => frame === 0 || number >= (gif.numbers[frame - 1] ?? 0))).toBe(true);
  expect(gif.numbers.at(-1)).toBeGreaterThan(15);
});
