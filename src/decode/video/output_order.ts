/** The order in which pictures are shown, by their timestamps and by what their headers say. */
import { MOST_REORDERED, type Picture } from "./codec_pictures.ts";
import type { SampleIndex } from "./sample_index.ts";

/** Samples by their presentation timestamps, and the place of each in that order. */
export interface OutputOrder {
  readonly samples: Uint32Array;
  readonly places: Uint32Array;
}

/**
 * Null when two pictures are shown at one time or are further apart in the two orders than a decoder that holds back
 * `mostReordered` pictures brings them: it would give the late ones out of order, or not at all.
 */
export function outputOrder({ count, pts }: SampleIndex, mostReordered: number): OutputOrder | null {
  const samples = new Uint32Array(count);
  const most = Math.min(mostReordered, MOST_REORDERED);
  for (let sample = 0; sample < count; sample += 1) {
    const time = pts[sample] ?? 0;
    let place = sample;
    for (; place > 0; place -= 1) {
      const before = samples[place - 1] ?? 0;
      const difference = (pts[before] ?? 0) - time;
      if (difference === 0) return null;
      if (difference < 0) break;
      samples[place] = before;
    }
    if (sample - place > most) return null;
    samples[place] = sample;
  }
  const places = new Uint32Array(count);
  samples.forEach((sample, place) => {
    places[sample] = place;
  });
  return { samples, places };
}

/**
 * Whether pictures are output in the order of their timestamps, by their order counts (ITU-T H.264 8.2.1.1, H.265 8.3.1), of
 * which headers have the low bits only.
 */
export function isOrderedByTime(
  index: SampleIndex,
  samples: readonly number[],
  pictures: readonly Picture[],
  bitCount: number,
): boolean {
  const span = 2 ** bitCount;
  let [anchor, epoch] = [0, 0];
  const shown = samples.map((sample, position) => {
    const picture = pictures[position];
    const low = picture?.orderBits ?? 0;
    if (picture?.access === "closed") {
      epoch += 1;
      anchor = 0;
    }
    const base = Math.floor(anchor / span) * span;
    const ahead = base + low - anchor;
    const carry = ahead <= -span / 2 ? span : ahead > span / 2 ? -span : 0;
    const count = base + low + carry;
    if (picture?.isOrderAnchor) anchor = count;
    return { epoch, count, time: index.pts[sample] ?? 0 };
  });
  shown.sort((a, b) => a.time - b.time);
  return shown.every(({ epoch: own, count }, position) => {
    const next = shown[position + 1];
    return !next || own < next.epoch || (own === next.epoch && count < next.count);
  });
}
