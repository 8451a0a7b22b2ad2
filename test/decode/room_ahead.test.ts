import { describe, expect, test } from "bun:test";
import sharp from "sharp";
import { type ImageOptionsInput, imageOptionsSchema } from "../../src/decode/image/options.ts";
import { roomAhead } from "../../src/decode/room_ahead.ts";
import { MediaDecoder } from "../../src/index.ts";
import { mediaBytes, noisePng } from "../support/media.ts";

const image = (limits: object | null = {}, options: ImageOptionsInput = {}) =>
  ({ kind: "image", settings: imageOptionsSchema.parse({ limits, ...options }), hashVideo: false }) as const;

describe("the room for an image is told from its first bytes", () => {
  test.each([
    ["odd.jpg", 333 * 501 * 3],
    ["jpg_gray.jpg", 43 * 61],
    ["rgba.png", 43 * 61 * 4],
    ["rgb16.png", 43 * 61 * 3],
    ["lossy_alpha.webp", 43 * 61 * 4],
  ])("%s", async (name, byteLength) => {
    expect(roomAhead(image(), await mediaBytes(name))).toBe(byteLength);
  });

  test.each<[string, ImageOptionsInput, number]>([
    ["odd.jpg", { channels: "rgba" }, 333 * 501 * 4],
    ["odd.jpg", { channels: "rgb", auto_orient: true, to_srgb: true }, 333 * 501 * 3],
    ["rgba.png", { channels: "rgb" }, 43 * 61 * 3],
    ["rgba.png", { max_pixels: 43 * 61, channels: "keep" }, 43 * 61 * 4],
    ["rgb16.png", { max_pixels: 100 }, 8 * 11 * 3],
    ["lossy_alpha.webp", { max_pixels: null }, 43 * 61 * 4],
  ])("%s with %j, and no more is asked for", async (name, options, byteLength) => {
    const request = image({}, options);
    const encoded = await mediaBytes(name);
    expect(roomAhead(request, encoded)).toBe(byteLength);
    const decoder = await MediaDecoder.open({ decoders: { children: 1 }, image: options });
    using decoded = await decoder.decode(encoded);
    expect(decoded.media.info.shape.reduce((product, side) => product * side, 1)).toBe(byteLength);
    await decoder.dispose();
  });

  test("of large files too", async () => {
    const png = await noisePng(400, 300);
    const webp = await sharp(png).webp({ lossless: true }).toBuffer();
    for (const encoded of [png, webp]) {
      expect(encoded.byteLength).toBeGreaterThan(128 * 1024);
      expect(roomAhead(image(), encoded)).toBe(400 * 300 * 3);
    }
  });
});

describe("the decoder has to ask", () => {
  test.each(["rgb.tiff", "static.gif", "rgb.avif"])("for %s, whose header may be anywhere", async (name) => {
    expect(roomAhead(image(), await mediaBytes(name))).toBeNull();
  });

  test("for a clip", async () => {
    const request = { ...image(), kind: "video" } as const;
    expect(roomAhead(request, await mediaBytes("h264.mp4"))).toBeNull();
  });

  test.each(["bad_zero_width.png", "bad_header_only.jpg", "bad_text.jpg", "bad_empty.png"])(
    "for %s, whose header is no good",
    async (name) => {
      expect(roomAhead(image(), await mediaBytes(name))).toBeNull();
    },
  );

  test("for a picture over the limits", async () => {
    const encoded = await mediaBytes("odd.jpg");
    expect(roomAhead(image({ max_image_width: 100 }), encoded)).toBeNull();
    expect(roomAhead(image(null), await mediaBytes("bad_bomb_12000.png"))).toBeNull();
  });

  test("for a header that takes more steps than sound ones do", async () => {
    const jpeg = await mediaBytes("odd.jpg");
    const comments = Buffer.alloc(4 * 2000, Buffer.from([0xff, 0xfe, 0, 2]));
    expect(roomAhead(image(), jpeg)).not.toBeNull();
    const long = Buffer.concat([jpeg.subarray(0, 2), comments, jpeg.subarray(2)]);
    expect(long.byteLength).toBeLessThan(64 * 1024);
    expect(roomAhead(image(), long)).toBeNull();
  });

  test("for a JPEG whose frame header is farther behind than is looked", async () => {
    const jpeg = await mediaBytes("odd.jpg");
    const fill = new Uint8Array(16 * 1024 * 1024).fill(0xff);
    expect(roomAhead(image(), Buffer.concat([jpeg.subarray(0, 2), fill, jpeg.subarray(2)]))).toBeNull();
  });
});
