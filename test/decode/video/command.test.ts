import { describe, expect, test } from "bun:test";
import { isOptionUnknown, logExcerpt, mediumInLog, programFailure } from "../../../src/decode/ffmpeg/log.ts";
import { parseTimestamps } from "../../../src/decode/video/clip_run.ts";
import {
  decodeArguments,
  decodeFilter,
  needsFilterScript,
  probeArguments,
  selectExpression,
} from "../../../src/decode/video/command.ts";
import { graphInputs } from "../../../src/decode/video/graph_inputs.ts";

const COMMAND = {
  demuxer: "mov",
  stream: 1,
  width: 160,
  height: 120,
  output: { width: 160, height: 120 },
  thresholds: [0, 512, 1024],
  counts: "timestamps",
  span: null,
  isOfKeyFrames: false,
  color: "reference",
  turn: [],
  strict: false,
  threads: 1,
} as const;

const timestamps = (thresholds: readonly number[]) => ({ thresholds, counts: "timestamps" }) as const;

/** The argument behind an option. */
function valueAfter(args: readonly string[], option: string): string | undefined {
  return args[args.indexOf(option) + 1];
}

describe("what ffmpeg is told", () => {
  test("only the recognised demuxer and only files may be opened", () => {
    for (const args of [decodeArguments(COMMAND, null), probeArguments("mov", 10, "V:0")]) {
      const beforeInput = args.slice(0, args.indexOf("-i"));
      expect(valueAfter(beforeInput, "-f")).toBe("mov");
      expect(valueAfter(beforeInput, "-format_whitelist")).toBe("mov");
      expect(valueAfter(beforeInput, "-protocol_whitelist")).toBe("file");
      expect(args).toContain("-nostdin");
    }
  });

  test("the stream by its index, or the first that is no attached picture", () => {
    expect(valueAfter(decodeArguments(COMMAND, null), "-map")).toBe("0:1");
    expect(valueAfter(decodeArguments({ ...COMMAND, stream: "V:0" }, null), "-map")).toBe("0:V:0");
  });

  test("no more frames than were asked for", () => {
    expect(valueAfter(decodeArguments(COMMAND, null), "-frames:v")).toBe("3");
  });

  test("no more packets are listed than are read", () => {
    expect(valueAfter(probeArguments("mov", 10, "V:0"), "-frames:v")).toBe("10");
  });

  test("strict ends at the first error, otherwise errors are passed over", () => {
    expect(decodeArguments({ ...COMMAND, strict: true }, null)).toContain("-xerror");
    expect(decodeArguments(COMMAND, null)).not.toContain("-xerror");
  });

  test("a filter too long for one argument goes into a file", () => {
    const thresholds = Array.from({ length: 20_000 }, (_, index) => index * 512);
    const command = { ...COMMAND, thresholds };
    expect(needsFilterScript(decodeFilter(COMMAND))).toBe(false);
    expect(needsFilterScript(decodeFilter(command))).toBe(true);
    const longest = Math.max(...decodeArguments(command, "-/filter:v").map((argument) => argument.length));
    expect(longest).toBeLessThan(131_072);
  });
});

describe("the walk as an expression", () => {
  test("compares with the threshold of the current number and counts what it takes", () => {
    expect(selectExpression(timestamps([7]))).toBe("if(lt(ld(0),1),if(gte(pts,7),st(0,ld(0)+1),0),0)");
    expect(selectExpression(timestamps([7, -9]))).toContain("if(lt(ld(0),1),7,-9)");
  });

  test("is nested no deeper than the logarithm of the number of frames", () => {
    let [depth, deepest] = [0, 0];
    for (const character of selectExpression(timestamps(Array.from({ length: 4096 }, (_, index) => index)))) {
      if (character === "(") depth += 1;
      if (character === ")") depth -= 1;
      deepest = Math.max(deepest, depth);
    }
    expect(depth).toBe(0);
    expect(deepest).toBeLessThan(20);
  });
});

