import { describe, expect, test } from "bun:test";
import { planRequest } from "../../../src/decode/video/clip_decoding.ts";
import { writeCompactFile } from "../../../src/decode/video/compact_file.ts";
import { readSampleIndex } from "../../../src/decode/video/sample_index.ts";
import { mediaBytes } from "../../support/media.ts";
import { decode, indexOfText, madeClip } from "./clips.ts";
import { decodeLinearly, decodePlanned, keptCount, planOf, requestOf } from "./plans.ts";

const SOURCE = ["-f", "lavfi", "-i", "testsrc2=s=128x96:r=25"];
const X264 = ["-c:v", "libx264", "-preset", "veryfast"];
/** Groups of 40 pictures, 150 in all; a B-frame that nothing refers to after each other one. */
const B_FRAMES = [
  ...SOURCE,
  "-frames:v",
  "150",
  ...X264,
  "-bf",
  "1",
  "-b_strategy",
  "0",
  "-g",
  "40",
  "-sc_threshold",
  "0",
];
const WITHOUT_B_FRAMES = [...SOURCE, "-frames:v", "150", ...X264, "-bf", "0", "-g", "40", "-sc_threshold", "0"];

/** Bytes of the clip's `n`-th sample. */
function sampleRange(clip: Uint8Array, sample: number): { start: number; end: number } {
  const index = readSampleIndex(clip, 0, 12_800);
  if (!index) throw new Error("the clip has no sample index");
  const start = index.offsets[sample] ?? 0;
  return { start, end: start + (index.sizes[sample] ?? 0) };
}

function view(clip: Uint8Array): DataView {
  return new DataView(clip.buffer, clip.byteOffset, clip.byteLength);
}

/** A clip whose header is behind its media, with chunk offsets of 64 bits instead of 32. */
function withLongOffsets(clip: Uint8Array): Uint8Array {
  const start = indexOfText(clip, "stco") - 4;
  const count = view(clip).getUint32(start + 12);
  const table = Buffer.alloc(16 + count * 8);
  table.writeUInt32BE(table.byteLength, 0);
  table.write("co64", 4);
  table.writeUInt32BE(count, 12);
  for (let chunk = 0; chunk < count; chunk += 1) {
    table.writeUInt32BE(view(clip).getUint32(start + 16 + chunk * 4), 16 + chunk * 8 + 4);
  }
  const longer = Buffer.concat([clip.subarray(0, start), table, clip.subarray(start + 16 + count * 4)]);
  for (const around of ["moov", "trak", "mdia", "minf", "stbl"]) {
    const at = indexOfText(longer, around) - 4;
    longer.writeUInt32BE(longer.readUInt32BE(at) + count * 4, at);
  }
  return longer;
}

