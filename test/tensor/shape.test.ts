import { describe, expect, test } from "bun:test";
import {
  assertTensorByteLength,
  bytesPerElement,
  DataType,
  dataTypeSchema,
  elementCount,
  FLOAT32,
  tensorByteLength,
  UINT8,
} from "../../src/tensor/index.ts";
import { expectCode } from "./support.ts";

describe("data types", () => {
  test("have the sizes of numpy's types of these names", () => {
    expect(bytesPerElement(UINT8)).toBe(1);
    expect(bytesPerElement(FLOAT32)).toBe(4);
  });

  test("are written in capitals and nothing else is read", () => {
    expect(Object.values(DataType)).toEqual(["UINT8", "FLOAT32"]);
    expect(dataTypeSchema.parse("UINT8")).toBe("UINT8");
    expect(dataTypeSchema.safeParse("uint8").success).toBe(false);
    expect(dataTypeSchema.safeParse("INT8").success).toBe(false);
  });
});

describe("elementCount", () => {
  test.each([
    [[], 1],
    [[6], 6],
    [[1080, 1920, 3], 6_220_800],
    [[0, 0, 3], 0],
    [[2 ** 40, 2 ** 40, 0], 0],
    [[Number.MAX_SAFE_INTEGER], Number.MAX_SAFE_INTEGER],
  ])("of %j is %j", (shape, count) => {
    expect(elementCount(shape)).toBe(count);
  });

  test.each([[[-1]], [[1.5]], [[Number.NaN]], [[2 ** 53]], [[3, Number.POSITIVE_INFINITY]]])("refuses %j", (shape) => {
    expectCode(() => elementCount(shape), "invalid_argument");
  });

  test("refuses a product that would be rounded", () => {
    expectCode(() => elementCount([2 ** 27, 2 ** 26]), "invalid_argument");
    expect(elementCount([2 ** 27, 2 ** 25])).toBe(2 ** 52);
  });
});

describe("tensorByteLength", () => {
  test("multiplies by the element's size", () => {
    expect(tensorByteLength([16_000, 1], "FLOAT32")).toBe(64_000);
  });

  test("refuses a size that would be rounded although the count is exact", () => {
    expect(elementCount([2 ** 52])).toBe(2 ** 52);
    expectCode(() => tensorByteLength([2 ** 52], "FLOAT32"), "invalid_argument");
  });

  test("a length that differs is named with the one expected", () => {
    assertTensorByteLength([1, 2, 3], "UINT8", 6);
    const error = expectCode(() => assertTensorByteLength([1, 2, 3], "UINT8", 5), "shape_mismatch");
    expect(error.message).toContain("[1,2,3] has 6 bytes, got 5");
  });
});
