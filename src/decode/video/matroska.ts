/**
 * Facts of Matroska and WebM files, by mediabunny, which is run in a Worker: in damaged files it may go round for ever, and
 * JavaScript that never yields can only be ended from outside.
 *
 * A stream has no duration, no frame count and no rate there, so all three come from its packets. Rates that are standard
 * come out exactly although the timestamps are rounded to milliseconds.
 */
import { type ErrorCode, MediaError } from "../../errors.ts";
import { segmentEnd } from "../ebml.ts";
import type { Rational } from "./rational.ts";

/** The default video track of a Matroska file; times in the track's time base. */
export interface MatroskaTrack {
  /** Among the file's video tracks. */
  readonly number: number;
  readonly width: number;
  readonly height: number;
  readonly timeBase: Rational;
  /** What the segment says, or where the last packet ends. */
  readonly durationTicks: number;
  readonly frameRate: Rational;
  readonly packetCount: number;
}

/** Reading takes a few milliseconds, some 100 for hours of film. */
const DEADLINE_MS = 2000;

/** What the Worker answers: the track, null when mediabunny cannot read the file, or why the file is refused. */
export type MatroskaAnswer =
  | { readonly track: MatroskaTrack | null }
  | { readonly refused: { readonly code: ErrorCode; readonly message: string } };

/**
 * Reads all packets' times.
 * @returns null when mediabunny cannot read the file, which does not mean that ffmpeg cannot
 * @throws MediaError media_corrupt when the file is shorter than its segment says or cannot be read to an end, no_video_stream,
 *   limit_exceeded
 */
export async function readMatroskaTrack(bytes: Uint8Array): Promise<MatroskaTrack | null> {
  if (segmentEnd(bytes) > bytes.byteLength) {
    throw new MediaError("media_corrupt", "the file is shorter than its segment says");
  }
  const answer = await askWorker(bytes);
  if (answer === null) throw new MediaError("media_corrupt", "the file's packets cannot be read to an end");
  if ("refused" in answer) throw new MediaError(answer.refused.code, answer.refused.message);
  return answer.track;
}

/** @returns null when the deadline passed */
async function askWorker(bytes: Uint8Array): Promise<MatroskaAnswer | null> {
  const worker = new Worker(new URL("./matroska_worker.ts", import.meta.url).href);
  const { promise, resolve } = Promise.withResolvers<MatroskaAnswer | null>();
  const deadline = setTimeout(() => resolve(null), DEADLINE_MS);
  worker.onmessage = (event: MessageEvent<MatroskaAnswer>) => resolve(event.data);
  worker.onerror = () => resolve({ track: null });
  try {
    const copy = bytes.slice(); // the Worker gets memory of its own
    worker.postMessage(copy, [copy.buffer]);
    return await promise;
  } finally {
    clearTimeout(deadline);
    worker.terminate();
  }
}
