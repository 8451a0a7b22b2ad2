/** Dividing what has to be decoded among decoders that run side by side. */

/** Samples from an access point on. */
export interface Stretch {
  /** The access point refers to samples before it in the clip, and has to be changed by the codec's `breakLink`. */
  readonly isBroken: boolean;
  /** Numbers of the samples kept, ascending: the order of decoding. */
  readonly kept: readonly number[];
}

/** What one decoder gets. */
export interface PlanPart {
  readonly stretches: readonly Stretch[];
  /** Presentation timestamps of the frames wanted, ascending. */
  readonly targets: readonly number[];
  /** What stands in front of the first sample. */
  readonly preamble: Uint8Array;
  readonly cost: number;
}

/** A stretch with the timestamps of the frames wanted in it, ascending. */
export interface WantedStretch extends Stretch {
  readonly targets: readonly number[];
  readonly cost: number;
}

/**
 * Decoders side by side must end before this part of what one takes alone: one that has the processors to itself is quicker by
 * about a third with threads of its own.
 */
const SIDE_BY_SIDE = 0.65;
/** Below this, some 20 ms, a decoder's start takes longer than what it decodes. */
export const LEAST_PART_COST = 1_000_000;

/** A part as it is divided; what stands in front depends on where it begins. */
export type Undistributed = Omit<PlanPart, "preamble">;

/** Cuts the stretches into a part for each decoder, where that is quicker than one part for a decoder with all threads. */
export function distribute(
  stretches: readonly WantedStretch[],
  mostParts: number,
  leastPartCost: number,
): Undistributed[] {
  const whole = joined(stretches);
  const count = Math.min(mostParts, stretches.length, Math.floor(whole.cost / leastPartCost));
  if (count < 2) return [whole];
  const parts = cut(stretches, count, whole.cost);
  return dearest(parts) <= SIDE_BY_SIDE * whole.cost ? parts : [whole];
}

/** Up to `count` parts in a row, of which the dearest is as cheap as can be, to 1: by bisection of what a part may cost. */
function cut(stretches: readonly WantedStretch[], count: number, wholeCost: number): Undistributed[] {
  let tooLittle = stretches.reduce((most, { cost }) => Math.max(most, cost), 0) - 1;
  let enough = wholeCost;
  while (enough - tooLittle > 1) {
    const limit = (tooLittle + enough) / 2;
    if (filled(stretches, limit).length <= count) enough = limit;
    else tooLittle = limit;
  }
  return filled(stretches, enough).map(joined);
}

/** Stretches in a row, a new group where the limit would be passed. */
function filled(stretches: readonly WantedStretch[], limit: number): WantedStretch[][] {
  const groups: WantedStretch[][] = [];
  let sum = 0;
  for (const stretch of stretches) {
    const group = groups.at(-1);
    sum += stretch.cost;
    if (group && sum <= limit) {
      group.push(stretch);
    } else {
      groups.push([stretch]);
      sum = stretch.cost;
    }
  }
  return groups;
}

function dearest(parts: readonly Undistributed[]): number {
  return parts.reduce((most, part) => Math.max(most, part.cost), 0);
}

function joined(stretches: readonly WantedStretch[]): Undistributed {
  return {
    stretches: stretches.map(({ isBroken, kept }) => ({ isBroken, kept })),
    targets: stretches.flatMap(({ targets }) => targets),
    cost: stretches.reduce((sum, { cost }) => sum + cost, 0),
  };
}
