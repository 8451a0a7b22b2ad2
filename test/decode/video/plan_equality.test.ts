import { describe, expect, test } from "bun:test";
import type { VideoOptions } from "../../../src/decode/video/index.ts";
import { ffmpegPath, madeClip, writtenClip } from "./clips.ts";
import { decodeLinearly, decodePlanned, planOf, type RequestPlan, requestOf } from "./plans.ts";

/** Frames to take, and how many threads may. The first four are few enough to be planned for nearly every clip. */
const WISHES: readonly (readonly [VideoOptions, number])[] = [
  [{ num_frames: 1 }, 1],
  [{ num_frames: 2 }, 2],
  [{ num_frames: 8 }, 1],
  [{ num_frames: 8 }, 2],
  [{ num_frames: 30 }, 1],
  [{ fps: 3 }, 2],
  [{}, 2],
];

const ENCODERS = Bun.spawnSync([ffmpegPath, "-v", "error", "-encoders"]).stdout.toString();
const X264 = ["-c:v", "libx264", "-preset", "veryfast"];
const X265 = ["-c:v", "libx265", "-preset", "ultrafast"];
const VP9 = ["-c:v", "libvpx-vp9", "-cpu-used", "8", "-b:v", "200k"];

interface Made {
  readonly name: string;
  readonly args: readonly string[];
  readonly extension?: string;
  readonly input?: string;
  /** Arguments of a second pass, which copies. */
  readonly copy?: readonly string[];
  /** How many of the first wishes must be planned, four by default. */
  readonly plannedWishes?: number;
  /** What must occur in one plan or another. */
  readonly features?: readonly Feature[];
}

/** What plans differ in. */
const FEATURES = {
  "several parts": ({ parts }: RequestPlan) => parts.length > 1,
  "a broken link": ({ parts }: RequestPlan) => parts.some((part) => part.stretches.some(({ isBroken }) => isBroken)),
  "a preamble in front of a later part": ({ parts }: RequestPlan) =>
    parts.slice(1).some(({ preamble }) => preamble.byteLength > 0),
} as const;
type Feature = keyof typeof FEATURES;

