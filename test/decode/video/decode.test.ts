import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { decodeVideo, type VideoOptions, videoOptionsSchema } from "../../../src/decode/video/index.ts";
import { mediaBytes } from "../../support/media.ts";
import { openDescriptors } from "../../support/processes.ts";
import { roomContext } from "../../support/rooms.ts";
import vectors from "../../vectors/media.json";
import { decode, decodeError, ffmpegMajor, ffmpegPath, indexOfText, madeClip } from "./clips.ts";

interface ClipReference {
  readonly shape?: number[];
  readonly metadata?: unknown;
  readonly content_hash?: string;
  readonly error?: string;
}

const OPTIONS: Record<string, VideoOptions> = {
  default: {},
  num_frames_4: { num_frames: 4 },
  num_frames_1: { num_frames: 1 },
  max_frames_7: { max_frames: 7 },
  fps_2: { fps: 2 },
};

/** Clips whose pixels depend on ffmpeg's version: the reference values were made with 5.1. */
const PIXELS_OF_5_1: ReadonlySet<string> = new Set(["h264_10bit.mp4", "odd_size_420.mp4"]);

const CASES = Object.entries(vectors as Record<string, { kind: string; reference: Record<string, ClipReference> }>)
  .filter(([name, { kind }]) => kind === "video" && !name.startsWith("bad_"))
  .flatMap(([name, { reference }]) =>
    Object.entries(OPTIONS).flatMap(([option, options]) => {
      const expected = reference[option];
      return expected ? [{ name, option, options, expected }] : [];
    }),
  );

describe("frames, timestamps and content hash are the reference's", () => {
  for (const { name, option, options, expected } of CASES.filter((one) => one.expected.error === undefined)) {
    const isPixelFree = ffmpegMajor !== 5 && PIXELS_OF_5_1.has(name);
    const remark = isPixelFree ? " (hash not compared: another ffmpeg than 5.1 converts this one otherwise)" : "";
    test(`${name} ${option}${remark}`, async () => {
      const { tensor, pixels } = await decode(await mediaBytes(name), options);
      expect(tensor.shape).toEqual(expected.shape ?? []);
      expect(tensor.metadata).toEqual(expected.metadata as typeof tensor.metadata);
      expect(tensor.dtype).toBe("UINT8");
      expect(pixels.byteLength).toBe(tensor.shape.reduce((product, size) => product * size, 1));
      if (!isPixelFree) expect(tensor.contentHash).toBe(expected.content_hash ?? "none");
    });
  }

  test("there are as many cases as the reference can decode", () => {
    expect(CASES.filter((one) => one.expected.error === undefined)).toHaveLength(101);
  });
});

describe("what the reference refuses for a reason is refused", () => {
  const refused = CASES.filter(({ name, expected }) => expected.error !== undefined && !/\.(webm|mkv)$/.test(name));
  test.each(refused.map((one) => [one.name, one.option, one] as const))("%s %s", async (name, _option, one) => {
    const { code, message } = await decodeError(await mediaBytes(name), one.options);
    expect(["no_video_stream", "frame_count_invalid", "no_frames"]).toContain(code);
    if (code === "frame_count_invalid") expect(message).toBe(one.expected.error ?? "");
  });
});

describe("Matroska and WebM, which the reference refuses for want of a duration", () => {
  test.each([
    ["vp9.webm", 30, 3.000000238418579],
    ["vp8.webm", 30, 3.000000238418579],
    ["no_duration.webm", 25, 2],
    ["h264_gop12.mkv", 24, 4],
    ["odd_size_420.webm", 25, 2],
  ])("%s", async (name, fps, duration) => {
    const { tensor } = await decode(await mediaBytes(name), { num_frames: 4 });
    expect(tensor.shape[0]).toBe(4);
    expect(tensor.metadata).toMatchObject({ Video: { source_fps: fps, source_duration: duration } });
  });

  test("has the frames of the same stream in MP4", async () => {
    const [webm, mp4] = [await decode(await mediaBytes("vp9.webm")), await decode(await mediaBytes("vp9.mp4"))];
    const frame = 160 * 120 * 3;
    expect(Bun.hash(webm.pixels.subarray(0, frame))).toBe(Bun.hash(mp4.pixels.subarray(0, frame)));
  });
});

