import { expect, test } from "bun:test";
import { programFailure } from "../../../src/decode/ffmpeg/log.ts";
import { runProgram } from "../../../src/decode/ffmpeg/process.ts";
import { ffmpegPath } from "../video/clips.ts";

const ENDLESS = ["-f", "lavfi", "-i", "testsrc2=s=640x480:r=1000", "-f", "null", "-"];

test("an ffmpeg that uses up its processor time is a time-out", async () => {
  const args = ["-nostdin", "-hide_banner", "-nostats", "-loglevel", "repeat+level+verbose", ...ENDLESS];
  const outcome = await runProgram({ program: ffmpegPath, args, files: [], memoryLimitBytes: 0, cpuSeconds: 1 });
  expect(programFailure(outcome, "video", "mov")).toMatchObject({ code: "decoder_timeout", status: 500 });
}, 20_000);

test("a program that is not there is an ffmpeg that is not there, with the system's reason", async () => {
  const run = runProgram({ program: "/nonexistent/ffmpeg", args: [], files: [], memoryLimitBytes: 0 });
  await expect(run).rejects.toMatchObject({
    code: "ffmpeg_unavailable",
    cause: { code: "system_failed", cause: { attempted: "execve", statusName: "errno 2" } },
  });
});
