import { expect, test } from "bun:test";
import { imageOptionsSchema } from "../../../src/decode/image/options.ts";

test.each([{}, { limits: {} }, { limits: undefined }])(
  "limits that are absent or empty are the defaults: %j",
  (input) => {
    expect(imageOptionsSchema.parse(input)).toEqual({ limits: { max_alloc: 128 * 1024 * 1024 } });
  },
);

test("null means no limits", () => {
  expect(imageOptionsSchema.parse({ limits: null })).toEqual({ limits: null });
});

test("a limit that is given leaves the default of max_alloc", () => {
  expect(imageOptionsSchema.parse({ limits: { max_image_width: 10 } })).toEqual({
    limits: { max_image_width: 10, max_alloc: 128 * 1024 * 1024 },
  });
});

test.each([
  { limit: {} },
  { limits: { maxAlloc: 1 } },
  { limits: { max_alloc: -1 } },
  { limits: { max_alloc: 1.5 } },
  { limits: { max_image_width: "10" } },
  { limits: 5 },
])("misspelt keys and impossible values are refused: %j", (input) => {
  expect(imageOptionsSchema.safeParse(input).success).toBe(false);
});
