import { afterEach, beforeAll, describe, expect, test } from "bun:test";
import sharp, { type JpegOptions } from "sharp";
import { locateTurboJpeg } from "../../../ffi/locate.ts";
import { createFile, type PrivateFile } from "../../../ffi/process.ts";
import { openTurboJpeg, type TurboJpeg } from "../../../ffi/turbojpeg.ts";
import { decodeInBands } from "../../../src/decode/image/decoders/jpeg_bands.ts";
import { media } from "../../support/images.ts";
import { eventually } from "../../support/processes.ts";

const path = locateTurboJpeg().path ?? "";
let library: TurboJpeg;

/** Noise over a gradient: no two rows are alike. */
async function jpeg(width: number, height: number, options: JpegOptions = {}, grey = false): Promise<Uint8Array> {
  const pixels = Buffer.alloc(width * height * 3);
  let state = width;
  for (let at = 0; at < pixels.length; at++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    pixels[at] = ((at / width) & 127) + (state >>> 26);
  }
  const image = sharp(pixels, { raw: { width, height, channels: 3 } });
  return (grey ? image.greyscale() : image).jpeg(options).toBuffer();
}

/** The bytes in memory that a thread can be given by address. */
function native(encoded: Uint8Array): PrivateFile {
  const file = createFile("jpeg", encoded.byteLength);
  file.bytes.set(encoded);
  return file;
}

/** Decodes with two threads; null when the picture is not for two. */
function inBands(encoded: Uint8Array): { pixels: Uint8Array; isDone: boolean } | null {
  using file = native(encoded);
  const header = library.readHeader(file.bytes);
  if (!header) throw new Error("the header was refused");
  using pixels = createFile("pixels", header.width * header.height * header.channels);
  pixels.bytes.fill(0xa5);
  const isDone = decodeInBands(library, path, file.bytes, header, pixels.bytes);
  return isDone === null ? null : { pixels: pixels.bytes.slice(), isDone };
}

function whole(encoded: Uint8Array): Uint8Array {
  const header = library.readHeader(encoded);
  if (!header) throw new Error("the header was refused");
  const pixels = new Uint8Array(header.width * header.height * header.channels);
  expect(library.decodeInto(encoded, header, pixels)).toBeNull();
  return pixels;
}

beforeAll(async () => {
  library = openTurboJpeg(path);
  const encoded = await jpeg(1200, 900);
  await eventually("the second thread is there", () => inBands(encoded) !== null);
});

test("the library that set-up sees to can decode bands", () => {
  expect(library.bands).not.toBeNull();
});

describe("two threads make the pixels that one makes", () => {
  const sizes = [
    [1200, 900],
    [1001, 1033],
    [1920, 1080],
    [8001, 131],
    [331, 3203],
  ] as const;
  test.each(sizes)("%p x %p", async (width, height) => {
    for (const options of [
      { chromaSubsampling: "4:4:4" },
      { chromaSubsampling: "4:2:0" },
      { quality: 30 },
      { quality: 98 },
    ]) {
      const encoded = await jpeg(width, height, options);
      expect(inBands(encoded)).toEqual({ isDone: true, pixels: whole(encoded) });
    }
    const grey = await jpeg(width, height, {}, true);
    expect(inBands(grey)).toEqual({ isDone: true, pixels: whole(grey) });
  });

  test("over and over", async () => {
    const encoded = await jpeg(1200, 900, { quality: 90 });
    const expected = whole(encoded);
    for (let i = 0; i < 40; i++) expect(inBands(encoded)).toEqual({ isDone: true, pixels: expected });
  });
});

describe("is refused by either thread", () => {
  test.each([0.3, 0.9])("a JPEG with damage at %p of its length", async (share) => {
    const encoded = Buffer.from(await jpeg(1200, 900));
    encoded.fill(0xff, Math.floor(encoded.length * share), Math.floor(encoded.length * share) + 64);
    const pixels = new Uint8Array(1200 * 900 * 3);
    const header = library.readHeader(encoded);
    expect(header && library.decodeInto(encoded, header, pixels)).not.toBeNull();
    expect(inBands(encoded)?.isDone).toBe(false);
  });

  test.each([0.2, 0.5, 0.75, 0.99])("a JPEG that ends at %p of its length", async (share) => {
    const encoded = await jpeg(1200, 900);
    const cut = encoded.subarray(0, Math.floor(encoded.length * share));
    expect(inBands(cut)?.isDone).toBe(false);
    expect(inBands(encoded)?.isDone).toBe(true);
  });
});

describe("is for one thread", () => {
  afterEach(async () => {
    expect(inBands(await jpeg(1200, 900))).not.toBeNull(); // the other thread is there, it was not asked
  });

  test("a small picture", async () => {
    expect(inBands(await media("odd.jpg"))).toBeNull();
  });

  test("a progressive one", async () => {
    expect(inBands(await jpeg(1200, 900, { progressive: true }))).toBeNull();
  });

  test("one with fewer rows than a band", async () => {
    expect(inBands(await jpeg(60_000, 20))).toBeNull();
  });
});

test("a band outside of the picture is refused", async () => {
  const encoded = await jpeg(100, 100);
  const header = library.readHeader(encoded);
  if (!header || !library.bands) throw new Error("the header was refused");
  const { bands } = library;
  const pixels = new Uint8Array(100 * 100 * 3);
  for (const rows of [
    { first: 64, count: 64 },
    { first: -32, count: 32 },
    { first: 0, count: 0 },
  ]) {
    expect(() => bands.decodeRows(encoded, header, pixels, rows)).toThrow(
      expect.objectContaining({ code: "invalid_argument" }),
    );
  }
});
