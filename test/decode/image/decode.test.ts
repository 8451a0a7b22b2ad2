import { describe, expect, test } from "bun:test";
import { canonicalContentHash } from "../../../src/tensor/index.ts";
import { decode, imageVectors, media, soundImages } from "../../support/images.ts";

const vectors = new Map(await imageVectors());
const sound = await soundImages();

/** Largest difference between two pictures of the same size. */
function largestDifference(one: Uint8Array, other: Uint8Array): number {
  expect(one.length).toBe(other.length);
  return one.reduce((largest, value, index) => Math.max(largest, Math.abs(value - (other[index] ?? 0))), 0);
}

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

  test.each(["rgb.avif", "sequence.avif", "rotated.avif"])(
    "%s is within 9 levels of Pillow's, not turned",
    async (name) => {
      const { tensor, pixels } = await decode(await media(name));
      expect(tensor.shape).toEqual([43, 61, 3]);
      expect(tensor.metadata).toEqual({ Image: { format: "Avif", color_type: "Rgb8", layout: "HWC" } });
      const difference = largestDifference(pixels, await pillowPixels(`${name.replace(".", "_")}_pillow.raw`));
      expect(difference).toBeLessThanOrEqual(9);
    },
  );

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

test("the tensor is hashed over what lies in the room", async () => {
  const { tensor, pixels } = await decode(await media("odd.jpg"));
  expect(tensor.byteLength).toBe(333 * 501 * 3);
  expect(tensor.contentHash).toBe(canonicalContentHash(tensor.shape, tensor.dtype, pixels));
});

test("one image asks for one room, of exactly its size", async () => {
  const { tensor, rooms } = await decode(await media("gray_alpha16.png"));
  expect(rooms.map((room) => room.payload.length)).toEqual([tensor.byteLength]);
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
