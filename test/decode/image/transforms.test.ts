import { describe, expect, test } from "bun:test";
import { inflateSync } from "node:zlib";
import sharp, { type JpegOptions } from "sharp";
import type { ImageOptionsInput } from "../../../src/decode/image/options.ts";
import { metadataJson } from "../../../src/tensor/index.ts";
import { decode, decodeError, media } from "../../support/images.ts";

/** What Pillow makes of a file under such settings: levels, or their SHA-256 where they are to be the same. */
interface Vector {
  readonly settings: ImageOptionsInput;
  readonly shape: number[];
  readonly sha256?: string;
  readonly levels?: string;
}

const vectors: Record<string, Vector[]> = await Bun.file(
  new URL("../../vectors/transforms.json", import.meta.url),
).json();
const cases = Object.entries(vectors).flatMap(([name, all]) => all.map((vector) => [name, vector] as const));
const exact = cases.filter(([, { sha256 }]) => sha256 !== undefined);
const near = (settings: string) => cases.filter(([, vector]) => vector.levels && settings in vector.settings);

function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}

function largestDifference(one: Uint8Array, { levels = "" }: Vector): number {
  const other = inflateSync(Buffer.from(levels, "base64"));
  expect(one.length).toBe(other.length);
  return one.reduce((largest, value, index) => Math.max(largest, Math.abs(value - (other[index] ?? 0))), 0);
}

/** A JPEG with a profile, in segments of APP2 (ICC.1:2022, annex B.4). */
function withProfile(jpeg: Uint8Array, profile: Uint8Array): Uint8Array {
  const most = 65_000;
  const count = Math.ceil(profile.length / most);
  const segments = Array.from({ length: count }, (_, index) => {
    const part = profile.subarray(index * most, (index + 1) * most);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(2 + 14 + part.length);
    return Buffer.concat([
      Buffer.of(0xff, 0xe2),
      length,
      Buffer.from("ICC_PROFILE\0"),
      Buffer.of(index + 1, count),
      part,
    ]);
  });
  return new Uint8Array(Buffer.concat([jpeg.subarray(0, 2), ...segments, jpeg.subarray(2)]));
}

/** A picture of so many pixels, of noise on a gradient, as a JPEG. */
async function photo(width: number, height: number, options: JpegOptions = {}): Promise<Uint8Array> {
  const pixels = Uint8Array.from({ length: width * height * 3 }, (_, at) => (at / 7 + ((at * 2654435761) % 31)) & 255);
  const image = sharp(pixels, { raw: { width, height, channels: 3 } });
  return new Uint8Array(await image.jpeg(options).toBuffer());
}

describe("levels are Pillow's", () => {
  test.each(exact)("%s %j", async (name, { settings, shape, sha256: expected = "" }) => {
    const { tensor, pixels } = await decode(await media(name), settings);
    expect(tensor.shape).toEqual(shape);
    expect(sha256(pixels)).toBe(expected);
  });

  test("there are all eight orientations, of which no two give the same", () => {
    const turned = exact.filter(([name]) => /^orientation\d\.jpg$/.test(name));
    expect(new Set(turned.map(([, vector]) => vector.sha256)).size).toBe(8);
  });
});

