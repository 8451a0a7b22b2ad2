/**
 * Parts of clips, frames by number and key frames, in all containers, against a selection made here from all frames that ffmpeg
 * decodes: timestamps that begin anywhere, edit lists that cut, pictures that are late, rates that vary.
 */
import { describe, expect, test } from "bun:test";
import { extname } from "node:path";
import type { VideoOptions } from "../../../src/decode/video/index.ts";
import { isVideoMetadata } from "../../../src/tensor/index.ts";
import { decode, ffmpegPath, madeClip, writtenClip } from "./clips.ts";

const { fround } = Math;
const [WIDTH, HEIGHT, RATE] = [64, 48, 25];
/** Frame n is of one grey. */
const COUNTING = ["-f", "lavfi", "-i", `nullsrc=s=${WIDTH}x${HEIGHT}:r=${RATE}:d=3,geq=lum='20+2*N':cb=128:cr=128`];
const SOUND = ["-f", "lavfi", "-i", "sine=d=5"];
const KEYS = ["-pix_fmt", "yuv420p", "-g", "10"];
const H264 = ["-c:v", "libx264", "-bf", "2", "-sc_threshold", "0", "-crf", "10", ...KEYS];
const OPEN264 = ["-c:v", "libx264", "-x264-params", "open-gop=1:bframes=3:scenecut=0", "-crf", "10", ...KEYS];
const OPEN265 = ["-c:v", "libx265", "-x265-params", "open-gop=1:bframes=4:scenecut=0:log-level=error", ...KEYS];
const MPEG2 = ["-c:v", "mpeg2video", "-q:v", "2", "-bf", "2", "-sc_threshold", "1000000000", ...KEYS];
const LATE = [...SOUND, "-itsoffset", "1.5", ...COUNTING, "-c:a", "aac"];
const SKIPPING = ["-vf", "select='not(mod(n,3))+lt(n,20)'", "-fps_mode", "vfr"];

/** What each clip is made from, and by which arguments. A first one that is a file's name is cut at 0.56 s, not encoded anew. */
const CLIPS: Readonly<Record<string, readonly string[]>> = {
  "open.mp4": [...COUNTING, ...OPEN264],
  "open265.ts": [...COUNTING, ...OPEN265],
  "fragments.mp4": [...COUNTING, ...H264, "-movflags", "frag_keyframe+empty_moov"],
  "mpeg2.mpg": [...COUNTING, ...MPEG2],
  "mpeg2.ts": [...COUNTING, ...MPEG2],
  "mpeg4.avi": [...COUNTING, "-c:v", "mpeg4", "-q:v", "2", "-sc_threshold", "1000000000", ...KEYS],
  "late.mp4": [...LATE, ...H264],
  "late.mkv": [...LATE, ...H264],
  "late.ts": [...LATE, ...H264],
  "rates.mp4": [...COUNTING, ...SKIPPING, ...H264],
  "rates.mkv": [...COUNTING, ...SKIPPING, ...H264],
  "cut.mp4": ["open.mp4"],
};

interface Frame {
  /** Seconds, in single precision. */
  readonly time: number;
  readonly isKey: boolean;
  readonly grey: number;
}

const MIDDLE = ((HEIGHT >> 1) * WIDTH + (WIDTH >> 1)) * 3;
const FRAME_BYTES = WIDTH * HEIGHT * 3;

async function make(name: string): Promise<Uint8Array> {
  const extension = extname(name).slice(1);
  const args = CLIPS[name] ?? [];
  const [first = ""] = args;
  if (!Object.hasOwn(CLIPS, first)) return madeClip(extension, args);
  using whole = writtenClip(extension, await make(first));
  return madeClip(extension, ["-ss", "0.56", "-i", whole.path, "-c", "copy"]);
}

