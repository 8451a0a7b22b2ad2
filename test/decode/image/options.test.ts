import { expect, test } from "bun:test";
import { imageOptionsSchema, mayChangePicture } from "../../../src/decode/image/options.ts";

test.each([{}, { limits: {} }, { limits: undefined }])(
  "limits that are absent or empty are the defaults: %j",
  (input) => {
    expect(imageOptionsSchema.parse(input)).toMatchObject({ limits: { max_alloc: 128 * 1024 * 1024 } });
  },
);

test("null means no limits", () => {
  expect(imageOptionsSchema.parse({ limits: null })).toMatchObject({ limits: null });
});

test("a limit that is given leaves the default of max_alloc", () => {
  expect(imageOptionsSchema.parse({ limits: { max_image_width: 10 } })).toMatchObject({
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
  { autoOrient: true },
  { auto_orient: 1 },
  { channels: "bgr" },
  { channels: 3 },
  { background: "white" },
  { background: "#fff" },
  { background: [0, 0, 256] },
  { background: [0, 0] },
  { max_pixels: 0 },
  { max_pixels: 1.5 },
])("misspelt keys and impossible values are refused: %j", (input) => {
  expect(imageOptionsSchema.safeParse(input).success).toBe(false);
});

test("nothing that changes a picture is on by default", () => {
  expect(mayChangePicture(imageOptionsSchema.parse({ background: "#000000" }))).toBe(false);
  for (const settings of [{ auto_orient: true }, { to_srgb: true }, { channels: "rgba" }, { max_pixels: 1 }]) {
    expect(mayChangePicture(imageOptionsSchema.parse(settings))).toBe(true);
  }
});

test("a colour is the same in both ways of writing it, also when what was parsed is parsed again", () => {
  const parsed = imageOptionsSchema.parse({ channels: "rgb", background: "#0a0BfF" });
  expect(parsed.background).toEqual([10, 11, 255]);
  expect(imageOptionsSchema.parse(parsed)).toEqual(parsed);
  expect(imageOptionsSchema.parse({}).background).toEqual([255, 255, 255]);
});
