/** Containers besides those of the corpus, streams that begin late, and which of several streams is taken. */
import { describe, expect, test } from "bun:test";
import { isVideoMetadata } from "../../../src/tensor/index.ts";
import { mediaBytes } from "../../support/media.ts";
import { decode, decodeError, madeClip } from "./clips.ts";

const H264 = ["-c:v", "libx264"];
const test25 = (seconds = 3, size = "160x120"): string[] => [
  "-f",
  "lavfi",
  "-i",
  `testsrc=s=${size}:r=25:d=${seconds}`,
];
const SOUND = ["-f", "lavfi", "-i", "sine=d=3"];

async function timesOf(clip: Uint8Array, count: number): Promise<readonly number[]> {
  const { tensor } = await decode(clip, { num_frames: count });
  if (!isVideoMetadata(tensor.metadata)) throw new Error("no clip");
  expect(tensor.shape.slice(1)).toEqual([120, 160, 3]);
  return tensor.metadata.Video.sampled_timestamps;
}

describe("a clip decodes, though its container tells neither duration nor count, in", () => {
  test.each([
    ["ASF", "asf", ["-c:v", "msmpeg4v3"]],
    ["WMV", "wmv", ["-c:v", "wmv2"]],
    ["FLV", "flv", ["-c:v", "flv1"]],
    ["Ogg", "ogv", ["-c:v", "libtheora"]],
    ["MPEG program streams", "mpg", ["-c:v", "mpeg2video"]],
    ["MPEG transport streams", "ts", ["-c:v", "mpeg1video"]],
  ])("%s", async (_, extension, codec) => {
    const clip = await madeClip(extension, [...test25(), ...codec]);
    const { tensor } = await decode(clip, { num_frames: 4 });
    expect(tensor.shape).toEqual([4, 120, 160, 3]);
    if (!isVideoMetadata(tensor.metadata)) throw new Error("no clip");
    const { source_fps, source_duration } = tensor.metadata.Video;
    expect(source_fps).toBeCloseTo(25, 3);
    expect(Math.abs(source_duration - 3)).toBeLessThan(0.1);
  });
});

describe("a stream that begins late", () => {
  test("has timestamps of its own, not shifted: all positions before its beginning are its first frames", async () => {
    const early = await madeClip("mp4", [...test25(), ...H264]);
    const late = await madeClip("ts", [...test25(), ...H264, "-output_ts_offset", "5"]);
    const [first = 0, ...others] = await timesOf(late, 4);
    expect(first).toBeGreaterThan(5);
    for (const [index, time] of others.entries()) expect(time - first).toBeCloseTo(0.04 * (index + 1), 2);
    expect(await timesOf(early, 4)).toEqual([0, 1, 2, 2.9600000381469727]);
  });

  test("in Matroska has the container's duration, its beginning included", async () => {
    const late = await madeClip("mkv", [...test25(), ...H264, "-output_ts_offset", "5"]);
    const times = await timesOf(late, 9); // one for each second, of which those up to the fifth are the first frames
    expect(times[0]).toBe(5);
    expect(times.at(-1)).toBeCloseTo(7.96, 2);
    expect(times.every((time, index) => index === 0 || time > (times[index - 1] ?? 0))).toBe(true);
  });
});

describe("of several video streams", () => {
  test.each(["mp4", "mkv"])("the default one is taken, in %s", async (extension) => {
    const second = ["-map", "0", "-map", "1", ...H264, "-disposition:v:0", "0", "-disposition:v:1", "default"];
    const clip = await madeClip(extension, [...test25(), ...test25(3, "80x60"), ...second]);
    expect((await decode(clip, { num_frames: 2 })).tensor.shape).toEqual([2, 60, 80, 3]);
  });

  test.each(["mp4", "mov"])("a cover is none, in %s", async (extension) => {
    const cover = ["-map", "1", "-map", "0", "-c:v:0", "png", "-c:v:1", "libx264", "-disposition:v:0", "attached_pic"];
    const clip = await madeClip(extension, [...test25(), "-f", "lavfi", "-i", "testsrc=s=64x64:d=0.04", ...cover]);
    expect((await decode(clip, { num_frames: 2 })).tensor.shape).toEqual([2, 120, 160, 3]);
  });

  test("a cover alone is no clip", async () => {
    const args = [...SOUND, "-f", "lavfi", "-i", "testsrc=s=64x64:d=0.04", "-map", "0", "-map", "1", "-c:a", "aac"];
    const clip = await madeClip("m4a", [...args, "-c:v", "png", "-disposition:v:0", "attached_pic"]);
    expect(await decodeError(clip)).toMatchObject({ code: "no_video_stream", status: 400 });
  });
});

describe("what cannot be decoded is named with its codec and container", () => {
  test("where all frames are damaged", async () => {
    const clip = (await mediaBytes("h264_gop12.mkv")).slice();
    for (let at = 600; at < clip.byteLength - 400; at += 1) if (at % 16 > 3) clip[at] = 0xa5;
    const error = await decodeError(clip, { strict: true });
    expect(error.status).toBe(400);
    expect(error.message).toMatch(/in matroska|cannot be read/);
    expect(error.message).not.toMatch(/\/proc|\n/);
  });
});

test("of a clip of 4K few frames take the memory of few", async () => {
  const clip = await madeClip("mkv", [
    "-f",
    "lavfi",
    "-i",
    "color=s=3840x2160:r=25:d=2",
    ...H264,
    "-preset",
    "ultrafast",
  ]);
  const { tensor, roomBytes } = await decode(clip, { num_frames: 3 });
  expect(tensor.shape).toEqual([3, 2160, 3840, 3]);
  expect(roomBytes).toBe(3 * 2160 * 3840 * 3);
});