describe("what ffmpeg says", () => {
  const frame = (number: number, pts: number | string): string =>
    `frame:${String(number).padEnd(4)} pts:${String(pts).padEnd(7)} pts_time:0.5\nlavfi.taken=1\n`;
  const log = [
    "[info] Stream mapping:",
    "[graph 0 input from stream 0:1 @ 0x55e0321d7680] [verbose] w:160 h:120 pixfmt:yuv420p tb:1/90000 fr:25/1 sar:1/1",
    "[graph -1 input from stream 0:1 @ 0x7f01] [verbose] w:64 h:48 pixfmt:gray tb:1/90000 fr:0/1 sar:0/1 csp:unknown",
    "[info]     title           : [graph 0 input from stream 0:0 @ 0x1] [verbose] w:1 h:1 pixfmt:gray tb:1/1 fr:1/1",
    "[h264 @ 0x55cdb0ffd000] [error] error while decoding MB 6 4",
  ].join("\n");

  test("each filter graph's input, but not one that a clip's title pretends", () => {
    expect(graphInputs(log)).toEqual([
      {
        width: 160,
        height: 120,
        pixelFormat: "yuv420p",
        timeBase: { num: 1, den: 90000 },
        frameRate: { num: 25, den: 1 },
      },
      { width: 64, height: 48, pixelFormat: "gray", timeBase: { num: 1, den: 90000 }, frameRate: { num: 0, den: 1 } },
    ]);
  });

  test("an excerpt is the first error: one short line without paths", () => {
    expect(logExcerpt(log)).toBe("error while decoding MB 6 4");
    expect(logExcerpt("[error] /proc/self/fd/3: Invalid\u0007 data\n[error] more")).toBe("the input: Invalid data");
    expect(logExcerpt(`[error] ${"x".repeat(1000)}`)).toHaveLength(200);
    expect(logExcerpt("")).toBe("ffmpeg gave no reason");
  });

  test("timestamps of the frames taken", () => {
    expect(parseTimestamps(frame(0, -512) + frame(1, 0) + frame(2, 512), frame(0, -512))).toEqual([-512, 0, 512]);
    expect(parseTimestamps("", "")).toEqual([]);
  });

  test("frames from a change of the pictures on do not count", () => {
    const starts = frame(0, 0) + frame(0, 20);
    expect(parseTimestamps(frame(0, 0) + frame(1, 10) + frame(0, 20) + frame(1, 30), starts)).toEqual([0, 10]);
    expect(parseTimestamps(frame(0, 20), starts)).toEqual([]);
    expect(parseTimestamps(frame(0, 0) + frame(0, 20), frame(0, 0))).toEqual([0]);
  });

  test("a line that was cut off does not count", () => {
    expect(parseTimestamps(`${frame(0, 0)}frame:1    pts:51`, frame(0, 0))).toEqual([0]);
  });

  test("failures of the program are the host's, failures of the clip are not", () => {
    const code = (exitCode: number | null, signal: number | null, text: string): string | undefined =>
      programFailure({ exitCode, signal, log: text, isLogFull: false }, "video", "mov")?.code;
    expect(code(null, 11, "")).toBe("decoder_crashed");
    expect(code(null, 24, "")).toBe("decoder_timeout");
    expect(code(255, null, "[info] Exiting normally, received signal 24.\n")).toBe("decoder_timeout");
    expect(code(255, null, "[info] Exiting normally, received signal 2.\n")).toBe("decoder_crashed");
    expect(code(127, null, "sh: not found")).toBe("ffmpeg_unavailable");
    expect(code(1, null, "[error] Unrecognized option 'fps_mode'.")).toBe("ffmpeg_unavailable");
    expect(code(1, null, "[fatal] Stream map '0:V:0' matches no streams.")).toBe("no_video_stream");
    expect(code(1, null, "[error] Invalid data found")).toBeUndefined();
    expect(code(1, null, "[info]     title           : Unrecognized option")).toBeUndefined();
    expect(code(0, null, "")).toBeUndefined();
  });

  test("a codec and its container are named in messages", () => {
    const log =
      "[info]   Stream #0:0[0x1](und): Video: h264 (High) (avc1 / 0x31637661), yuv420p\n[info]   Stream #0:1: Audio: aac";
    expect(mediumInLog(log, "video", "mov")).toBe("h264 in mov");
    expect(mediumInLog(log, "audio", "mov")).toBe("aac in mov");
    expect(mediumInLog("[info]     title  : Stream #0:0: Video: x", "video", "avi")).toBe("unknown video in avi");
  });

  test("an option that this ffmpeg does not know", () => {
    expect(isOptionUnknown("[error] Unrecognized option '/filter:v'.\n", "-/filter:v")).toBe(true);
    expect(isOptionUnknown("[error] Unrecognized option 'x'.\n", "-/filter:v")).toBe(false);
  });
});
