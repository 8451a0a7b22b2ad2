/** Reading ffmpeg's log as it is with `-loglevel level+verbose`: what the decoder gives, and what went wrong. */
import { MediaError } from "../../errors.ts";
import type { Demuxer } from "../sniff.ts";
import type { ProgramOutcome } from "./process.ts";

/** Longest excerpt of the log in an error's message, characters. */
const EXCERPT_LENGTH = 200;

/** Lines that ffmpeg holds for errors; the others may repeat what a clip's metadata say. */
function errorLines(log: string): string[] {
  return log.split("\n").filter((line) => /^(?:\[[^\]]* @ \w+\] )*\[(?:error|fatal|panic)\]/.test(line));
}

/** Warnings about how pixels are stored, which have nothing to do with damage. */
const HARMLESS_WARNING = /^\[swscaler @ \w+\] \[warning\] deprecated pixel format used/;
/** Damaged pictures of which it is an information only that they were made good. */
const CONCEALMENT = /^\[[^\]]* @ \w+\] \[\w+\] concealing /;

/** Whether ffmpeg found the least thing wrong. */
export function hasTrouble(log: string): boolean {
  return log.split("\n").some((line) => {
    if (HARMLESS_WARNING.test(line)) return false;
    return /^(?:\[[^\]]* @ \w+\] )*\[(?:warning|error|fatal|panic)\]/.test(line) || CONCEALMENT.test(line);
  });
}

/** What stands in messages about a medium that cannot be decoded: its codec and container, and what ffmpeg said. */
export function reasonIn(log: string, kind: "video" | "audio", demuxer: Demuxer): string {
  return `${mediumInLog(log, kind, demuxer)}: ${logExcerpt(log)}`;
}

/** Why a run that gave nothing says nothing of the medium; null when it is ffmpeg that ran. */
export function notFfmpeg(log: string): MediaError | null {
  // At the log level it is run with, ffmpeg always says something.
  return log.trim() === "" ? new MediaError("ffmpeg_unavailable", "the ffmpeg program is no ffmpeg") : null;
}

/** Codec and container of the first stream of a kind, as ffmpeg names them. */
export function mediumInLog(log: string, kind: "video" | "audio", demuxer: Demuxer): string {
  const line = kind === "video" ? VIDEO_STREAM : AUDIO_STREAM;
  return `${line.exec(log)?.[1] ?? `unknown ${kind}`} in ${demuxer}`;
}

const VIDEO_STREAM = /^\[info\] +Stream #0:\d+.*?: Video: ([\w.-]{1,40})/m;
const AUDIO_STREAM = /^\[info\] +Stream #0:\d+.*?: Audio: ([\w.-]{1,40})/m;

/** The first error in the log as one line: no paths, no addresses, no control characters, at most 200 characters. */
export function logExcerpt(log: string): string {
  const line = errorLines(log)[0] ?? "ffmpeg gave no reason";
  return line
    .replace(/\[[^\]]*\]\s*/g, "")
    .replace(/(?<!\w)(?:file:|pipe:)?\/[\w./-]+/g, "the input")
    .replace(/[^!-~]+/g, " ")
    .trim()
    .slice(0, EXCERPT_LENGTH);
}

/** Whether this ffmpeg does not know the option (5.1 and 9.0 use the same words). */
export function isOptionUnknown(log: string, option: string): boolean {
  return errorLines(log).some((line) => line.includes(`Unrecognized option '${option.replace(/^-/, "")}'`));
}

/** What ffmpeg says when it was asked for a codec that this build lacks, in the words of 5.1 to 9.0. */
const NO_DECODER =
  /Decoder \(codec [^)]*\) not found|Decoder not found|Decoding requested, but no decoder found|no decoder (?:could be )?found/i;
const NO_STREAM = /matches no streams|does not contain any stream/;
const MISSING_STREAM = {
  video: { code: "no_video_stream", message: "the container holds no video" },
  audio: { code: "no_audio_stream", message: "the container holds no sound" },
} as const;
const UNKNOWN_OPTION = /Unrecognized option|Option not found|Unknown input format|No such filter|Protocol not found/;
/** Not memory: a clip whose header asks for gigabytes is refused like any damaged one. */
const NO_THREADS = /pthread_create|Resource temporarily unavailable/;
/** SIGXCPU: the limit on processor time. */
const SIGNAL_CPU_LIMIT = 24;
/** ffmpeg catches the signals that ask it to end, SIGXCPU among them, and then exits with this code and says so. */
const EXIT_CODE_OF_SIGNAL = 255;
const RECEIVED_SIGNAL = /^\[info\] Exiting normally, received signal (\d+)\.$/m;

/**
 * Why a run that gave nothing usable failed; null when the medium alone can tell.
 * @param wanted what the medium was to give
 *
 * The program's own troubles are the host's (5xx); so is a crash by signal, though a clip may have provoked it.
 */
export function programFailure(
  outcome: ProgramOutcome,
  wanted: "video" | "audio",
  demuxer: Demuxer,
): MediaError | null {
  const { exitCode } = outcome;
  const received = exitCode === EXIT_CODE_OF_SIGNAL ? RECEIVED_SIGNAL.exec(outcome.log)?.[1] : undefined;
  const signal = received === undefined ? outcome.signal : Number(received);
  const log = errorLines(outcome.log).join("\n");
  if (signal === SIGNAL_CPU_LIMIT) return new MediaError("decoder_timeout", "ffmpeg used up its processor time");
  if (signal !== null) return new MediaError("decoder_crashed", `ffmpeg was ended by signal ${signal}`);
  if (exitCode === 0) return null;
  if (NO_STREAM.test(log)) return new MediaError(MISSING_STREAM[wanted].code, MISSING_STREAM[wanted].message);
  if (NO_DECODER.test(log)) {
    return new MediaError("media_unsupported", `ffmpeg has no decoder for ${reasonIn(outcome.log, wanted, demuxer)}`);
  }
  if (UNKNOWN_OPTION.test(log)) {
    return new MediaError(
      "ffmpeg_unavailable",
      `this ffmpeg cannot be used (5.1 or later is needed): ${logExcerpt(log)}`,
    );
  }
  if (exitCode === 127 || outcome.log === "") {
    return new MediaError("ffmpeg_unavailable", `the ffmpeg program ends at once with exit code ${exitCode}`);
  }
  if (NO_THREADS.test(log)) return new MediaError("decoder_failed", `ffmpeg cannot start threads: ${logExcerpt(log)}`);
  return null;
}