/** All frames of the clip as ffmpeg shows them. */
function allFrames(name: string, bytes: Uint8Array): Frame[] {
  using clip = writtenClip(extname(name).slice(1), bytes);
  const input = ["-hide_banner", "-copyts", "-i", clip.path, "-map", "0:v:0"];
  const output = ["-fps_mode", "passthrough", "-vf", "showinfo", "-pix_fmt", "rgb24", "-f", "rawvideo", "-"];
  const { stdout, stderr } = Bun.spawnSync([ffmpegPath, ...input, ...output]);
  const log = stderr.toString();
  const [, num, den] = /config in time_base: (\d+)\/(\d+)/.exec(log) ?? [];
  const tick = fround(fround(Number(num)) / fround(Number(den)));
  return [...log.matchAll(/ n: *\d+ pts: *(-?\d+) .*?iskey:(\d)/g)].map(([, pts, key], frame) => ({
    time: fround(fround(Number(pts)) * tick),
    isKey: key === "1",
    grey: stdout[frame * FRAME_BYTES + MIDDLE] ?? -1,
  }));
}

const evenly = <T>(all: readonly T[], count: number): T[] => {
  if (count === 1) return all.slice(0, 1);
  return Array.from({ length: count }, (_, at) => all[Math.floor((at * (all.length - 1)) / (count - 1))] as T);
};

/** Seconds from the first frame on. */
const PARTS: Pick<VideoOptions, "start" | "end">[] = [{}, { start: 0.5 }, { end: 1.7 }, { start: 0.48, end: 1.52 }];

const clips = await Promise.all(
  Object.keys(CLIPS).map(async (name) => {
    const bytes = await make(name);
    return { name, bytes, frames: allFrames(name, bytes) };
  }),
);

describe.each(clips)("of $name", ({ bytes, frames }) => {
  async function taken(options: VideoOptions): Promise<Frame[]> {
    const { tensor, pixels } = await decode(bytes, options);
    if (!isVideoMetadata(tensor.metadata)) throw new Error("no clip");
    return tensor.metadata.Video.sampled_timestamps.map((time, at) => {
      const found = frames.find((frame) => frame.time === time);
      if (!found) throw new Error(`there is no frame at ${time} s`);
      // What is shown at that time, not only what is said to be.
      expect(Math.abs((pixels[at * FRAME_BYTES + MIDDLE] ?? 0) - found.grey)).toBeLessThanOrEqual(1);
      return found;
    });
  }

  const insideOf = ({ start, end }: VideoOptions): Frame[] =>
    frames.filter(({ time }) => time > (start ?? 0) - 1e-5 && time < (end ?? Number.MAX_VALUE) - 1e-5);

  const partOf = ({ start, end }: VideoOptions): VideoOptions => {
    const first = frames[0]?.time ?? 0;
    return { ...(start ? { start: first + start } : {}), ...(end ? { end: first + end } : {}) };
  };

  test.each(PARTS)("%j, frames by number are the first, the last and those evenly between", async (offsets) => {
    const part = partOf(offsets);
    const inside = insideOf(part);
    for (const count of [4, inside.length]) {
      const found = await taken({ ...part, sampling: "indices", num_frames: count });
      expect(found).toEqual(evenly(inside, count));
    }
  });

  test.each(PARTS)("%j, key frames are all that there are", async (offsets) => {
    const part = partOf(offsets);
    const keys = insideOf(part).filter(({ isKey }) => isKey);
    if (keys.length === 0)
      return expect(taken({ ...part, sampling: "keyframes" })).rejects.toMatchObject({ code: "no_frames" });
    expect(await taken({ ...part, sampling: "keyframes" })).toEqual(keys);
  });

  test.each(PARTS.slice(1))(
    "%j, targets begin with its first frame, reach its last and are spread evenly",
    async (offsets) => {
      const part = partOf(offsets);
      const inside = insideOf(part);
      const found = await taken({ ...part, num_frames: 5 });
      expect(found.length).toBe(5);
      expect(found[0]).toEqual(inside[0] as Frame);
      const [from, to] = [inside[0]?.time ?? 0, inside.at(-1)?.time ?? 0];
      const widest = Math.max(...inside.slice(1).map(({ time }, at) => time - (inside[at]?.time ?? 0)));
      for (const [at, { time }] of found.entries()) {
        const position = from + ((to - from) * at) / 4;
        expect(Math.abs(time - position)).toBeLessThanOrEqual(widest + 0.01);
      }
    },
  );
});
