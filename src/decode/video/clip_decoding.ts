/**
 * Ways to a clip's frames. The plain one decodes everything up to the last frame wanted, in one process and one thread: its
 * frames, or its verdict, are what counts. Quicker ways decode less or with more threads, and are taken only where they give
 * the same bytes for a sound clip: the frames foreseen, and not a warning from ffmpeg. Otherwise the plain way is gone from its
 * beginning. Damage in what a quicker way leaves out has no say; with `strict` there is the plain way only.
 */
import type { SealedInput } from "../ffmpeg/sealed_input.ts";
import { clipCodec } from "./clip_codec.ts";
import { runClip } from "./clip_run.ts";
import type { WantedFrames } from "./clip_source.ts";
import type { ClipCodec } from "./codec_pictures.ts";
import { CHANNELS, type DecodeCommand } from "./command.ts";
import { writeCompactFile } from "./compact_file.ts";
import { type Plan, planClip } from "./plan.ts";
import type { PlanPart } from "./plan_parts.ts";
import { readSampleIndex, type SampleIndex } from "./sample_index.ts";
import { isFlawless, judge } from "./verdict.ts";

/** More threads than this do not make one decoder quicker; each holds frames and addresses. */
const MOST_THREADS = 4;

/** What is wanted of a clip, and where in its container the clip is. */
export interface ClipRequest extends WantedFrames, Pick<DecodeCommand, "demuxer" | "stream"> {}

/**
 * Decodes the frames wanted.
 * @param threads how many threads may decode, in one process or several
 * @param into where the frames go, back to back
 * @returns their presentation timestamps
 * @throws MediaError as {@link judge}, and system_failed
 */
export async function decodeFrames(
  program: string,
  input: SealedInput,
  request: ClipRequest,
  threads: number,
  into: Uint8Array,
): Promise<readonly number[]> {
  // Key frames alone are quick to come by.
  const plan =
    request.strict || request.isOfKeyFrames ? null : unlessFailing(() => planRequest(input.bytes, request, threads));
  if (plan) {
    const timestamps = await runPlan(program, input, request, plan, threads, into);
    if (timestamps) return timestamps;
  } else if (threads > 1) {
    const command = { ...request, threads: Math.min(threads, MOST_THREADS) };
    const { timestamps, outcome } = await runClip(program, command, input.file, into);
    if (isFlawless(outcome, request)) {
      judge(outcome, request, timestamps.length, request);
      return timestamps;
    }
  }
  const { timestamps, outcome } = await runClip(program, { ...request, threads: 1 }, input.file, into);
  judge(outcome, request, timestamps.length, request);
  return timestamps;
}

/**
 * What only saves work may fail for any reason, memory among them: then it is done without. Why is said on stderr, which the
 * parent process keeps and does not print.
 */
function unlessFailing<T>(make: () => T | null): T | null {
  try {
    return make();
  } catch (error) {
    console.warn(`nixl-media: a clip is decoded linearly: ${error}`);
    return null;
  }
}

/** A plan with all that it was made of. */
export interface RequestPlan extends Plan {
  readonly index: SampleIndex;
  readonly codec: ClipCodec;
}

/**
 * @param leastPartCost as in {@link planClip}
 * @returns null for a clip that has to be decoded linearly, or may as well be
 */
export function planRequest(
  encoded: Uint8Array,
  request: ClipRequest,
  threads: number,
  leastPartCost?: number,
): RequestPlan | null {
  if (request.demuxer !== "mov" || typeof request.stream !== "number") return null;
  const index = readSampleIndex(encoded, request.stream, request.timeBase.den);
  const codec = index && clipCodec(encoded, index);
  const plan = codec && planClip(encoded, index, codec, request, threads, leastPartCost);
  return plan && { ...plan, index, codec };
}

/**
 * Runs the parts of a plan side by side. As soon as one did not go as planned, the others are ended.
 * @returns the timestamps, or null when anything was not as planned: then what is in place does not count
 * @throws MediaError ffmpeg_unavailable, system_failed, decoder_timeout
 */
export async function runPlan(
  program: string,
  input: SealedInput,
  request: ClipRequest,
  plan: RequestPlan,
  threads: number,
  into: Uint8Array,
): Promise<number[] | null> {
  const frameBytes = request.output.width * request.output.height * CHANNELS;
  const decoders = { program, request, threads: threadsOfEach(threads, plan.parts.length) };
  let firstFrame = 0;
  const placed = plan.parts.map((part) => {
    const place = into.subarray(firstFrame * frameBytes, (firstFrame + part.targets.length) * frameBytes);
    firstFrame += part.targets.length;
    return { part, place };
  });
  // Starting one takes a while: the dearest first.
  placed.sort((a, b) => b.part.cost - a.part.cost);
  const failure = new AbortController();
  const runs = placed.map(async ({ part, place }) => {
    try {
      if (!(await runPart(decoders, input.bytes, plan, part, place, failure.signal))) failure.abort(NOT_AS_PLANNED);
    } catch (error) {
      failure.abort(error); // the first one counts
    }
  });
  await Promise.all(runs); // no process is left behind when another one fails
  const { aborted, reason } = failure.signal;
  if (aborted && reason !== NOT_AS_PLANNED) throw reason;
  return aborted ? null : plan.parts.flatMap(({ targets }) => targets);
}

const NOT_AS_PLANNED = Symbol("not as planned");

function threadsOfEach(threads: number, decoders: number): number {
  return Math.min(MOST_THREADS, Math.max(1, Math.floor(threads / decoders)));
}

/** @returns whether exactly the frames that were foreseen are in place */
async function runPart(
  { program, request, threads }: { readonly program: string; readonly request: ClipRequest; readonly threads: number },
  encoded: Uint8Array,
  { index, codec }: RequestPlan,
  part: PlanPart,
  place: Uint8Array,
  signal: AbortSignal,
): Promise<boolean> {
  using compact = unlessFailing(() => writeCompactFile(encoded, index, part, codec));
  if (!compact) return false;
  // What is not wanted is shown before the next frame that is, so each of these is its frame's own threshold.
  const thresholds = part.targets.map((time) => time - compact.origin);
  const walk = { thresholds, counts: "timestamps", span: null } as const;
  const command = { ...request, stream: 0, ...walk, threads };
  const { timestamps, outcome } = await runClip(program, command, compact.file, place, signal);
  return (
    timestamps.length === thresholds.length &&
    thresholds.every((time, frame) => time === timestamps[frame]) &&
    isFlawless(outcome, request)
  );
}