describe("what is kept", () => {
  test("of groups without a frame wanted nothing, of others what comes up to the last one wanted", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    const plan = await planOf(clip, { num_frames: 3 });
    // Wanted are 0, 75 and 149, groups begin at 0, 40, 80 and 120.
    const kept = plan?.parts.flatMap(({ stretches }) => stretches.map((stretch) => stretch.kept));
    expect(kept?.map((samples) => [samples[0], samples.at(-1), samples.length])).toEqual([
      [0, 0, 1],
      [40, 75, 36],
      [120, 149, 30],
    ]);
  });

  test("pictures that nothing refers to are left out, unless they are wanted", async () => {
    const clip = await madeClip("mp4", B_FRAMES);
    const plan = await planOf(clip, { num_frames: 2 });
    const [, last] = plan?.parts.flatMap(({ stretches }) => stretches) ?? [];
    // Half of the 30 pictures of the last group, and perhaps the last one, if it is one of the others.
    expect(last?.kept.length).toBeGreaterThanOrEqual(15);
    expect(last?.kept.length).toBeLessThanOrEqual(17);
    const middle = await planOf(clip, { num_frames: 1 });
    expect(middle?.parts.flatMap(({ targets }) => targets)).toHaveLength(1);
    expect(middle && keptCount(middle)).toBeLessThan(30);
  });

  test("of a long clip a small part, and of its bytes as small a part", async () => {
    const long = ["-f", "lavfi", "-i", "testsrc2=s=64x48:r=25", "-frames:v", "3000", ...X264, "-g", "25"];
    const clip = await madeClip("mp4", long);
    const plan = await planOf(clip, { num_frames: 4 });
    if (!plan) throw new Error("the clip has no plan");
    expect(keptCount(plan)).toBeLessThan(100);
    const compact = plan.parts.map((part) => writeCompactFile(clip, plan.index, part, plan.codec));
    const bytes = compact.reduce((sum, one) => sum + (one?.file.bytes.byteLength ?? 0), 0);
    for (const one of compact) one?.[Symbol.dispose]();
    expect(bytes).toBeLessThan(clip.byteLength / 20);
  });

  test("two decoders get about half each; the frames wanted stay in their order", async () => {
    const clip = await madeClip("mp4", [...WITHOUT_B_FRAMES, "-g", "10"]);
    const plan = await planOf(clip, { num_frames: 30 }, 2);
    expect(plan?.parts).toHaveLength(2);
    const targets = plan?.parts.flatMap((part) => part.targets) ?? [];
    expect(targets).toHaveLength(30);
    expect(targets).toEqual(targets.toSorted((a, b) => a - b));
    const [first, second] = plan?.parts.map(({ cost }) => cost) ?? [];
    expect(Math.max(first ?? 0, second ?? 0)).toBeLessThan(0.65 * (plan?.cost ?? 0));
  });

  test("a short clip is not divided", async () => {
    const clip = await madeClip("mp4", [...WITHOUT_B_FRAMES, "-g", "10"]);
    const plan = planRequest(clip, await requestOf(clip, { num_frames: 30 }), 2);
    expect(plan?.parts).toHaveLength(1);
  });

  test("what is left out does not hang on how many decoders there are", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    for (const options of [{ num_frames: 2 }, { num_frames: 8 }, { num_frames: 30 }]) {
      const [alone, together] = [await planOf(clip, options, 1), await planOf(clip, options, 2)];
      if (alone === null && together !== null) expect(keptCount(together)).toBe(150);
      else expect(together && keptCount(together)).toBe(alone && keptCount(alone));
    }
  });

  test("the same with offsets of 64 bits", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    const long = withLongOffsets(clip);
    const kept = async (bytes: Uint8Array) => (await planOf(bytes, { num_frames: 3 }))?.parts[0]?.stretches;
    expect(await kept(long)).toEqual((await kept(clip)) ?? []);
    const linear = await decodeLinearly(long, await requestOf(long, { num_frames: 3 }));
    expect(Bun.hash((await decode(long, { num_frames: 3 })).pixels)).toBe(Bun.hash(linear.pixels));
  });

  test("the compact file's clock may begin late: 40 seconds at a million ticks a second", async () => {
    const clip = await madeClip("mp4", [
      ...["-f", "lavfi", "-i", "testsrc2=s=64x48:r=5", "-frames:v", "1200", ...X264, "-g", "50"],
      ...["-video_track_timescale", "10000000"],
    ]);
    const [plan, request] = [await planOf(clip, { num_frames: 1 }), await requestOf(clip, { num_frames: 1 })];
    const frames = plan && (await decodePlanned(clip, request, plan));
    expect(frames?.timestamps).toEqual((await decodeLinearly(clip, request)).timestamps);
    expect(frames?.timestamps[0]).toBeGreaterThan(1_000_000_000);
  });
});

describe("decoded linearly are", () => {
  test.each([
    ["MPEG-4 part 2", [...SOURCE, "-frames:v", "50", "-c:v", "mpeg4", "-g", "10"]],
    ["Motion JPEG", [...SOURCE, "-frames:v", "50", "-c:v", "mjpeg"]],
    ["fragments", [...WITHOUT_B_FRAMES, "-movflags", "+frag_keyframe+empty_moov"]],
  ])("%s", async (_name, args) => {
    const clip = await madeClip("mp4", args);
    expect(await planOf(clip, { num_frames: 2 })).toBeNull();
    expect((await decode(clip, { num_frames: 2 })).tensor.shape[0]).toBe(2);
  });

  test("all frames, for one decoder", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    expect(await planOf(clip, {}, 1)).toBeNull();
  });

  test("an edit at double speed", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    expect(await planOf(clip, { num_frames: 2 })).not.toBeNull();
    view(clip).setUint32(indexOfText(clip, "elst") + 4 + 4 + 4 + 8, 0x20000);
    expect(await planOf(clip, { num_frames: 2 })).toBeNull();
  });

  test("a stream that does not say how far its pictures are reordered", async () => {
    const clip = await madeClip("mp4", [...B_FRAMES, "-bsf:v", "filter_units=remove_types=6"]);
    const record = indexOfText(clip, "avcC");
    const sequence = clip.subarray(record + 4 + 8);
    const length = view(clip).getUint16(record + 4 + 6);
    // Cut behind the picture's size: the flag that says that there is usability information is not there any more.
    sequence.fill(0, length - 8, length);
    expect(await planOf(clip, { num_frames: 2 })).toBeNull();
  });
});

