/**
 * Facts of Matroska and WebM files, by mediabunny, which is run in a Worker: in damaged files it may go round for ever, and
 * JavaScript that never yields can only be ended from outside.
 *
 * A stream has no duration, no frame count and no rate there, so all three come from its packets. Rates that are standard
 * come out exactly although the timestamps are rounded to milliseconds.
 */
import { type ErrorCode, MediaError } from "../../errors.ts";
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

const SEGMENT_ID = 0x18538067;

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

/** Where the segment ends by its own size; 0 when it does not say (a live recording) or there is none at its place. */
function segmentEnd(bytes: Uint8Array): number {
  const header = readElement(bytes, 0);
  const segment = header && readElement(bytes, header.end);
  return segment?.id === SEGMENT_ID && Number.isFinite(segment.end) ? segment.end : 0;
}

/** Identifier and end of an EBML element (RFC 8794, sections 4 to 6); the end is infinite when its size is not known. */
function readElement(bytes: Uint8Array, at: number): { id: number; end: number } | null {
  const id = readVariableInteger(bytes, at, true);
  const size = id && readVariableInteger(bytes, at + id.byteLength, false);
  return size ? { id: id.value, end: at + id.byteLength + size.byteLength + size.value } : null;
}

function readVariableInteger(
  bytes: Uint8Array,
  at: number,
  keepMarker: boolean,
): { value: number; byteLength: number } | null {
  const first = bytes[at] ?? 0;
  const byteLength = Math.clz32(first) - 23;
  if (first === 0 || at + byteLength > bytes.byteLength) return null;
  const marker = 1 << (8 - byteLength);
  let value = keepMarker ? first : first - marker;
  for (let i = 1; i < byteLength; i += 1) value = value * 256 + (bytes[at + i] ?? 0);
  const isUnknown = !keepMarker && value >= 2 ** (7 * byteLength) - 1;
  return { value: isUnknown ? Number.POSITIVE_INFINITY : value, byteLength };
}
