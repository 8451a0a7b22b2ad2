/** What planning needs to know of a codec: where its decoding can begin and which pictures nothing depends on. */

import type { SampleIndex } from "./sample_index.ts";

/** No decoder holds back more pictures than this to bring them into output order (H.264 A.3.1, H.265 A.4.2: 16 are kept). */
export const MOST_REORDERED = 16;

/** A sample as its headers describe it. */
export interface Picture {
  /**
   * Whether decoding can begin here: "closed" when all later samples can then be decoded; "open" when that does not hold for
   * those that are shown before it; null when it cannot.
   */
  readonly access: "closed" | "open" | null;
  /** No other picture is decoded with its help. */
  readonly isDisposable: boolean;
  /** Decoded after, shown before an access point, and perhaps with the help of what precedes that. */
  readonly isLeading: boolean;
  /** Low bits of its place in output order; null for codecs whose pictures are shown in the order of decoding. */
  readonly orderBits: number | null;
  /** Whether its place in output order is what the next one's high bits go by. */
  readonly isOrderAnchor: boolean;
  /** What a decoder is set up with here; every access point must have the same. Empty where that stands elsewhere. */
  readonly setup: string;
}

/** A codec as one clip uses it. */
export interface ClipCodec {
  /** Every sample is an access point that nothing else depends on. */
  readonly isIntraOnly: boolean;
  /** How many low bits {@link Picture.orderBits} has. */
  readonly orderBitCount: number;
  /**
   * How many pictures a decoder holds back to bring them into output order. A clip that needs more loses frames in linear
   * decoding, and others when some are left out.
   */
  readonly mostReordered: number;
  /** Reads a sample's headers; null for anything that is not known to be exact without the samples around it. */
  look(sample: Uint8Array): Picture | null;
  /**
   * Whether no sample brings parameter sets other than those in force or ends a sequence, so that pictures are all that one
   * that is left out could have added. What frames the parts of samples is read.
   * @param first number of the first sample
   * @param last number of the last one
   * @returns false, too, for samples of more parts than can be looked at in little time
   */
  hasOneSetup(encoded: Uint8Array, index: SampleIndex, first: number, last: number): boolean;
  /** What has to stand in front of the first sample that is decoded, out of the clip's first sample; null when unreadable. */
  preamble(firstSample: Uint8Array): Uint8Array | null;
  /** Changes an "open" access point in place into one at which decoding begins. */
  breakLink(sample: Uint8Array): void;
}

export const NO_BYTES = new Uint8Array(0);

/** A picture of a codec without reordering. */
export function plainPicture(isAccessPoint: boolean, setup: string): Picture {
  const access = isAccessPoint ? "closed" : null;
  return { access, isDisposable: false, isLeading: false, orderBits: null, isOrderAnchor: false, setup };
}