describe("tables that are not sane are left to libavformat", () => {
  const changes: Record<string, (clip: Uint8Array) => void> = {
    "more sample durations than there are": (clip) => view(clip).setUint32(indexOfText(clip, "stts") + 8, 2 ** 32 - 1),
    "more samples than there are": (clip) => view(clip).setUint32(indexOfText(clip, "stsz") + 12, 2 ** 32 - 1),
    "an empty sample": (clip) => view(clip).setUint32(indexOfText(clip, "stsz") + 16 + 4 * 20, 0),
    "composition offsets for fewer samples": (clip) =>
      view(clip).setUint32(indexOfText(clip, "ctts") + 8, view(clip).getUint32(indexOfText(clip, "ctts") + 8) - 1),
    "composition offsets beyond reason": (clip) => view(clip).setInt32(indexOfText(clip, "ctts") + 16, 2 ** 30),
    "a second sample description": (clip) => view(clip).setUint32(indexOfText(clip, "stsc") + 20, 2),
    "sync samples in disorder": (clip) => view(clip).setUint32(indexOfText(clip, "stss") + 16, 1),
    "no sync sample at the beginning": (clip) => view(clip).setUint32(indexOfText(clip, "stss") + 12, 2),
    "two pictures at one time": (clip) => view(clip).setUint32(indexOfText(clip, "stts") + 16, 0),
  };

  test.each(Object.entries(changes))("%s", async (_name, change) => {
    const clip = await madeClip("mp4", B_FRAMES);
    const request = await requestOf(clip, { num_frames: 2 });
    expect(planRequest(clip, request, 1, 1)).not.toBeNull();
    change(clip);
    expect(planRequest(clip, request, 1, 1)).toBeNull();
  });

  test("a sample outside of the file is media_corrupt, as before", async () => {
    const clip = await madeClip("mp4", B_FRAMES);
    view(clip).setUint32(indexOfText(clip, "stco") + 12, clip.byteLength);
    await expect(planOf(clip, { num_frames: 2 })).rejects.toMatchObject({ code: "media_corrupt" });
  });
});

describe("damage", () => {
  const options = { num_frames: 3 };

  test("in a sample that is needed: what linear decoding makes of it", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    const { start, end } = sampleRange(clip, 60);
    clip.fill(0, start + 12, end);
    const [plan, request] = [await planOf(clip, options), await requestOf(clip, options)];
    expect(plan && (await decodePlanned(clip, request, plan))).toBeNull();
    const [{ tensor, pixels }, linear] = [await decode(clip, options), await decodeLinearly(clip, request)];
    expect(tensor.shape[0]).toBe(linear.timestamps.length);
    expect(Bun.hash(pixels)).toBe(Bun.hash(linear.pixels));
  });

  test("in the lengths of a needed sample's parts: no plan, and the same", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    clip.fill(0xff, sampleRange(clip, 60).start, sampleRange(clip, 60).start + 4);
    expect(await planOf(clip, options)).toBeNull();
    const linear = await decodeLinearly(clip, await requestOf(clip, options));
    expect(Bun.hash((await decode(clip, options)).pixels)).toBe(Bun.hash(linear.pixels));
  });

  test("in what is left out has no say", async () => {
    const [sound, damaged] = [await madeClip("mp4", WITHOUT_B_FRAMES), await madeClip("mp4", WITHOUT_B_FRAMES)];
    const { start, end } = sampleRange(damaged, 100);
    damaged.fill(0x55, start, end);
    const expected = (await decode(sound, options)).tensor.contentHash;
    expect((await decode(damaged, options)).tensor.contentHash).toBe(expected);
    const linear = await decodeLinearly(damaged, await requestOf(damaged, options));
    expect(Bun.hash((await decode(damaged, options)).pixels)).toBe(Bun.hash(linear.pixels));
  });

  test("in what is left out is refused when strict", async () => {
    const clip = await madeClip("mp4", WITHOUT_B_FRAMES);
    const { start, end } = sampleRange(clip, 100);
    clip.fill(0x55, start, end);
    await expect(decode(clip, { ...options, strict: true })).rejects.toMatchObject({ code: "media_corrupt" });
  });

  test("that makes the timestamps another order than the pictures': no plan", async () => {
    const clip = await madeClip("mp4", B_FRAMES);
    // Offsets of the second and third run of composition offsets, exchanged.
    const table = indexOfText(clip, "ctts") + 4 + 8;
    const [second, third] = [view(clip).getUint32(table + 12), view(clip).getUint32(table + 20)];
    expect(second).not.toBe(third);
    expect(await planOf(clip, { num_frames: 8 })).not.toBeNull();
    view(clip).setUint32(table + 12, third);
    view(clip).setUint32(table + 20, second);
    expect(await planOf(clip, { num_frames: 8 })).toBeNull();
    const linear = await decodeLinearly(clip, await requestOf(clip, { num_frames: 8 }));
    expect(Bun.hash((await decode(clip, { num_frames: 8 })).pixels)).toBe(Bun.hash(linear.pixels));
  });
});

test.each([
  "h264.mp4",
  "h264_ntsc_bframes.mp4",
  "h264_10bit.mp4",
  "edit_list.mp4",
  "rotated90.mp4",
  "minute.mp4",
  "av_faststart.mov",
  "vp9_1fps_10.mp4",
])("%s is decoded as planned to what it is linearly", async (name) => {
  const clip = await mediaBytes(name);
  const [plan, request] = [await planOf(clip, { num_frames: 2 }), await requestOf(clip, { num_frames: 2 })];
  if (!plan) throw new Error("the clip has no plan");
  const [frames, linear] = [await decodePlanned(clip, request, plan), await decodeLinearly(clip, request)];
  expect(frames?.timestamps).toEqual(linear.timestamps);
  expect(Bun.hash(frames?.pixels ?? "")).toBe(Bun.hash(linear.pixels));
});
