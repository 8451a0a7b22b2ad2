/** Whether what a run of ffmpeg gave is the sound, and how it was converted. */
import { MediaError } from "../../errors.ts";
import { notFfmpeg, programFailure, reasonIn } from "../ffmpeg/log.ts";
import type { ProgramOutcome } from "../ffmpeg/process.ts";
import type { Demuxer } from "../sniff.ts";
import { type Conversion, conversions, decodedRate } from "./command.ts";
import { readOggPages } from "./ogg_pages.ts";
import type { AudioSettings } from "./options.ts";
import { isCutShort } from "./stated_end.ts";

/** Samples a second; what is called high resolution has 384 000. */
const HIGHEST_RATE = 1_000_000;
/**
 * Of MPEG-4: packets that are missing, and one of which a part is. 9.0 has the file's part of the program in front of the demuxer's
 * name, 5.1 has not.
 */
const CUT_FILE = /^\[(?:in#\d+\/)?mov,.*(?:\[error\] .*partial file|\[warning\] Packet corrupt \(.*\)\.)$/m;
/** In the words of 9.0; 5.1 names the file, as the program itself, which has no brackets, and says why. */
const UNREADABLE_REST = /^(?:\[in#\d+\/.*\[error\] Error during demuxing|\[error\] \/proc\/self\/fd\/\d+: )/m;
/** libswresample knows how to mix up to eight channels. */
const NO_MATRIX = /Rematrix is needed|channel layout.*not supported|Cannot convert.*channel/i;

/** A file, and what it is. */
export interface Sound {
  readonly encoded: Uint8Array;
  readonly demuxer: Demuxer;
}

/**
 * Converting from a rate that no sound has takes far longer than from one of the usual.
 * @returns whether the rate has been said yet
 * @throws MediaError media_unsupported
 */
export function checkRate(log: string): boolean {
  const rate = decodedRate(log);
  if (rate === null || rate <= HIGHEST_RATE) return rate !== null;
  throw new MediaError("media_unsupported", `a sample rate of ${rate} Hz is none that sound has`);
}

/**
 * Whether what was written are the sound's samples, and how they were converted.
 *
 * Damaged packets are passed over, as in clips. What cannot be read to its end is refused, and so is a file that is shorter
 * than it says itself.
 * @throws MediaError otherwise
 */
export function judge(
  outcome: ProgramOutcome,
  { encoded, demuxer }: Sound,
  { sample_rate, channels }: AudioSettings,
  filterName: string,
): Conversion {
  const { exitCode, signal, log } = outcome;
  checkRate(log);
  if (exitCode !== 0 || signal !== null) throw failureOf(outcome, demuxer);
  checkWhole(outcome, { encoded, demuxer });
  const all = conversions(log, filterName);
  const [first] = all;
  if (!first) throw noSamples(outcome, demuxer);
  const { from, to } = first;
  if ((sample_rate ?? to.sampleRate) !== to.sampleRate || (channels ?? to.channels) !== to.channels) {
    throw new MediaError("decoder_failed", "ffmpeg did not convert the sound as it was told");
  }
  const isUniform = all.every(
    (other) =>
      other.to.channels === to.channels &&
      other.to.sampleRate === to.sampleRate &&
      (channels !== 2 || (other.from.channels === 1) === (from.channels === 1)),
  );
  if (isUniform) return first;
  throw new MediaError(
    "media_unsupported",
    "the sound's format changes midway: say which rate it is to have, and mono",
  );
}

/** @throws MediaError media_corrupt, media_unsupported where what was decoded may be less than there was */
function checkWhole({ log, isLogFull }: ProgramOutcome, { encoded, demuxer }: Sound): void {
  if (isCutShort(encoded, demuxer)) {
    throw new MediaError(
      "media_corrupt",
      "the file is cut short: it ends before its sound does by what it says itself",
    );
  }
  if (demuxer === "mov" && CUT_FILE.test(log)) {
    throw new MediaError("media_corrupt", "the file is shorter than its table of samples says");
  }
  if (demuxer === "ogg" && readOggPages(encoded).changesFormat) {
    // 5.1 decodes what it can of them, 9.0 stops at the first that is different.
    throw new MediaError("media_unsupported", "the sound's format changes midway, from one Ogg stream to the next");
  }
  if (UNREADABLE_REST.test(log)) {
    throw new MediaError("media_corrupt", `the sound cannot be read to its end (${reasonIn(log, "audio", demuxer)})`);
  }
  // What is lost of the log may be that the file is cut.
  if (isLogFull) {
    throw new MediaError("media_unsupported", "there is more to say of the file, or of its damage, than is read");
  }
}

function failureOf(outcome: ProgramOutcome, demuxer: Demuxer): MediaError {
  const failure = programFailure(outcome, "audio", demuxer);
  if (failure) return failure;
  const reason = reasonIn(outcome.log, "audio", demuxer);
  if (NO_MATRIX.test(outcome.log)) {
    return new MediaError("media_unsupported", `channels that cannot be mixed, null keeps them (${reason})`);
  }
  return new MediaError("media_corrupt", `the sound cannot be decoded (${reason})`);
}

export function noSamples({ log }: ProgramOutcome, demuxer: Demuxer): MediaError {
  const reason = reasonIn(log, "audio", demuxer);
  return (
    notFfmpeg(log) ?? new MediaError("no_samples", `No samples could be decoded, the sound may be damaged (${reason})`)
  );
}
