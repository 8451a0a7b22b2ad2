import { describe, expect, test } from "bun:test";
import { createFile } from "../../../ffi/process.ts";
import type { Demuxer } from "../../../src/decode/sniff.ts";
import { sniffMedia } from "../../../src/decode/sniff.ts";
import { type ContainerFacts, readContainerFacts } from "../../../src/decode/video/facts.ts";
import { checkPacketCount, MOST_PACKETS, packetRate } from "../../../src/decode/video/packets.ts";
import { probeContainer } from "../../../src/decode/video/probe.ts";
import { mediaBytes, mediaPath } from "../../support/media.ts";
import { decode, ffmpegPath, indexOfText, madeClip } from "./clips.ts";

const noProbe = (): Promise<never> => Promise.reject(new Error("ffmpeg was asked"));

function demuxerOf(bytes: Uint8Array): Demuxer {
  const sniffed = sniffMedia(bytes);
  if (sniffed.kind !== "container") throw new Error(`no container: ${sniffed.kind}`);
  return sniffed.demuxer;
}

function facts(bytes: Uint8Array): Promise<ContainerFacts> {
  return readContainerFacts(bytes, demuxerOf(bytes), noProbe);
}

async function probedFacts(bytes: Uint8Array): Promise<ContainerFacts> {
  using input = createFile("clip", bytes.byteLength);
  input.bytes.set(bytes);
  const demuxer = demuxerOf(bytes);
  return await readContainerFacts(bytes, demuxer, () => probeContainer(ffmpegPath, input, demuxer));
}

/** What ffprobe 5.1 prints: size, ticks per second, duration in ticks, r_frame_rate, nb_frames. */
const FFPROBE: [name: string, size: string, timescale: number, duration: number, rate: string, frames: number][] = [
  ["av.mp4", "160x120", 12800, 38400, "25/1", 75],
  ["av1.mp4", "160x120", 10240, 10240, "10/1", 10],
  ["av_faststart.mov", "160x120", 12800, 38400, "25/1", 75],
  ["edit_list.mp4", "160x120", 15360, 35328, "30/1", 90],
  ["h264.mp4", "160x120", 15360, 46080, "30/1", 90],
  ["h264_ntsc_bframes.mp4", "160x120", 30000, 90090, "30000/1001", 90],
  ["h265.mp4", "160x120", 12800, 25600, "25/1", 50],
  ["minute.mp4", "160x120", 10240, 614400, "5/1", 300],
  ["odd_size_420.mp4", "161x121", 12800, 25600, "25/1", 50],
  ["one_frame.mp4", "160x120", 12800, 512, "25/1", 1],
  ["rotated90.mp4", "160x120", 15360, 46080, "30/1", 90],
  ["vp9_1fps_10.mp4", "160x120", 16384, 163840, "1/1", 10],
];
const FFPROBE_ASKED: typeof FFPROBE = [
  ["vfr.mp4", "160x120", 15360, 58368, "30/1", 60],
  ["h264.ts", "160x120", 90000, 270000, "25/1", 0],
  ["mpeg4.avi", "160x120", 25, 75, "25/1", 75],
  ["resolution_change.ivf", "64x64", 10, 4, "10/1", 0],
];

function printed({ width, height, timeBase, durationTicks, frameRate, frameCount }: ContainerFacts) {
  expect(timeBase.num).toBe(1);
  return [
    `${width}x${height}`,
    timeBase.den,
    durationTicks,
    `${frameRate.num}/${frameRate.den}`,
    frameCount,
  ] as unknown;
}

describe("what ffprobe says", () => {
  test.each(FFPROBE)("%s, without asking ffmpeg", async (name, ...expected) => {
    expect(printed(await facts(await mediaBytes(name)))).toEqual(expected);
  });

  test.each(FFPROBE_ASKED)("%s, asking ffmpeg once", async (name, ...expected) => {
    expect(printed(await probedFacts(await mediaBytes(name)))).toEqual(expected);
  });
});

