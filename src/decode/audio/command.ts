/** The argument list of ffmpeg for sound, in a form that 5.1 and 9.0 both take, and what its log says of the conversion. */
import { COMMON_ARGUMENTS, inputArguments } from "../ffmpeg/arguments.ts";
import type { Demuxer } from "../sniff.ts";
import type { AudioSettings } from "./options.ts";

/** Descriptors of the program; 0 and 1 are the null device, 2 is the log. */
export const AUDIO_DESCRIPTORS = { input: 3, samples: 4 } as const;

const CHANNEL_LAYOUTS = { 1: "mono", 2: "stereo" } as const;

/**
 * Arguments of the process that writes samples (32-bit floats, channels interleaved) of the stream that ffmpeg holds for the
 * default one: the one marked so, else the one with the most channels.
 * @param filterName by which the log tells the conversion: one that nobody who made the file knows, since what files say of
 *   themselves stands in the log too
 */
export function audioArguments(demuxer: Demuxer, settings: AudioSettings, filterName: string): string[] {
  const { max_duration } = settings;
  return [
    ...COMMON_ARGUMENTS,
    ...["-threads", "1"],
    ...inputArguments(demuxer, AUDIO_DESCRIPTORS.input),
    ...["-vn", "-sn", "-dn", "-filter_threads", "1", "-filter:a", audioFilter(settings, filterName)],
    // Where the rate is known the filter counts samples, which is exact.
    ...(typeof max_duration === "number" && settings.sample_rate === null ? ["-t", max_duration.toFixed(6)] : []),
    ...["-c:a", "pcm_f32le", "-f", "f32le", `pipe:${AUDIO_DESCRIPTORS.samples}`],
  ];
}

/**
 * libswresample's conversion. Channels are mixed so that what is full on all of them is full and no more: without
 * `rematrix_maxval` its gain would depend on the sample format, and so on the codec.
 */
function audioFilter({ sample_rate, channels, max_duration }: AudioSettings, filterName: string): string {
  const format = [
    "sample_fmts=flt",
    ...(sample_rate === null ? [] : [`sample_rates=${sample_rate}`]),
    ...(channels === null ? [] : [`channel_layouts=${CHANNEL_LAYOUTS[channels]}`]),
  ];
  const most = sample_rate === null ? null : mostSamples(max_duration, sample_rate);
  const trim = most === null ? "" : `,atrim=end_sample=${most}`;
  return `aresample@${filterName}=rematrix_maxval=1,aformat=${format.join(":")}${trim}`;
}

/** Samples of each channel that a duration has, at least one; null where it is not bounded. */
export function mostSamples(maxDuration: number | null | undefined, sampleRate: number): number | null {
  return typeof maxDuration === "number" ? Math.max(1, Math.round(maxDuration * sampleRate)) : null;
}

/** What goes into a conversion, or comes out. */
export interface SoundFormat {
  readonly channels: number;
  readonly sampleRate: number;
}

/** How a sound is converted, or a part of it. */
export interface Conversion {
  readonly from: SoundFormat;
  readonly to: SoundFormat;
}

/** All conversions that were set up, in their order; more than one when the sound's format changes midway. */
export function conversions(log: string, filterName: string): Conversion[] {
  const line = new RegExp(
    `^\\[aresample@${filterName} @ \\w+\\] \\[verbose\\] ` +
      "ch:(\\d+) chl:.* r:(\\d+)Hz -> ch:(\\d+) chl:.* fmt:flt r:(\\d+)Hz$",
    "gm",
  );
  return Array.from(log.matchAll(line), (match) => ({
    from: { channels: Number(match[1]), sampleRate: Number(match[2]) },
    to: { channels: Number(match[3]), sampleRate: Number(match[4]) },
  }));
}

/** The sample rate that the decoder gives, said before anything is converted; null when it has not been said. */
export function decodedRate(log: string): number | null {
  const rate = /^\[graph_\S+ @ \w+\] \[verbose\] tb:\S+ samplefmt:\S+ samplerate:(\d+) /m.exec(log)?.[1];
  return rate === undefined ? null : Number(rate);
}

/** The duration that the container states, seconds, in hundredths; null when it states none. */
export function statedDuration(log: string): number | null {
  const stated = /^\[info\] {3}Duration: (\d+):(\d\d):(\d\d\.\d\d),/m.exec(log);
  return stated && Number(stated[1]) * 3600 + Number(stated[2]) * 60 + Number(stated[3]);
}