describe("bad clips are refused with a code", () => {
  test.each([
    ["audio_only.mp4", "no_video_stream"],
    ["bad_concat.mp4", "media_unsupported"],
    ["bad_playlist.mp4", "media_unsupported"],
    ["bad_video_text.mp4", "media_unsupported"],
    ["bad_video_moov_missing.mp4", "media_corrupt"],
    ["bad_video_truncated.mp4", "media_corrupt"],
    ["rgb.png", "media_unsupported"],
    ["bad_empty.png", "media_empty"],
  ])("%s: %s", async (name, code) => {
    const error = await decodeError(await mediaBytes(name));
    expect(error).toMatchObject({ code, status: 400 });
    expect(error.message).not.toMatch(/[\n/]/);
    expect(error.message.length).toBeLessThan(300);
  });

  test("a container that lies about the picture's size", async () => {
    const clip = await mediaBytes("h264.mp4");
    const entry = indexOfText(clip.subarray(indexOfText(clip, "stsd")), "avc1") + indexOfText(clip, "stsd");
    new DataView(clip.buffer, clip.byteOffset).setUint16(entry + 28, 320);
    expect(await decodeError(clip)).toMatchObject({
      code: "media_corrupt",
      message: expect.stringContaining("320x120"),
    });
  });

  test("a codec that nobody has, and an encrypted one", async () => {
    for (const format of ["zzzz", "encv"]) {
      const clip = await mediaBytes("h264.mp4");
      const entry = indexOfText(clip.subarray(indexOfText(clip, "stsd")), "avc1") + indexOfText(clip, "stsd");
      clip.set(Buffer.from(format), entry);
      expect(await decodeError(clip)).toMatchObject({ code: "media_unsupported" });
    }
  });

  test("all frames damaged", async () => {
    const clip = await mediaBytes("vp9.mp4");
    const data = indexOfText(clip, "mdat");
    clip.fill(0, data + 4, indexOfText(clip, "moov") - 4);
    const error = await decodeError(clip);
    expect(error.status).toBe(400);
    expect(["no_frames", "media_corrupt"]).toContain(error.code);
  });
});

describe("damage inside a complete file", () => {
  test("is passed over", async () => {
    const { tensor } = await decode(await mediaBytes("bad_video_zeroed.mp4"), { num_frames: 4 });
    expect(tensor.shape[0]).toBeGreaterThan(0);
    expect(tensor.contentHash).toMatch(/^[0-9a-f]{16}$/);
  });

  test("is refused when strict", async () => {
    const clip = await mediaBytes("bad_video_zeroed.mp4");
    expect(await decodeError(clip, { strict: true })).toMatchObject({ code: "media_corrupt" });
  });

  test("strict takes a sound clip", async () => {
    const { tensor } = await decode(await mediaBytes("h264_ntsc_bframes.mp4"), { strict: true });
    expect(tensor.shape[0]).toBe(90);
  });

  test("strict refuses a clip with fewer frames than asked for", async () => {
    const clip = await mediaBytes("edit_list.mp4");
    expect((await decode(clip)).tensor.shape[0]).toBe(69);
    expect(await decodeError(clip, { strict: true })).toMatchObject({ code: "media_corrupt" });
  });

  test("strict refuses a clip whose size changes midway", async () => {
    const clip = await mediaBytes("resolution_change.ivf");
    expect(await decodeError(clip, { strict: true })).toMatchObject({ code: "media_corrupt" });
  });
});

/** A clip of one sample whose tables claim `count` samples of one byte, with `padding` bytes behind to back them. */
function manySamples(clip: Uint8Array, count: number, padding = count): Uint8Array {
  const longer = new Uint8Array(clip.byteLength + 8 + padding);
  longer.set(clip);
  const view = new DataView(longer.buffer);
  view.setUint32(clip.byteLength, 8 + padding);
  longer.set(Buffer.from("free"), clip.byteLength + 4);
  view.setUint32(indexOfText(longer, "stts") + 12, count);
  view.setUint32(indexOfText(longer, "stsz") + 8, 1);
  view.setUint32(indexOfText(longer, "stsz") + 12, count);
  return longer;
}

