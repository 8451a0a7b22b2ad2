import { describe, expect, test } from "bun:test";
import { canonicalContentHash } from "../../../src/tensor/index.ts";
import { decode, decodeError, imageVectors, media, soundImages } from "../../support/images.ts";
import { fullContext } from "../../support/rooms.ts";

const vectors = new Map(await imageVectors());
const sound = await soundImages();

/** Largest difference between two pictures of the same size. */
function largestDifference(one: Uint8Array, other: Uint8Array): number {
  expect(one.length).toBe(other.length);
  return one.reduce((largest, value, index) => Math.max(largest, Math.abs(value - (other[index] ?? 0))), 0);
}

/** Two pixels of 32 bits each, in a BMP whose masks (of red, green and blue) leave eight bits unused. */
const bitmapWithMasks = Buffer.concat([
  Buffer.from("BM"),
  // The file header's other fields, the information header, the masks, the pixels.
  new Uint8Array(Uint32Array.of(74, 0, 66).buffer),
  new Uint8Array(Uint32Array.of(40, 2, 1, 0x0020_0001, 3, 8, 0, 0, 0, 0).buffer),
  new Uint8Array(Uint32Array.of(0xff0000, 0xff00, 0xff).buffer),
  new Uint8Array(Uint32Array.of(0x010203, 0x040506).buffer),
]);

async function pillowPixels(name: string): Promise<Uint8Array> {
  return Bun.file(new URL(`../../vectors/${name}`, import.meta.url)).bytes();
}

describe("shape, metadata and content hash are the reference's", () => {
  test.each(sound)("%s", async (name) => {
    const { tensor } = await decode(await media(name));
    const reference = vectors.get(name)?.reference;
    expect(tensor).toMatchObject({ shape: reference?.shape, dtype: "UINT8", contentHash: reference?.content_hash });
    expect(JSON.stringify(tensor.metadata)).toBe(JSON.stringify(reference?.metadata));
  });
});

describe("formats that the reference does not have", () => {
  test.each([
    ["palette.tiff", "palette.png"],
    ["big.tiff", "rgb.png"],
  ])("%s has the pixels of %s", async (name, twin) => {
    const { tensor } = await decode(await media(name));
    expect(tensor.contentHash).toBe(vectors.get(twin)?.reference.content_hash ?? "");
  });

  test.each(["rgb.avif", "sequence.avif", "rotated.avif", "ten_bit.avif"])(
    "%s is within 9 levels of Pillow's, not turned",
    async (name) => {
      const { tensor, pixels } = await decode(await media(name));
      expect(tensor.shape).toEqual([43, 61, 3]);
      expect(tensor.metadata).toEqual({ Image: { format: "Avif", color_type: "Rgb8", layout: "HWC" } });
      const difference = largestDifference(pixels, await pillowPixels(`${name.replace(".", "_")}_pillow.raw`));
      expect(difference).toBeLessThanOrEqual(9);
    },
  );

  test("a TIFF with JPEG inside has Pillow's pixels", async () => {
    const { tensor } = await decode(await media("jpeg.tiff"));
    expect(tensor).toMatchObject({ shape: [43, 61, 3], contentHash: "7f51b0aeb7e432c1" });
  });

  test("an AVIF with alpha keeps it, and lossless pixels are exact", async () => {
    const { tensor } = await decode(await media("rgba.avif"));
    expect(tensor.shape).toEqual([43, 61, 4]);
    expect(tensor.contentHash).toBe(vectors.get("rgba.png")?.reference.content_hash ?? "");
  });
});

describe("the first frame of a GIF on its screen", () => {
  const rgba = (...colors: number[][]) => Uint8Array.from(colors.flat());
  const none = [0, 0, 0, 0];
  const one = [10, 20, 30, 255];
  const two = [40, 50, 60, 255];
  const three = [70, 80, 90, 255];
  const four = [100, 110, 120, 255];
  const transparentThree = [70, 80, 90, 0];

  test("outside of the frame nothing, under transparent pixels the palette's colour", async () => {
    const { tensor, pixels } = await decode(await media("frame_inside.gif"));
    expect(tensor.shape).toEqual([3, 4, 4]);
    const rows = [none, none, none, none, none, one, two, none, none, transparentThree, four, none];
    expect(pixels).toEqual(rgba(...rows));
  });

  test("a frame that reaches beyond the screen is cut at its edge", async () => {
    const { pixels } = await decode(await media("frame_beyond.gif"));
    expect(pixels).toEqual(rgba(none, none, none, none, none, none, none, none, one));
  });

  test("the screen keeps its size however small the frame is", async () => {
    const { tensor, pixels } = await decode(await media("frame_small_640x480.gif"));
    expect(tensor.shape).toEqual([480, 640, 4]);
    expect(pixels.subarray(0, 12)).toEqual(rgba(one, two, none));
    expect(pixels.subarray(640 * 4, 640 * 4 + 12)).toEqual(rgba(three, four, none));
  });

  test("a frame's own palette goes before the file's", async () => {
    const { pixels } = await decode(await media("local_palette.gif"));
    expect(pixels).toEqual(rgba(one, [40, 50, 60, 0], three, four));
  });
});