describe("auto_orient", () => {
  test.each(near("auto_orient"))("%s is within 9 levels of Pillow's", async (name, vector) => {
    const { tensor, pixels } = await decode(await media(name), { auto_orient: true });
    expect(tensor.shape).toEqual(vector.shape);
    expect(largestDifference(pixels, vector)).toBeLessThanOrEqual(9);
  });

  test("off, all eight values give one hash, and so does every way without the tag", async () => {
    const hashes = new Set<string | null>();
    for (let value = 1; value <= 8; value++) {
      hashes.add((await decode(await media(`orientation${value}.jpg`))).tensor.contentHash);
    }
    expect(hashes.size).toBe(1);
    const upright = await decode(await media("orientation1.jpg"), { auto_orient: true });
    expect([...hashes]).toEqual([upright.tensor.contentHash]);
  });

  test("a value that does not exist, or a directory that is cut off, is no orientation", async () => {
    const bytes = await media("orientation6.jpg");
    const plain = (await decode(bytes)).tensor.contentHash;
    // The TIFF header behind "Exif", its directory's offset; the value of the directory's only entry.
    const tiff = Buffer.from(bytes).indexOf("Exif\0\0") + 6;
    const changes: [at: number, values: number[]][] = [
      [tiff + 4, [0xff, 0xff, 0xff, 0xff]],
      [tiff + 18, [9, 9]],
      [tiff + 18, [0, 0]],
    ];
    for (const [at, values] of changes) {
      const damaged = bytes.slice();
      damaged.set(values, at);
      expect((await decode(damaged, { auto_orient: true })).tensor.contentHash).toBe(plain);
    }
  });

  test("the room is asked for in the size of the upright picture", async () => {
    const { tensor, rooms } = await decode(await media("orientation6.jpg"), { auto_orient: true });
    expect(tensor.shape).toEqual([61, 43, 3]);
    expect(rooms.map((room) => room.payload.length)).toEqual([61 * 43 * 3]);
  });
});

describe("to_srgb", () => {
  test.each(near("to_srgb").filter(([name]) => name !== "cmyk_stripped.jpg"))(
    "%s is within 2 levels of Pillow's",
    async (name, vector) => {
      const { tensor, pixels } = await decode(await media(name), { to_srgb: true });
      expect(tensor.shape).toEqual(vector.shape);
      expect(largestDifference(pixels, vector)).toBeLessThanOrEqual(2);
    },
  );

  test("a CMYK JPEG by its profile; without one it is as it was", async () => {
    const bytes = await media("cmyk_stripped.jpg");
    const plain = (await decode(bytes)).tensor.contentHash;
    expect((await decode(bytes, { to_srgb: true })).tensor.contentHash).toBe(plain);
    const profiled = sharp(new Uint8Array(3), { raw: { width: 1, height: 1, channels: 3 } })
      .toColourspace("cmyk")
      .withIccProfile("cmyk")
      .jpeg();
    const { icc } = await sharp(await profiled.toBuffer()).metadata();
    const whole = withProfile(bytes, icc ?? new Uint8Array());
    expect((await decode(whole)).tensor.contentHash).toBe(plain);
    const huge = withProfile(
      bytes,
      new Uint8Array(Buffer.concat([icc ?? Buffer.alloc(0), Buffer.alloc(4 * 1024 * 1024)])),
    );
    expect((await decode(huge, { to_srgb: true })).tensor.contentHash).toBe(plain);
    const { pixels } = await decode(whole, { to_srgb: true });
    for (const [, vector] of near("to_srgb").filter(([name]) => name === "cmyk_stripped.jpg")) {
      expect(largestDifference(pixels, vector)).toBeLessThanOrEqual(4);
    }
  });

  test("a profile for other channels, and one that is none, change nothing", async () => {
    const color = Buffer.from(await media("jpg_icc_swapped.jpg"));
    const plain = (await decode(color)).tensor.contentHash;
    for (const [text, other] of [
      ["RGB XYZ ", "GRAYXYZ "],
      ["acsp", "none"],
    ] as const) {
      const damaged = Buffer.from(color);
      damaged.write(other, damaged.indexOf(text), "latin1");
      expect((await decode(new Uint8Array(damaged), { to_srgb: true })).tensor.contentHash).toBe(plain);
    }
  });
});