describe("limits", () => {
  const bytes = 4 * 160 * 120 * 3;

  test("hold to the byte", async () => {
    const clip = await mediaBytes("h264.mp4");
    const { tensor } = await decode(clip, { num_frames: 4, limits: { max_alloc: bytes } });
    expect(tensor.byteLength).toBe(bytes);
    const error = await decodeError(clip, { num_frames: 4, limits: { max_alloc: bytes - 1 } });
    expect(error).toMatchObject({ code: "limit_exceeded", message: expect.stringMatching(/dimensions.*limit/) });
  });

  test("a frame count that the packets do not back costs no memory, and changes no frame", async () => {
    const frame = 160 * 120 * 3;
    const [sound, lying] = [await mediaBytes("h264.mp4"), await mediaBytes("h264.mp4")];
    new DataView(lying.buffer, lying.byteOffset).setUint32(indexOfText(lying, "stts") + 4 + 8, 9000);
    const { tensor, roomBytes } = await decode(lying);
    expect(roomBytes).toBe(90 * frame);
    expect(tensor.shape).toEqual([90, 120, 160, 3]);
    expect(tensor.contentHash).toBe((await decode(sound)).tensor.contentHash);

    const avi = await mediaBytes("mpeg4.avi");
    new DataView(avi.buffer, avi.byteOffset).setUint32(indexOfText(avi, "strh") + 8 + 32, 9000, true);
    expect((await decode(avi)).roomBytes).toBe(75 * frame);
  });

  test("nor does a duration that the packets do not back", async () => {
    const source = ["-f", "lavfi", "-i", "color=c=red:s=160x120:r=30", "-frames:v", "20"];
    const late = ["-vf", "setpts='if(lt(N,10),N,N+8000)/30/TB'", "-fps_mode", "vfr", "-c:v", "mpeg4", "-bf", "0"];
    const { tensor, roomBytes } = await decode(await madeClip("ts", [...source, ...late]));
    expect(roomBytes).toBeLessThanOrEqual(20 * 160 * 120 * 3);
    expect(tensor.shape[0]).toBeGreaterThan(10);
  });

  test("hold the declared frame count too", async () => {
    const clip = await mediaBytes("h264.mp4");
    new DataView(clip.buffer, clip.byteOffset).setUint32(indexOfText(clip, "stts") + 4 + 8, 90_000);
    expect(await decodeError(clip)).toMatchObject({ code: "limit_exceeded" });
  });

  test("a clip of more frames than are walked is refused, few frames of it are not", async () => {
    const clip = manySamples(await mediaBytes("one_frame.mp4"), 200_000);
    const error = await decodeError(clip, { limits: null }, "/nonexistent/ffmpeg");
    expect(error).toMatchObject({
      code: "limit_exceeded",
      message: "a clip of 200000 frames is over the limit of 131072 frames",
    });
    const few = await decodeError(clip, { limits: null, num_frames: 4 }, "/nonexistent/ffmpeg");
    expect(few.code).toBe("ffmpeg_unavailable");
  });

  test("samples of one byte are no more than the file has bytes", async () => {
    const clip = await mediaBytes("one_frame.mp4");
    const lying = manySamples(clip, 178_000_000, 0);
    const error = await decodeError(lying, { limits: null }, "/nonexistent/ffmpeg");
    expect(error.code).toBe("ffmpeg_unavailable");
  });

  test("a clip without a packet has no frames", async () => {
    const clip = await mediaBytes("h264.mp4");
    clip.fill(0, indexOfText(clip, "stsz") + 4, indexOfText(clip, "stsz") + 16);
    expect(await decodeError(clip, {}, "/nonexistent/ffmpeg")).toMatchObject({ code: "no_frames" });
  });

  test("refuse before ffmpeg is started", async () => {
    const error = await decodeError(await mediaBytes("h264.mp4"), { limits: { max_alloc: 0 } }, "/nonexistent/ffmpeg");
    expect(error.code).toBe("limit_exceeded");
  });

  test("null lifts them", async () => {
    expect((await decode(await mediaBytes("h264.mp4"), { limits: null })).tensor.shape[0]).toBe(90);
  });
});

