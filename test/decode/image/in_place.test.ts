import { beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { openLibWebp } from "../../../ffi/libwebp.ts";
import { locateLibWebp, locateTurboJpeg } from "../../../ffi/locate.ts";
import { openTurboJpeg } from "../../../ffi/turbojpeg.ts";
import type { NativeDecoders } from "../../../src/decode/contract.ts";
import { decodeImage } from "../../../src/decode/image/decode.ts";
import { decodeInPlace } from "../../../src/decode/image/decoders/in_place.ts";
import { readImageHeader } from "../../../src/decode/image/header.ts";
import { imageOptionsSchema } from "../../../src/decode/image/options.ts";
import { MediaError } from "../../../src/errors.ts";
import { media, soundImages } from "../../support/images.ts";
import { roomContext } from "../../support/rooms.ts";

const NONE: NativeDecoders = { ffmpegPath: null, turboJpegPath: null, webpPath: null };
/** Both come with what the tests need anyway: set-up fetches the one, Debian's ffmpeg brings the other. */
const NATIVE = { ...NONE, turboJpegPath: locateTurboJpeg().path, webpPath: locateLibWebp().path };
const settings = imageOptionsSchema.parse({});
const sound = await soundImages();
const jpegs = sound.filter((name) => name.endsWith(".jpg") && name !== "gif_named.jpg");
const webps = sound.filter((name) => name.endsWith(".webp"));

/** A picture with edges and gradients, of a size that no block size divides. */
let picture: ReturnType<typeof sharp>;
beforeAll(() => {
  const [width, height] = [331, 203];
  const pixels = Buffer.alloc(width * height * 3);
  for (let at = 0; at < pixels.length; at++) pixels[at] = (at * 7 + (at >> 9) * 31 + ((at % 997) >> 3)) & 255;
  picture = sharp(pixels, { raw: { width, height, channels: 3 } });
});

/** What decoding gives: hash and shape, or the error's code. */
async function outcome(encoded: Uint8Array, native: NativeDecoders): Promise<unknown> {
  try {
    const { contentHash, shape, metadata } = await decodeImage(encoded, settings, {
      ...roomContext().context,
      ...native,
    });
    return { contentHash, shape, metadata };
  } catch (error) {
    if (error instanceof MediaError) return error.code;
    throw error;
  }
}

/** Whether the library took it, and its pixels. */
function inPlace(encoded: Uint8Array, format: "Jpeg" | "WebP"): Uint8Array | null {
  const header = readImageHeader(encoded, format);
  const pixels = new Uint8Array(header.width * header.height * header.channels).fill(0xa5);
  return decodeInPlace({ ...NATIVE, threads: 1 }, encoded, format, header, pixels) ? pixels : null;
}

test("both libraries are there", () => {
  expect(NATIVE).toEqual({ ffmpegPath: null, turboJpegPath: expect.any(String), webpPath: expect.any(String) });
});

describe("a picture has the same pixels with the native library and without", () => {
  test.each([...jpegs, ...webps])("%s", async (name) => {
    const encoded = await media(name);
    expect(await outcome(encoded, NATIVE)).toEqual(await outcome(encoded, NONE));
  });

  test.each(["4:4:4", "4:2:0"])("JPEG of %s, of several qualities, sequential and progressive", async (sampling) => {
    for (const quality of [10, 75, 100]) {
      for (const progressive of [false, true]) {
        const encoded = await picture.clone().jpeg({ quality, progressive, chromaSubsampling: sampling }).toBuffer();
        expect(inPlace(encoded, "Jpeg")).not.toBeNull();
        expect(await outcome(encoded, NATIVE)).toEqual(await outcome(encoded, NONE));
      }
    }
  });

  test("grey JPEG", async () => {
    const encoded = await picture.clone().greyscale().jpeg().toBuffer();
    expect(inPlace(encoded, "Jpeg")).not.toBeNull();
    expect(await outcome(encoded, NATIVE)).toEqual(await outcome(encoded, NONE));
  });

  test.each([{ quality: 5 }, { quality: 90 }, { lossless: true }, { nearLossless: true }, { smartSubsample: true }])(
    "WebP of %p",
    async (options) => {
      for (const alpha of [false, true]) {
        const source = alpha ? picture.clone().ensureAlpha(0.5) : picture.clone();
        const encoded = await source.webp(options).toBuffer();
        expect(inPlace(encoded, "WebP")).not.toBeNull();
        expect(await outcome(encoded, NATIVE)).toEqual(await outcome(encoded, NONE));
      }
    },
  );
});

describe("the general decoders have the verdict on what the native library refuses", () => {
  test.each(["jpg_cmyk.jpg", "animated.webp"])("%s is not for it", async (name) => {
    const encoded = await media(name);
    const format = name.endsWith("jpg") ? "Jpeg" : "WebP";
    expect(inPlace(encoded, format)).toBeNull();
    expect(await outcome(encoded, NATIVE)).toEqual(await outcome(encoded, NONE));
  });

  test.each(["odd.jpg", "jpg_progressive.jpg", "lossy.webp", "lossless_alpha.webp", "lossy_alpha.webp"])(
    "%s, cut and damaged, is refused or decoded alike",
    async (name) => {
      const whole = await media(name);
      for (let step = 1; step < 24; step++) {
        const at = Math.floor((whole.length * step) / 24);
        const damaged = Buffer.from(whole);
        damaged.fill(0, at, at + 4);
        for (const encoded of [whole.subarray(0, at), damaged]) {
          expect(await outcome(encoded, NATIVE)).toEqual(await outcome(encoded, NONE));
        }
      }
    },
  );

  test("a JPEG of more scans than anybody makes is not decoded scan by scan", async () => {
    const encoded = await picture.clone().jpeg({ progressive: true }).toBuffer();
    // The last scan, over and over.
    const lastScan = encoded.lastIndexOf(Buffer.from([0xff, 0xda]));
    const scan = encoded.subarray(lastScan, encoded.length - 2);
    const bomb = Buffer.concat([
      encoded.subarray(0, -2),
      ...Array.from({ length: 600 }, () => scan),
      encoded.subarray(-2),
    ]);
    expect(inPlace(bomb, "Jpeg")).toBeNull();
    expect(await outcome(bomb, NATIVE)).toBe("media_corrupt");
  });
});

describe("a library that cannot be used", () => {
  test("is no reason not to decode", async () => {
    const folder = mkdtempSync(join(tmpdir(), "in-place-"));
    const file = join(folder, "library.so");
    await Bun.write(file, "no library");
    const swapped = { ...NONE, turboJpegPath: NATIVE.webpPath, webpPath: NATIVE.turboJpegPath };
    const unusable = [file, join(folder, "missing.so")].map((path) => ({
      ...NONE,
      turboJpegPath: path,
      webpPath: path,
    }));
    for (const native of [...unusable, swapped]) {
      for (const name of ["odd.jpg", "lossy.webp"]) {
        const encoded = await media(name);
        expect(await outcome(encoded, native)).toEqual(await outcome(encoded, NONE));
      }
    }
    rmSync(folder, { recursive: true });
  });

  test("is a coded error for whoever opens it", () => {
    for (const open of [openTurboJpeg, openLibWebp]) {
      expect(() => open("/missing.so")).toThrow(expect.objectContaining({ code: "native_missing" }));
    }
  });

  test("given memory of another size than the picture's it writes nothing", async () => {
    const library = openTurboJpeg(NATIVE.turboJpegPath ?? "");
    const encoded = await media("odd.jpg");
    const header = library.readHeader(encoded);
    if (!header) throw new Error("the header was refused");
    const pixels = new Uint8Array(header.width * header.height * header.channels - 1);
    expect(() => library.decodeInto(encoded, header, pixels)).toThrow(
      expect.objectContaining({ code: "invalid_argument" }),
    );
  });
});
