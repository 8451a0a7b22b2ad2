import { describe, expect, test } from "bun:test";
import { decode, decodeError, media } from "../../support/images.ts";

describe("limits are judged on the header", () => {
  test.each(["bad_bomb_12000.png", "bad_huge_header.png"])("%s is over the default", async (name) => {
    const error = await decodeError(await media(name));
    expect(error.code).toBe("limit_exceeded");
    expect(error.message).toMatch(/dimensions \d+x\d+ .* limit/);
  });

  test("width and height have limits of their own; the limit itself is allowed", async () => {
    const bytes = await media("rgb.png");
    expect(await decodeError(bytes, { limits: { max_image_width: 60 } })).toMatchObject({ code: "limit_exceeded" });
    expect(await decodeError(bytes, { limits: { max_image_height: 42 } })).toMatchObject({ code: "limit_exceeded" });
    const { tensor } = await decode(bytes, { limits: { max_image_width: 61, max_image_height: 43 } });
    expect(tensor.shape).toEqual([43, 61, 3]);
  });

  test.each([
    ["jpg_gray.jpg", 1],
    ["gray_alpha.png", 2],
    ["rgb.png", 3],
    ["jpg_cmyk.jpg", 3],
    ["static.gif", 4],
    ["rgb16.png", 6],
    ["rgb.avif", 4],
    ["ten_bit.avif", 6],
    ["cmyk.tiff", 4],
    ["rgba.tiff", 4],
    ["rgb.qoi", 3],
  ])("%s needs %d bytes for each pixel", async (name, bytesPerPixel) => {
    const bytes = await media(name);
    const needed = 43 * 61 * bytesPerPixel;
    expect(await decodeError(bytes, { limits: { max_alloc: needed - 1 } })).toMatchObject({ code: "limit_exceeded" });
    expect((await decode(bytes, { limits: { max_alloc: needed } })).tensor.shape.slice(0, 2)).toEqual([43, 61]);
  });

  test("without limits a size that cannot be counted is still refused, and others decode", async () => {
    expect(await decodeError(await media("bad_huge_header.png"), { limits: null })).toMatchObject({
      code: "limit_exceeded",
    });
    expect((await decode(await media("odd.jpg"), { limits: null })).tensor.shape).toEqual([333, 501, 3]);
  });

  test("a damaged image over the limit is over the limit: no decoder looked at it", async () => {
    const bytes = (await media("bad_bomb_12000.png")).slice(0, 60);
    expect(await decodeError(bytes)).toMatchObject({ code: "limit_exceeded" });
  });
});

test("zero width is damage, not an empty picture", async () => {
  expect(await decodeError(await media("bad_zero_width.png"))).toMatchObject({ code: "media_corrupt" });
});
