/** The argument lists of ffmpeg for clips, in a form that 5.1 and 9.0 both take. */
import { COMMON_ARGUMENTS, inputArguments } from "../ffmpeg/arguments.ts";
import type { PixelSize } from "../scaled_size.ts";
import type { Demuxer } from "../sniff.ts";
import type { FrameWalk } from "./frame_walk.ts";
import { mayLackTimes } from "./packets.ts";
import type { StreamSelector } from "./stream_selector.ts";

/** Bytes of a pixel, RGB. */
export const CHANNELS = 3;

/** Descriptors of the program; 0 and 1 are the null device, 2 is the log. */
export const DECODE_DESCRIPTORS = { input: 3, frames: 4, timestamps: 5, graphStarts: 6, filterScript: 7 } as const;
export const PROBE_DESCRIPTORS = { input: 3, packets: 4 } as const;

/** The kernel refuses one argument of 128 KiB (MAX_ARG_STRLEN); a longer filter goes into a file. */
const LONGEST_ARGUMENT = 100_000;

export interface DecodeCommand extends FrameWalk, PixelSize {
  readonly demuxer: Demuxer;
  readonly stream: StreamSelector;
  /** What the pictures are scaled to. */
  readonly output: PixelSize;
  /** Whose matrix converts: BT.601's, as the fleet's reference, or that of the stream's tag. */
  readonly color: "reference" | "tagged";
  /** Filters that turn the pictures, after conversion. */
  readonly turn: readonly string[];
  /** End at the first error. */
  readonly strict: boolean;
  /** Threads of the decoder; none of them changes a sound clip's frames. */
  readonly threads: number;
}

/** How a filter that is too long for an argument is named: `-/filter:v` since 7.0, `-filter_script:v` before 8.0. */
export type FilterScriptOption = "-/filter:v" | "-filter_script:v";

function streamSpecifier(stream: StreamSelector): string {
  return `0:${stream}`;
}

/** Whether the clip's filter must be handed over in a file ({@link DECODE_DESCRIPTORS}.filterScript). */
export function needsFilterScript(filter: string): boolean {
  return filter.length > LONGEST_ARGUMENT;
}

/**
 * Arguments of the process that writes the frames taken (RGB24, back to back) and a line for each.
 * @param script how to name the file with the filter, or null when the filter is an argument itself
 */
export function decodeArguments(command: DecodeCommand, script: FilterScriptOption | null): string[] {
  const filter = decodeFilter(command);
  // A decoder that skips frames loses count of a time that not every packet tells.
  const skipsFrames = command.isOfKeyFrames && !mayLackTimes(command.demuxer);
  return [
    ...COMMON_ARGUMENTS,
    ...(command.strict ? ["-xerror"] : []),
    ...["-noautorotate", "-threads", String(command.threads)],
    ...(skipsFrames ? ["-skip_frame", "nokey"] : []),
    // Timestamps stay the container's: no shift to zero, no start time taken off.
    ...["-copyts", ...inputArguments(command.demuxer, DECODE_DESCRIPTORS.input)],
    ...["-map", streamSpecifier(command.stream), "-filter_threads", "1"],
    ...(script === null ? ["-filter:v", filter] : [script, `/proc/self/fd/${DECODE_DESCRIPTORS.filterScript}`]),
    ...["-frames:v", String(command.thresholds.length), "-fps_mode", "passthrough"],
    ...["-c:v", "rawvideo", "-pix_fmt", "rgb24", "-f", "rawvideo", `pipe:${DECODE_DESCRIPTORS.frames}`],
  ];
}

/**
 * The filter graph: take frames, say which, convert.
 *
 * Conversion is libswscale's area scaler and, unless the stream's own is asked for, BT.601's matrix whatever the stream's tag,
 * as the fleet's reference does it: one clip has one name. When the pictures change midway, ffmpeg sets the graph up again and
 * every filter begins anew; so the graph says at which frame it began (the first two filters, on the first frame only), and
 * its size is fixed, lest frames of another size be written.
 */
export function decodeFilter(command: DecodeCommand): string {
  const { span, output, turn } = command;
  const { timestamps, graphStarts } = DECODE_DESCRIPTORS;
  return [
    "metadata=mode=add:key=start:value=1:enable='eq(n,0)'",
    `metadata=mode=print:key=start:file='pipe\\:${graphStarts}'`,
    ...(span ? [`trim=start_pts=${span.start}:end_pts=${span.end}`] : []),
    ...(command.isOfKeyFrames && mayLackTimes(command.demuxer) ? ["select='key'"] : []),
    `select='${selectExpression(command)}'`,
    "metadata=mode=add:key=taken:value=1",
    `metadata=mode=print:key=taken:file='pipe\\:${timestamps}'`,
    `scale=w=${output.width}:h=${output.height}:in_color_matrix=${command.color === "tagged" ? "auto" : "bt601"}:flags=area`,
    // Turned as RGB, which loses nothing.
    ...(turn.length === 0 ? [] : ["format=rgb24", ...turn]),
  ].join(",");
}

/**
 * The walk over frames as one of ffmpeg's expressions: variable 0 counts the frames taken; a frame that is not below the
 * threshold of that number is taken and counted. A frame without a timestamp (NaN) is below every threshold.
 */
export function selectExpression({ thresholds, counts }: Pick<FrameWalk, "thresholds" | "counts">): string {
  const current = thresholdExpression(thresholds, 0, thresholds.length);
  const place = counts === "frames" ? "n" : "pts";
  return `if(lt(ld(0),${thresholds.length}),if(gte(${place},${current}),st(0,ld(0)+1),0),0)`;
}

/** Threshold number `ld(0)`, for numbers from `from` up to but not including `to`: a balanced tree of comparisons. */
function thresholdExpression(thresholds: readonly number[], from: number, to: number): string {
  if (to - from <= 1) return String(thresholds[from] ?? 0);
  const middle = (from + to) >> 1;
  const below = thresholdExpression(thresholds, from, middle);
  return `if(lt(ld(0),${middle}),${below},${thresholdExpression(thresholds, middle, to)})`;
}

/**
 * Arguments of the process that lists the packets of a video stream, undecoded, and decodes one frame, so that its log tells the
 * picture's size and the guessed frame rate.
 * @param mostPackets how many are listed
 */
export function probeArguments(demuxer: Demuxer, mostPackets: number, selector: StreamSelector): string[] {
  const stream = ["-map", streamSpecifier(selector)];
  return [
    ...COMMON_ARGUMENTS,
    ...["-copyts", ...inputArguments(demuxer, PROBE_DESCRIPTORS.input)],
    ...[
      ...stream,
      "-frames:v",
      String(mostPackets),
      "-c:v",
      "copy",
      "-copyinkf",
      "-f",
      "framecrc",
      `pipe:${PROBE_DESCRIPTORS.packets}`,
    ],
    ...[...stream, "-frames:v", "1", "-f", "null", "-"],
  ];
}
