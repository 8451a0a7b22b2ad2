import { expect, test } from "bun:test";
import { createFile } from "../../../ffi/process.ts";
import { runProgram } from "../../../src/decode/ffmpeg/process.ts";
import { runClip } from "../../../src/decode/video/clip_run.ts";
import { isFlawless } from "../../../src/decode/video/verdict.ts";
import { ffmpegPath, madeClip } from "./clips.ts";
import { requestOf } from "./plans.ts";

const CLIP = ["-f", "lavfi", "-i", "testsrc2=s=64x48:r=25", "-frames:v", "50", "-c:v", "libx264"];

test("a run is flawless only if there was room for all that ffmpeg had to say", async () => {
  const clip = await madeClip("mp4", CLIP);
  const request = await requestOf(clip, { num_frames: 2 });
  using file = createFile("encoded", clip.byteLength);
  file.bytes.set(clip);
  const place = new Uint8Array(2 * 64 * 48 * 3);
  const { outcome } = await runClip(ffmpegPath, { ...request, threads: 1 }, file, place);
  expect(outcome.isLogFull).toBe(false);
  expect(isFlawless(outcome, request)).toBe(true);
  expect(isFlawless({ ...outcome, isLogFull: true }, request)).toBe(false);
});

test("a program that says too much fills the log and still comes to its end", async () => {
  const args = ["-nostdin", "-loglevel", "repeat+trace", "-f", "lavfi", "-i", "testsrc2=s=16x16", "-frames:v", "10000"];
  const run = { program: ffmpegPath, args: [...args, "-f", "null", "-"], files: [], memoryLimitBytes: 0 };
  const { exitCode, isLogFull } = await runProgram(run);
  expect({ exitCode, isLogFull }).toEqual({ exitCode: 0, isLogFull: true });
});

test("a run that is not wanted any more is ended", async () => {
  const clip = await madeClip("mp4", CLIP);
  const request = await requestOf(clip, { num_frames: 2 });
  using file = createFile("encoded", clip.byteLength);
  file.bytes.set(clip);
  const reason = new Error("another part failed");
  const place = new Uint8Array(2 * 64 * 48 * 3);
  const run = runClip(ffmpegPath, { ...request, threads: 1 }, file, place, AbortSignal.abort(reason));
  await expect(run).rejects.toBe(reason);
});
