import { describe, expect, test } from "bun:test";
import { distribute, type WantedStretch } from "../../../src/decode/video/plan_parts.ts";

function stretches(...costs: readonly number[]): WantedStretch[] {
  return costs.map((cost, number) => ({ isBroken: false, kept: [number], targets: [number], cost }));
}

function sharesOf(costs: readonly number[], mostParts: number): number[][] {
  return distribute(stretches(...costs), mostParts, 1).map(({ targets }) => [...targets]);
}

describe("stretches are divided among decoders", () => {
  test("evenly, in their order", () => {
    expect(sharesOf([100, 100, 100, 100], 2)).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(sharesOf([300, 100, 100, 100], 2)).toEqual([[0], [1, 2, 3]]);
  });

  test("costs that are fractions", () => {
    expect(sharesOf([100 + 1 / 32, 100 + 1 / 32, 100 + 1 / 32, 100 + 1 / 32], 2)).toEqual([
      [0, 1],
      [2, 3],
    ]);
    // The dearest costs a fraction more than a whole number, and all together a fraction more than that.
    expect(sharesOf([1 + 1 / 32, 2_000_000 + 1 / 32, 1 + 1 / 32], 2)).toEqual([[0, 1, 2]]);
  });

  test("not where one stretch takes nearly as long as all", () => {
    expect(sharesOf([1000, 10, 10], 2)).toEqual([[0, 1, 2]]);
  });
});