describe("channels", () => {
  test("colours under transparent pixels do not show, whatever they are", async () => {
    const pixels = Uint8Array.of(200, 10, 30, 0, 1, 2, 3, 0, 255, 0, 255, 128, 9, 8, 7, 255);
    const png = await sharp(pixels, { raw: { width: 4, height: 1, channels: 4 } })
      .png()
      .toBuffer();
    const white = await decode(new Uint8Array(png), { channels: "rgb" });
    expect([...white.pixels]).toEqual([255, 255, 255, 255, 255, 255, 255, 127, 255, 9, 8, 7]);
    const red = await decode(new Uint8Array(png), { channels: "rgb", background: "#ff0000" });
    expect([...red.pixels]).toEqual([255, 0, 0, 255, 0, 0, 255, 0, 128, 9, 8, 7]);
    expect(white.tensor.metadata).toEqual({ Image: { format: "Png", color_type: "Rgb8", layout: "HWC" } });
  });

  test.each([
    "gray16.png",
    "gray_alpha16.png",
    "rgb16.png",
    "rgba16.png",
    "jpg_cmyk.jpg",
    "transparent.gif",
    "rgb.avif",
  ])("%s has the channels that were asked for", async (name) => {
    const bytes = await media(name);
    for (const [channels, count] of [
      ["rgb", 3],
      ["rgba", 4],
    ] as const) {
      const { tensor, rooms } = await decode(bytes, { channels });
      expect(tensor.shape[2]).toBe(count);
      expect(rooms.map((room) => room.payload.length)).toEqual([tensor.byteLength]);
    }
  });
});

describe("max_pixels", () => {
  test.each([
    "odd.jpg",
    "jpg_gray.jpg",
    "jpg_progressive.jpg",
    "jpg_cmyk.jpg",
    "rgba.png",
    "gray_alpha.png",
    "line.png",
  ])("%s is scaled to no more than that, and says so", async (name) => {
    const bytes = await media(name);
    const [height = 0, width = 0, channels = 0] = (await decode(bytes)).tensor.shape;
    for (const max_pixels of [width * height - 1, 1000, 37, 1]) {
      const { tensor, rooms } = await decode(bytes, { max_pixels });
      const [scaledHeight = 0, scaledWidth = 0] = tensor.shape;
      expect(scaledHeight * scaledWidth).toBeLessThanOrEqual(max_pixels);
      expect(scaledHeight * scaledWidth).toBeGreaterThan(0);
      expect(tensor.shape[2]).toBe(channels);
      expect(tensor.metadata).toMatchObject({ Image: { source_width: width, source_height: height } });
      expect(metadataJson(tensor.metadata)).toEndWith(
        `"layout":"HWC","source_width":${width},"source_height":${height}}}`,
      );
      expect(rooms.map((room) => room.payload.length)).toEqual([tensor.byteLength]);
    }
  });

  test("a picture that is small enough is untouched", async () => {
    const bytes = await media("odd.jpg");
    const { tensor } = await decode(bytes, { max_pixels: 333 * 501 });
    expect(tensor).toEqual((await decode(bytes)).tensor);
  });

  test("the aspect stays, and the mean of the picture too", async () => {
    const bytes = await photo(1600, 400);
    const { tensor, pixels } = await decode(bytes, { max_pixels: 100 * 400 });
    expect(tensor.shape).toEqual([100, 400, 3]);
    const mean = (levels: Uint8Array) => levels.reduce((sum, level) => sum + level, 0) / levels.length;
    expect(Math.abs(mean(pixels) - mean((await decode(bytes)).pixels))).toBeLessThan(2);
  });

  test("no colour comes out of transparent pixels", async () => {
    const pixels = Uint8Array.from({ length: 64 * 64 * 4 }, (_, at) => {
      const isClear = Math.floor(at / 4) % 2 === 0;
      return at % 4 === 3 ? (isClear ? 0 : 255) : at % 4 === 0 ? (isClear ? 255 : 0) : 100;
    });
    const png = await sharp(pixels, { raw: { width: 64, height: 64, channels: 4 } })
      .png()
      .toBuffer();
    const scaled = await decode(new Uint8Array(png), { max_pixels: 256 });
    expect(scaled.tensor.shape).toEqual([16, 16, 4]);
    expect(Math.max(...scaled.pixels.filter((_, at) => at % 4 === 0))).toBeLessThanOrEqual(1);
  });

  test("max_alloc counts what the decoder makes: scaled of a baseline JPEG, whole of a progressive one and of a PNG", async () => {
    const limits = { max_alloc: 200 * 200 * 3 };
    const scaled = { limits, max_pixels: 100 * 100 };
    const baseline = await photo(800, 800);
    expect(await decodeError(baseline, { limits })).toMatchObject({ code: "limit_exceeded" });
    // An eighth would do, but sharp has a quarter made, and resamples that.
    expect((await decode(baseline, scaled)).tensor.shape).toEqual([100, 100, 3]);
    const less = { limits: { max_alloc: limits.max_alloc - 1 }, max_pixels: 100 * 100 };
    expect(await decodeError(baseline, less)).toMatchObject({ code: "limit_exceeded" });
    expect(await decodeError(await photo(800, 800, { progressive: true }), scaled)).toMatchObject({
      code: "limit_exceeded",
    });
    expect(await decodeError(baseline, { ...scaled, max_pixels: 500 * 500 })).toMatchObject({ code: "limit_exceeded" });
    expect(await decodeError(await media("bad_bomb_12000.png"), { max_pixels: 100 })).toMatchObject({
      code: "limit_exceeded",
    });
  });

  test("channels that are added count, too", async () => {
    const bytes = await media("gray.png");
    const limits = { max_alloc: 43 * 61 * 3 };
    expect((await decode(bytes, { limits, channels: "rgb" })).tensor.shape[2]).toBe(3);
    expect(await decodeError(bytes, { limits, channels: "rgba" })).toMatchObject({ code: "limit_exceeded" });
  });

  test("a picture that is smaller than its header says is scaled from its own size", async () => {
    const bytes = await media("frame_beyond.gif");
    const { tensor } = await decode(bytes, { max_pixels: 4 });
    expect(tensor.shape).toEqual([2, 2, 4]);
    expect(tensor.metadata).toMatchObject({ Image: { source_width: 3, source_height: 3 } });
  });

  test("limits of width and height are the file's", async () => {
    const settings = { limits: { max_image_width: 400 }, max_pixels: 100 };
    expect(await decodeError(await photo(800, 20), settings)).toMatchObject({ code: "limit_exceeded" });
  });

  test("a JPEG that is cut short is refused when it is scaled, too", async () => {
    const bytes = await photo(800, 800);
    for (const end of [bytes.length - 128, bytes.length / 2, 700]) {
      expect(await decodeError(bytes.subarray(0, end), { max_pixels: 10_000 })).toMatchObject({
        code: "media_corrupt",
      });
    }
  });
});

