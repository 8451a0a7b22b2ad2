/** Whether what a run of ffmpeg gave is the clip's frames. */
import { MediaError } from "../../errors.ts";
import { hasTrouble, notFfmpeg, programFailure, reasonIn } from "../ffmpeg/log.ts";
import type { ProgramOutcome } from "../ffmpeg/process.ts";
import type { DecodeCommand } from "./command.ts";
import { type GraphInput, graphInputs } from "./graph_inputs.ts";
import { type Rational, sameRational } from "./rational.ts";

/** What is known of the pictures before they are decoded. */
export interface ExpectedPictures extends Pick<DecodeCommand, "width" | "height" | "demuxer"> {
  readonly timeBase: Rational;
}

/**
 * Whether the frames of a linear run may be used.
 * @param found frames that it gave
 * @param wanted frames that were asked for; with `strict`, all of them must be there
 * @throws MediaError otherwise
 */
export function judge(
  outcome: ProgramOutcome,
  expected: ExpectedPictures,
  found: number,
  { strict, wanted }: { readonly strict: boolean; readonly wanted: number },
): void {
  checkPictures(outcome, expected);
  const reason = (): string => reasonIn(outcome.log, "video", expected.demuxer);
  const isFailed = outcome.signal !== null || outcome.exitCode !== 0;
  const failure = isFailed ? programFailure(outcome, "video", expected.demuxer) : null;
  if (failure && (found === 0 || failure.status !== 400)) throw failure;
  if (strict && (isFailed || found < wanted)) {
    throw new MediaError("media_corrupt", `${found} of ${wanted} frames could be decoded (${reason()})`);
  }
  if (found > 0) return;
  throw (
    notFfmpeg(outcome.log) ??
    new MediaError("no_frames", `Failed to decode any frames, the video may be damaged (${reason()})`)
  );
}

function checkPictures({ log }: ProgramOutcome, { width, height, timeBase }: ExpectedPictures): void {
  const [graph] = graphInputs(log);
  if (graph && (graph.width !== width || graph.height !== height)) {
    throw new MediaError(
      "media_corrupt",
      `the container says that pictures are ${width}x${height}, they are ${graph.width}x${graph.height}`,
    );
  }
  if (graph && !sameRational(graph.timeBase, timeBase)) {
    throw new MediaError("media_corrupt", "the container's time base is not the one it is decoded with");
  }
}

/**
 * Whether a run went without the least trouble: only then are its frames what linear decoding in one thread gives, since
 * damage is made good with what happened to be decoded before.
 * @throws MediaError decoder_timeout: what took all the time it may would not take less another time
 */
export function isFlawless(outcome: ProgramOutcome, expected: ExpectedPictures): boolean {
  if (outcome.exitCode !== 0) {
    const failure = programFailure(outcome, "video", expected.demuxer);
    if (failure?.code === "decoder_timeout") throw failure;
    return false;
  }
  if (outcome.isLogFull) return false;
  const graphs = graphInputs(outcome.log);
  const isAsExpected = ({ width, height, timeBase }: GraphInput): boolean =>
    width === expected.width && height === expected.height && sameRational(timeBase, expected.timeBase);
  return graphs.length === 1 && graphs.every(isAsExpected) && !hasTrouble(outcome.log);
}
