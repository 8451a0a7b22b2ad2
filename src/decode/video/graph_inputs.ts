/** What ffmpeg's log says of the pictures that go into a filter graph. */
import type { Rational } from "./rational.ts";

/** What goes into a filter graph: the decoder's pictures. ffmpeg says it whenever it sets a graph up. */
export interface GraphInput {
  readonly width: number;
  readonly height: number;
  readonly pixelFormat: string;
  readonly timeBase: Rational;
  /** libavformat's guess of the frame rate; 0/1 when it has none. */
  readonly frameRate: Rational;
}

/**
 * Anchored to the line's start, where text out of the clip can stand only behind a line break in its codec's name. A clip that
 * forges its own size or time base so is decoded by what it forged, within all limits, or refused.
 */
const GRAPH_INPUT =
  /^\[graph -?\d+ input from stream \d+:\d+ @ \w+\] \[verbose\] w:(\d+) h:(\d+) pixfmt:(\S+) tb:(\d+)\/(\d+) fr:(\d+)\/(\d+)/gm;

/** Inputs of all filter graphs, in the order in which they were set up; more than one when the pictures changed midway. */
export function graphInputs(log: string): GraphInput[] {
  return Array.from(log.matchAll(GRAPH_INPUT), (match) => ({
    width: Number(match[1]),
    height: Number(match[2]),
    pixelFormat: match[3] ?? "",
    timeBase: { num: Number(match[4]), den: Number(match[5]) },
    frameRate: { num: Number(match[6]), den: Number(match[7]) },
  }));
}