test("grey with alpha by a profile of grey stays grey, and its alpha as it was", async () => {
  const [plain, profiled] = [await media("gray_alpha.png"), await media("icc_gray.png")];
  const at = Buffer.from(profiled).indexOf("iCCP") - 4;
  const chunk = profiled.subarray(at, at + 12 + Buffer.from(profiled).readUInt32BE(at));
  const bytes = new Uint8Array(Buffer.concat([plain.subarray(0, 33), chunk, plain.subarray(33)]));
  const before = await decode(plain);
  const { tensor, pixels } = await decode(bytes, { to_srgb: true });
  expect(tensor.shape).toEqual(before.tensor.shape);
  const every = (levels: Uint8Array, second: number) => levels.filter((_, index) => index % 2 === second);
  expect(every(pixels, 1)).toEqual(every(before.pixels, 1));
  // A level of gamma 1.8 means more light than the same one of sRGB.
  const [converted, raw] = [every(pixels, 0), every(before.pixels, 0)];
  const sum = (levels: Uint8Array) => levels.reduce((total, level) => total + level, 0);
  expect(sum(converted)).toBeGreaterThan(sum(raw));
  expect(converted.every((level, index) => Math.abs(level - (raw[index] ?? 0)) < 40)).toBe(true);
});

test("all of them together: smaller, upright, sRGB, over a background", async () => {
  const settings = { auto_orient: true, to_srgb: true, channels: "rgba", max_pixels: 600 } as const;
  const { tensor } = await decode(await media("orientation6.webp"), settings);
  expect(tensor.shape).toEqual([29, 20, 4]);
  expect(tensor.metadata).toMatchObject({ Image: { color_type: "Rgba8", source_width: 61, source_height: 43 } });
});