describe("MP4", () => {
  test("in fragments: as long as all of them", async () => {
    const args = ["-i", mediaPath("minute.mp4"), "-c", "copy", "-movflags", "frag_keyframe+empty_moov"];
    expect(await probedFacts(await madeClip("mp4", args))).toMatchObject({ durationTicks: 614400, frameCount: 0 });
  });

  test("in fragments, cut in the middle of one", async () => {
    const args = ["-i", mediaPath("minute.mp4"), "-c", "copy", "-movflags", "frag_keyframe+empty_moov"];
    const clip = await madeClip("mp4", args);
    const cut = clip.subarray(0, Math.floor(clip.length * 0.6));
    await expect(facts(cut)).rejects.toMatchObject({ code: "media_corrupt" });
  });

  test("that begins later: the empty edit does not count", async () => {
    const args = ["-itsoffset", "1.5", "-i", mediaPath("h264_ntsc_bframes.mp4"), "-c", "copy", "-copyts"];
    expect(await facts(await madeClip("mp4", args))).toMatchObject({ durationTicks: 90090 });
  });

  test("with a cover picture: the film is the video", async () => {
    const inputs = ["-i", mediaPath("rgb.png"), "-i", mediaPath("av.mp4")];
    const args = [...inputs, "-map", "0", "-map", "1", "-c", "copy", "-disposition:v:0", "attached_pic"];
    expect(await facts(await madeClip("mp4", args))).toMatchObject({ width: 160, frameCount: 75 });
  });

  test("with sound first: the index counts all streams", async () => {
    const args = ["-i", mediaPath("av.mp4"), "-map", "0:a", "-map", "0:v", "-c", "copy"];
    expect(await facts(await madeClip("mp4", args))).toMatchObject({ stream: 1, frameCount: 75 });
  });

  test("a media header without a duration: the samples tell", async () => {
    const clip = await mediaBytes("h264.mp4");
    clip.fill(0, indexOfText(clip, "mdhd") + 4 + 16, indexOfText(clip, "mdhd") + 4 + 20);
    expect(await facts(clip)).toMatchObject({ durationTicks: 46080 });
  });

  test("sample sizes in the compact form", async () => {
    const clip = await mediaBytes("h264.mp4");
    const at = indexOfText(clip, "stsz");
    const view = new DataView(clip.buffer, clip.byteOffset);
    const sizes = Array.from({ length: 90 }, (_, index) => view.getUint32(at + 16 + index * 4));
    clip.set(Buffer.from("stz2"), at);
    view.setUint32(at + 8, 16);
    sizes.forEach((size, index) => {
      view.setUint16(at + 16 + index * 2, size);
    });
    expect(await facts(clip)).toMatchObject({ frameCount: 90, packetCount: 90 });
    expect((await decode(clip)).tensor.shape[0]).toBe(90);
    view.setUint16(at + 16 + 89 * 2, 0xffff);
    await expect(facts(clip)).rejects.toMatchObject({ code: "media_corrupt" });
    for (const [bits, count] of [
      [8, 90],
      [4, 90],
      [7, 0],
    ] as const) {
      view.setUint32(at + 8, bits);
      expect(await facts(clip)).toMatchObject({ packetCount: count });
    }
  });

  test("tables that claim more than there is in them are read as far as they go", async () => {
    for (const table of ["stts", "stsz", "stco", "stsc", "elst"]) {
      const clip = await mediaBytes("h264.mp4");
      const countAt = indexOfText(clip, table) + 4 + (table === "stsz" ? 8 : 4);
      clip.fill(0xff, countAt, countAt + 4);
      const outcome = await facts(clip).catch((error: unknown) => error);
      expect(outcome).toMatchObject(outcome instanceof Error ? { name: "MediaError" } : { width: 160 });
    }
  });

  test.each([
    ["audio_only.mp4", "no_video_stream"],
    ["bad_video_moov_missing.mp4", "media_corrupt"],
    ["bad_video_truncated.mp4", "media_corrupt"],
  ])("%s: %s", async (name, code) => {
    await expect(facts(await mediaBytes(name))).rejects.toMatchObject({ code });
  });

  test("cut anywhere: a coded error, never a wrong answer", async () => {
    const clip = await mediaBytes("av_faststart.mov");
    // The last tenth is sound only.
    for (let length = 16; length < clip.length * 0.9; length += 997) {
      await expect(facts(clip.subarray(0, length))).rejects.toMatchObject({ status: 400 });
    }
  });
});