describe("DDS", () => {
  test.each([
    ["dxt1.dds", 3],
    ["dxt3.dds", 4],
    ["dxt5.dds", 4],
  ])("%s is within a level of Pillow's", async (name, channels) => {
    const { tensor, pixels } = await decode(await media(name));
    expect(tensor.shape).toEqual([40, 60, channels]);
    expect(tensor.metadata).toMatchObject({ Image: { format: "Dds" } });
    const difference = largestDifference(pixels, await pillowPixels(`${name.replace(".", "_")}_pillow.raw`));
    expect(difference).toBeLessThanOrEqual(1);
  });

  test("surfaces that are not block-compressed are refused by name", async () => {
    const error = await decodeError(await media("uncompressed.dds"));
    expect(error).toMatchObject({ code: "media_unsupported", message: expect.stringContaining("Dds") });
  });
});

describe("Farbfeld", () => {
  const farbfeld = (width: number, height: number, samples: number[]) =>
    new Uint8Array(
      Buffer.concat([
        Buffer.from("farbfeld"),
        Buffer.from([width, height].flatMap((size) => [0, 0, 0, size])),
        Buffer.from(new Uint16Array(samples).buffer).swap16(),
      ]),
    );

  test("16-bit samples are rounded to 8", async () => {
    const { tensor, pixels } = await decode(
      farbfeld(2, 1, [0, 0x0081, 0x8000, 0xffff, 0xff7f, 0x0080, 0x1234, 0x00ff]),
    );
    expect(tensor.shape).toEqual([1, 2, 4]);
    expect(tensor.metadata).toEqual({ Image: { format: "Farbfeld", color_type: "Rgba8", layout: "HWC" } });
    expect([...pixels]).toEqual([0, 1, 128, 255, 255, 0, 18, 1]);
  });

  test("fewer samples than its header says, or more, are damage; too many for the limit are over it", async () => {
    const whole = farbfeld(2, 1, [1, 2, 3, 4, 5, 6, 7, 8]);
    expect(await decodeError(whole.subarray(0, whole.length - 1))).toMatchObject({ code: "media_corrupt" });
    expect(await decodeError(Uint8Array.of(...whole, 0))).toMatchObject({ code: "media_corrupt" });
    expect(await decodeError(whole.subarray(0, 11))).toMatchObject({ code: "media_corrupt" });
    const bomb = whole.slice().fill(0xff, 8, 16);
    expect(await decodeError(bomb)).toMatchObject({ code: "limit_exceeded" });
  });
});

test("the tensor is hashed over what lies in the room", async () => {
  const { tensor, pixels } = await decode(await media("odd.jpg"));
  expect(tensor.byteLength).toBe(333 * 501 * 3);
  expect(tensor.contentHash).toBe(canonicalContentHash(tensor.shape, tensor.dtype, pixels));
});

test.each(["gray_alpha16.png", "jpg_gray.jpg", "jpg_cmyk.jpg", "rgb.avif", "rgb.qoi", "animated.gif", "cmyk.tiff"])(
  "%s asks for one room, of exactly its size",
  async (name) => {
    const { tensor, rooms } = await decode(await media(name));
    expect(rooms.map((room) => room.payload.length)).toEqual([tensor.byteLength]);
  },
);

describe("where the header says more than the picture has, the picture is the beginning of its room", () => {
  test("a GIF frame that reaches beyond the screen", async () => {
    const { tensor, rooms } = await decode(await media("frame_beyond.gif"));
    expect(tensor.shape).toEqual([3, 3, 4]);
    expect(rooms.map((room) => room.payload.length > tensor.byteLength)).toEqual([true]);
  });

  test("a BMP with bit masks but without alpha", async () => {
    const { tensor, pixels, rooms } = await decode(bitmapWithMasks);
    expect(tensor).toMatchObject({ shape: [1, 2, 3], byteLength: 6 });
    expect(pixels).toEqual(Uint8Array.of(1, 2, 3, 4, 5, 6));
    expect(rooms.map((room) => room.payload.length)).toEqual([8]);
    expect(tensor.contentHash).toBe(canonicalContentHash(tensor.shape, tensor.dtype, pixels));
  });
});

describe("a full pool refuses before the work", () => {
  test.each(["odd.jpg", "rgb.png", "static.gif", "rgb.qoi", "rgb.avif", "palette.tiff"])("%s", async (name) => {
    expect(await decodeError(await media(name), {}, fullContext)).toMatchObject({ code: "no_room" });
  });

  test("no decoder sees an image for which there is no room, so that its damage is not found", async () => {
    for (const name of ["bad_truncated.jpg", "bad_crc.png", "frame_data_short.gif"]) {
      expect(await decodeError(await media(name), {}, fullContext)).toMatchObject({ code: "no_room" });
    }
  });

  test("what the header alone decides is said without asking for room", async () => {
    expect(await decodeError(await media("bad_bomb_12000.png"), {}, fullContext)).toMatchObject({
      code: "limit_exceeded",
    });
    expect(await decodeError(await media("bad_zero_width.png"), {}, fullContext)).toMatchObject({
      code: "media_corrupt",
    });
  });
});

test("bytes in the middle of a larger buffer decode as by themselves", async () => {
  for (const name of ["odd.jpg", "rgb16.png", "static.gif", "rgb.qoi", "rgb.avif"]) {
    const bytes = await media(name);
    const surrounded = new Uint8Array(bytes.length + 2000).fill(0xff);
    surrounded.set(bytes, 1001);
    const { tensor } = await decode(surrounded.subarray(1001, 1001 + bytes.length));
    expect(tensor.contentHash).toBe((await decode(bytes)).tensor.contentHash);
  }
});
