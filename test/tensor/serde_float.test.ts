import { describe, expect, test } from "bun:test";
import { formatSerdeFloat } from "../../src/tensor/index.ts";
import floats from "../vectors/floats.json" with { type: "json" };
import { expectCode, randomNumbers } from "./support.ts";

function fromBits(bits: bigint): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, bits);
  return view.getFloat64(0);
}

describe("formatSerdeFloat", () => {
  test("prints every reference value as serde_json does", () => {
    expect(floats.length).toBeGreaterThan(800);
    const different = floats.filter(({ bits, json }) => formatSerdeFloat(fromBits(BigInt(`0x${bits}`))) !== json);
    expect(different).toEqual([]);
  });

  test.each([
    [0, "0.0"],
    [-0, "-0.0"],
    [24, "24.0"],
    [-24.5, "-24.5"],
    [0.1, "0.1"],
    [Math.fround(0.1), "0.10000000149011612"],
    [1e-5, "0.00001"],
    [9.999999999999999e-6, "9.999999999999999e-6"],
    [1.5e-7, "1.5e-7"],
    [9999999999999998, "9999999999999998.0"],
    [1e16, "1e+16"],
    [1.5e16, "1.5e+16"],
    [123456789012345.6, "123456789012345.6"],
    [1e15, "1000000000000000.0"],
    [Number.MAX_VALUE, "1.7976931348623157e+308"],
    [Number.MIN_VALUE, "5e-324"],
  ])("prints %p as %s", (value, text) => {
    expect(formatSerdeFloat(value)).toBe(text);
  });

  test("any finite number reads back as itself, in the fewest digits, in the layout of its size", () => {
    const random = randomNumbers(0x5eed);
    let checked = 0;
    while (checked < 20_000) {
      const wide = fromBits((BigInt(random()) << 32n) | BigInt(random()));
      // Half of them of the sizes that occur as times and rates, half of any size.
      const value = checked % 2 === 0 ? wide : Math.fround(random() / 2 ** (random() % 40));
      if (!Number.isFinite(value)) continue;
      checked += 1;

      const text = formatSerdeFloat(value);
      expect(Object.is(Number(text), value)).toBe(true);
      const match = /^-?(\d+)\.(\d+)$|^-?(\d)(?:\.(\d+))?e([+-]\d+)$/.exec(text);
      expect(match).not.toBeNull();
      const magnitude = Math.abs(value);
      const plain = magnitude === 0 || (magnitude >= 1e-5 && magnitude < 1e16);
      expect(text.includes("e")).toBe(!plain);
      const digits = text.replace(/e.*/, "").replace(/[-.]/g, "").replace(/^0+/, "").replace(/0+$/, "");
      if (digits.length > 1) {
        expect(Number(value.toPrecision(digits.length - 1))).not.toBe(value);
      }
    }
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    "refuses %p, which has no JSON",
    (value) => {
      expectCode(() => formatSerdeFloat(value), "invalid_argument");
    },
  );
});