describe("colours", () => {
  const GREEN = [0x20, 0xc0, 0x40] as const;
  const first = async (clip: Uint8Array, options: VideoOptions): Promise<number[]> =>
    Array.from((await decode(clip, options)).pixels.subarray(0, 3));
  const distance = (color: number[]): number =>
    Math.max(...GREEN.map((value, channel) => Math.abs(value - (color[channel] ?? 0))));

  test.each([
    ["bt709", "tv"],
    ["bt709", "pc"],
    ["smpte170m", "tv"],
  ])("tagged %s %s: what was encoded", async (matrix, range) => {
    const source = ["-f", "lavfi", "-i", "color=c=0x20C040:s=64x48:r=10", "-frames:v", "2"];
    const convert = ["-vf", `format=rgb24,scale=out_color_matrix=${matrix}:out_range=${range},format=yuv420p`];
    const tags = ["-colorspace", matrix, "-color_range", range, "-c:v", "libx264", "-qp", "4"];
    const clip = await madeClip("mp4", [...source, ...convert, ...tags]);
    expect(distance(await first(clip, { color: "tagged" }))).toBeLessThan(6);
    const asReference = distance(await first(clip, {}));
    if (matrix === "bt709") expect(asReference).toBeGreaterThan(10);
    else expect(asReference).toBeLessThan(6);
  });

  test("a clip without tags is BT.601 either way", async () => {
    const clip = await mediaBytes("h264.mp4");
    const [reference, tagged] = [await decode(clip), await decode(clip, { color: "tagged" })];
    expect(tagged.tensor.contentHash).toBe(reference.tensor.contentHash);
  });
});

describe("ffmpeg itself failing is the host's fault", () => {
  test.each([
    ["not found", null, "ffmpeg_unavailable"],
    ["not there", "/nonexistent/ffmpeg", "ffmpeg_unavailable"],
    ["not a program", "/etc/passwd", "ffmpeg_unavailable"],
    ["another program", "/bin/false", "ffmpeg_unavailable"],
    ["another program that seems to succeed", "/bin/true", "ffmpeg_unavailable"],
  ])("%s", async (_name, program, code) => {
    const error = await decodeError(await mediaBytes("h264.mp4"), {}, program);
    expect(error).toMatchObject({ code, status: 500 });
  });
});

test("a clip of more frames than fit into an argument as a filter", async () => {
  const source = ["-f", "lavfi", "-i", "color=c=red:s=16x16:r=30", "-frames:v", "6000"];
  const clip = await madeClip("mp4", [...source, "-c:v", "mpeg4", "-g", "600"]);
  const { tensor, pixels } = await decode(clip);
  expect(tensor.shape).toEqual([6000, 16, 16, 3]);
  expect(pixels.subarray(-3)[0]).toBeGreaterThan(200);
}, 20_000);

test("decoding leaves no descriptor and no child behind", async () => {
  const clip = await mediaBytes("h264.ts");
  const children = (): string[] =>
    readdirSync("/proc/self/task").flatMap((task) =>
      readFileSync(`/proc/self/task/${task}/children`, "utf8").trim().split(" ").filter(Boolean),
    );
  const run = async (): Promise<void> => {
    await decode(clip, { num_frames: 1 });
    await decodeError(clip, { num_frames: 1 }, "/nonexistent/ffmpeg");
  };
  await run();
  const before = { descriptors: openDescriptors(), children: children() };
  for (let round = 0; round < 3; round += 1) await run();
  expect({ descriptors: openDescriptors(), children: children() }).toEqual(before);
});

test("without a wish for a hash there is none", async () => {
  const context = { ...roomContext().context, ffmpegPath };
  const settings = videoOptionsSchema.parse({ num_frames: 1 });
  const tensor = await decodeVideo(await mediaBytes("h264.mp4"), { settings, hashVideo: false }, context);
  expect(tensor.contentHash).toBeNull();
});
