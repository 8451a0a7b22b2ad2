/** Decoding a clip as planned and linearly, for comparison. */
import { createFile } from "../../../ffi/process.ts";
import { SealedInput } from "../../../src/decode/ffmpeg/sealed_input.ts";
import { type ClipRequest, planRequest, type RequestPlan, runPlan } from "../../../src/decode/video/clip_decoding.ts";
import { runClip } from "../../../src/decode/video/clip_run.ts";
import { neededPictures, wantedFrames } from "../../../src/decode/video/decode.ts";
import { openFfmpegClip } from "../../../src/decode/video/ffmpeg_clip.ts";
import { type VideoOptions, videoOptionsSchema } from "../../../src/decode/video/index.ts";
import { ffmpegPath } from "./clips.ts";

export type { RequestPlan };

/** Frames and their timestamps. */
export interface Frames {
  readonly timestamps: readonly number[];
  readonly pixels: Uint8Array;
}

/** What is asked of an MP4 file with these options. */
export async function requestOf(clip: Uint8Array, options: VideoOptions): Promise<ClipRequest> {
  using source = await openFfmpegClip(clip, "mov", ffmpegPath);
  const settings = videoOptionsSchema.parse(options);
  const { facts } = source;
  const wanted = wantedFrames(facts, settings, await neededPictures(source, settings));
  return { ...wanted, demuxer: "mov", stream: facts.stream };
}

/** A plan whose parts may be as small as the clips of tests are. */
export async function planOf(clip: Uint8Array, options: VideoOptions, threads = 1): Promise<RequestPlan | null> {
  return planRequest(clip, await requestOf(clip, options), threads, 1);
}

/** How many samples are kept of a clip. */
export function keptCount(plan: RequestPlan): number {
  return plan.parts.flatMap(({ stretches }) => stretches.flatMap(({ kept }) => kept)).length;
}

/** All frames up to the last one wanted, in one process and thread. */
export async function decodeLinearly(clip: Uint8Array, request: ClipRequest): Promise<Frames> {
  const frameBytes = request.width * request.height * 3;
  const pixels = new Uint8Array(request.thresholds.length * frameBytes);
  using file = createFile("encoded", clip.byteLength);
  file.bytes.set(clip);
  const { timestamps } = await runClip(ffmpegPath, { ...request, threads: 1 }, file, pixels);
  if (timestamps.length === 0) throw new Error("nothing was decoded");
  return { timestamps, pixels: pixels.subarray(0, timestamps.length * frameBytes) };
}

/** As planned; null when it did not turn out so. */
export async function decodePlanned(
  clip: Uint8Array,
  request: ClipRequest,
  plan: RequestPlan,
  threads = 1,
): Promise<Frames | null> {
  const frameBytes = request.width * request.height * 3;
  const pixels = new Uint8Array(request.thresholds.length * frameBytes);
  using input = new SealedInput(clip);
  const timestamps = await runPlan(ffmpegPath, input, request, plan, threads, pixels);
  return timestamps && { timestamps, pixels: pixels.subarray(0, timestamps.length * frameBytes) };
}