/** Clips of 150 pictures that planning understands. */
const PLANNED: readonly Made[] = [
  { name: "H.264 with B-frames and a pyramid", args: [...X264, "-bf", "3", "-b_strategy", "0", "-g", "50"] },
  {
    name: "H.264 without B-frames",
    args: [...X264, "-bf", "0", "-g", "30"],
    features: ["several parts", "a preamble in front of a later part"],
  },
  { name: "H.264 with 16 B-frames", args: [...X264, "-bf", "16", "-g", "60", "-x264-params", "b-adapt=0"] },
  { name: "H.264 with an open GOP", args: [...X264, "-g", "20", "-x264-params", "open-gop=1:b-adapt=0:bframes=3"] },
  { name: "H.264 with interlaced coding", args: [...X264, "-g", "40", "-flags", "+ilme+ildct"] },
  { name: "H.264 with bottom field first", args: [...X264, "-g", "40", "-x264-params", "bff=1"] },
  { name: "H.264 with slices and delimiters", args: [...X264, "-g", "40", "-x264-params", "slices=4:aud=1"] },
  { name: "H.264 in 4:4:4", args: [...X264, "-g", "40", "-pix_fmt", "yuv444p"] },
  { name: "H.264 in 10 bit", args: [...X264, "-g", "40", "-pix_fmt", "yuv420p10le"] },
  { name: "H.264 with intra refresh", args: [...X264, "-g", "30", "-x264-params", "intra-refresh=1:bframes=2"] },
  { name: "H.264 in long groups with one reference", args: [...X264, "-g", "140", "-refs", "1", "-bf", "1"] },
  {
    name: "H.264 with parameter sets in the samples",
    args: [...X264, "-g", "40", "-flags:v", "-global_header", "-tag:v", "avc3"],
  },
  { name: "H.264 of an odd size", args: [...X264, "-g", "40", "-pix_fmt", "yuv444p"], input: "testsrc2=s=131x97:r=25" },
  { name: "H.264 with the header in front", args: [...X264, "-g", "40", "-movflags", "+faststart"] },
  { name: "H.264 in QuickTime", args: [...X264, "-g", "40"], extension: "mov" },
  { name: "H.264 with negative offsets", args: [...X264, "-g", "40", "-movflags", "+negative_cts_offsets"] },
  { name: "H.264 cut in the middle of a group", args: [...X264, "-g", "50", "-bf", "3"], copy: ["-ss", "1.3"] },
  { name: "H.264 that begins late", args: [...X264, "-g", "50"], copy: ["-itsoffset", "2"] },
  {
    name: "H.264 cut, without B-frames",
    args: [...X264, "-g", "50", "-bf", "0"],
    copy: ["-ss", "2.9"],
    plannedWishes: 1,
  },
  {
    name: "H.264 of a variable frame rate",
    args: ["-vf", "setpts='(N+mod(N,3)/3+if(gt(N,70),40,0))/25/TB'", "-fps_mode", "vfr", ...X264, "-g", "40"],
  },
  {
    name: "H.265 with an open GOP",
    args: [...X265, "-x265-params", "log-level=error:keyint=30:open-gop=1:bframes=4"],
    features: ["several parts", "a broken link"],
  },
  {
    name: "H.265 with a closed GOP",
    args: [...X265, "-x265-params", "log-level=error:keyint=30:open-gop=0:bframes=3"],
  },
  {
    name: "H.265 as hvc1",
    args: [...X265, "-tag:v", "hvc1", "-x265-params", "log-level=error:keyint=40:radl=2:open-gop=0"],
  },
  { name: "H.265 in 10 bit", args: [...X265, "-pix_fmt", "yuv420p10le", "-x265-params", "log-level=error:keyint=40"] },
  {
    name: "H.265 with headers in the samples",
    args: [...X265, "-x265-params", "log-level=error:keyint=25:repeat-headers=1"],
  },
  { name: "VP9 with hidden frames", args: [...VP9, "-g", "40", "-auto-alt-ref", "1", "-lag-in-frames", "16"] },
  { name: "VP9 in 4:4:4", args: [...VP9, "-g", "40", "-pix_fmt", "yuv444p"] },
  {
    name: "VP9 in real time",
    args: [...VP9, "-g", "40", "-deadline", "realtime", "-lag-in-frames", "0"],
    features: ["several parts"],
  },
  {
    name: "ProRes",
    args: ["-c:v", "prores", "-pix_fmt", "yuv422p10le"],
    extension: "mov",
    features: ["several parts"],
  },
  ...(ENCODERS.includes("libsvtav1")
    ? [{ name: "AV1", args: ["-c:v", "libsvtav1", "-preset", "12", "-g", "40", "-svtav1-params", "keyint=40"] }]
    : []),
];

async function made({ args, extension = "mp4", input = "testsrc2=s=128x96:r=25", copy }: Made): Promise<Uint8Array> {
  const inputs = ["-f", "lavfi", "-i", input, "-f", "lavfi", "-i", "sine=r=16000"];
  const source = [...inputs, "-frames:v", "150", "-t", "6", "-c:a", "aac"];
  const clip = await madeClip(extension, [...source, ...args]);
  if (!copy) return clip;
  using written = writtenClip(extension, clip);
  const [before, behind] = copy[0] === "-ss" || copy[0] === "-itsoffset" ? [copy, []] : [[], copy];
  return madeClip(extension, [...before, "-i", written.path, "-map", "0", "-c", "copy", ...behind]);
}

describe("what is decoded as planned is what is decoded linearly, byte for byte", () => {
  for (const one of PLANNED) {
    test(one.name, async () => {
      const clip = await made(one);
      const compared = WISHES.map(async ([options, threads]) => {
        const [plan, request] = [await planOf(clip, options, threads), await requestOf(clip, options)];
        if (!plan) return null;
        const [planned, linear] = await Promise.all([
          decodePlanned(clip, request, plan, threads),
          decodeLinearly(clip, request),
        ]);
        expect(planned?.timestamps).toEqual(linear.timestamps);
        expect(Bun.hash(planned?.pixels ?? "")).toBe(Bun.hash(linear.pixels));
        return plan;
      });
      const plans = await Promise.all(compared);
      expect(plans.slice(0, one.plannedWishes ?? 4)).not.toContain(null);
      for (const feature of one.features ?? []) {
        expect([feature, plans.some((plan) => plan !== null && FEATURES[feature](plan))]).toEqual([feature, true]);
      }
    }, 60_000);
  }
});