describe("Matroska and WebM", () => {
  test.each([
    ["vp9.webm", 3000, "30/1", 90],
    ["vp8.webm", 3000, "30/1", 90],
    ["no_duration.webm", 2000, "25/1", 50],
    ["h264_gop12.mkv", 4000, "24/1", 96],
  ])("%s: duration, rate and count, without asking ffmpeg", async (name, duration, rate, frames) => {
    expect(printed(await facts(await mediaBytes(name)))).toEqual([expect.any(String), 1000, duration, rate, frames]);
  });

  test("shorter than the segment says", async () => {
    const clip = await mediaBytes("vp9.webm");
    const cut = clip.subarray(0, Math.floor(clip.length * 0.6));
    await expect(facts(cut)).rejects.toMatchObject({ code: "media_corrupt" });
  });

  test("a live recording that was cut off has the frames that it has", async () => {
    const clip = await mediaBytes("no_duration.webm");
    const cut = await probedFacts(clip.subarray(0, Math.floor(clip.length * 0.6)));
    expect(cut).toMatchObject({ width: 160, frameRate: { num: 25, den: 1 } });
    expect(cut.frameCount).toBeGreaterThan(10);
    expect(cut.frameCount).toBeLessThan(50);
    expect(cut.durationTicks).toBe(cut.frameCount * 40);
  });
});

describe("AVI", () => {
  test("shorter than its header says", async () => {
    const clip = await mediaBytes("mpeg4.avi");
    await expect(facts(clip.subarray(0, clip.length / 2))).rejects.toMatchObject({ code: "media_corrupt" });
  });

  test("that was written to a pipe, with no length and no count in its headers, has its frames", async () => {
    const copy = [ffmpegPath, "-v", "error", "-i", mediaPath("mpeg4.avi"), "-c", "copy", "-f", "avi", "pipe:1"];
    const piped = new Uint8Array(await new Response(Bun.spawn(copy).stdout).arrayBuffer());
    expect(new DataView(piped.buffer).getUint32(4, true)).toBe(0xffffffff);
    const { tensor } = await decode(piped, { num_frames: 5 });
    expect(tensor.shape[0]).toBe(5);
    const whole = await decode(await mediaBytes("mpeg4.avi"), { num_frames: 5 });
    expect(tensor.contentHash).toBe(whole.tensor.contentHash);
  });
});

test("packets are counted in all containers, fragments included", async () => {
  for (const [name, count] of [
    ["h264.mp4", 90],
    ["h264.ts", 75],
    ["mpeg4.avi", 75],
    ["vp9.webm", 90],
  ] as const) {
    expect(await probedFacts(await mediaBytes(name))).toMatchObject({ packetCount: count });
  }
  const args = ["-i", mediaPath("minute.mp4"), "-c", "copy", "-movflags"];
  for (const flags of ["frag_keyframe+empty_moov", "frag_keyframe"]) {
    const clip = await madeClip("mp4", [...args, flags]);
    expect(await probedFacts(clip)).toMatchObject({ packetCount: 300 });
  }
});

test("more packets than are held are over the limit", () => {
  checkPacketCount(MOST_PACKETS);
  expect(() => checkPacketCount(MOST_PACKETS + 1)).toThrow(expect.objectContaining({ code: "limit_exceeded" }));
});

describe("a rate out of packets", () => {
  const milliseconds = { num: 1, den: 1000 };
  const packetsAt = (rate: number, count: number) =>
    Array.from({ length: count }, (_, index) => ({ pts: Math.round((index * 1000) / rate), duration: 0 }));

  test.each([
    [30, { num: 30, den: 1 }],
    [30000 / 1001, { num: 30000, den: 1001 }],
    [24000 / 1001, { num: 24000, den: 1001 }],
    [59.94005994, { num: 60000, den: 1001 }],
    [1, { num: 1, den: 1 }],
  ])("%p frames a second, rounded to milliseconds", (rate, expected) => {
    expect(packetRate(packetsAt(rate, 100), milliseconds)).toEqual(expected);
  });

  test("an odd one is the average", () => {
    expect(
      packetRate(
        [0, 400, 1300].map((pts) => ({ pts, duration: 0 })),
        milliseconds,
      ),
    ).toEqual({ num: 20, den: 13 });
  });

  test("of one packet: its duration, if it has one", () => {
    expect(packetRate([{ pts: 5, duration: 40 }], milliseconds)).toEqual({ num: 25, den: 1 });
    expect(packetRate([{ pts: 5, duration: 0 }], milliseconds)).toBeNull();
    expect(packetRate([], milliseconds)).toBeNull();
  });
});
