/** A clip that was opened: what is known of it, and a way to its frames. */
import type { DecodeCommand } from "./command.ts";
import type { ClipFacts } from "./facts.ts";
import type { Picture } from "./packets.ts";
import type { Rational } from "./rational.ts";

/** What is wanted of a clip. */
export interface WantedFrames extends Omit<DecodeCommand, "threads" | "demuxer" | "stream"> {
  readonly timeBase: Rational;
  /** How many frames were asked for; there are thresholds for those that can be found at all. */
  readonly wanted: number;
}

/** Owned by whoever opened it. */
export interface ClipSource extends Disposable {
  readonly facts: ClipFacts;
  /**
   * All pictures that are shown, in the order in which they are, without decoding any.
   * @param withKeys whether it matters which of them are key frames
   * @throws MediaError what is wrong with the clip
   */
  pictures(withKeys: boolean): Promise<readonly Picture[]>;
  /**
   * Decodes the frames wanted.
   * @param threads how many may decode
   * @param into where the frames go, back to back: RGB, each of the wanted output size
   * @returns their presentation timestamps
   * @throws MediaError what is wrong with the clip or the machine
   */
  decode(wanted: WantedFrames, threads: number, into: Uint8Array): Promise<readonly number[]>;
}
