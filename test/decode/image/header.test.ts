import { describe, expect, test } from "bun:test";
import { isDecodable, readImageHeader } from "../../../src/decode/image/header.ts";
import { readGifFrame } from "../../../src/decode/image/headers/gif.ts";
import { sniffMedia } from "../../../src/decode/sniff.ts";
import { MediaError } from "../../../src/errors.ts";
import { decode, decodeError, imageVectors, media, soundImages } from "../../support/images.ts";

function header(bytes: Uint8Array) {
  const sniffed = sniffMedia(bytes);
  if (sniffed.kind !== "image" || !isDecodable(sniffed.format)) throw new Error("not an image that is decoded");
  return readImageHeader(bytes, sniffed.format);
}

/** Changes a field of the first directory of a little-endian TIFF; one that is not there fails the test. */
function setTiffField(bytes: Uint8Array, tag: number, value: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const directory = view.getUint32(4, true);
  const entries = Array.from({ length: view.getUint16(directory, true) }, (_, index) => directory + 2 + 12 * index);
  const entry = entries.find((candidate) => view.getUint16(candidate, true) === tag);
  if (entry === undefined) throw new Error(`the TIFF has no field ${tag}`);
  view.setUint16(entry + 8, value, true);
}

describe("the header says what the decoder makes", () => {
  test("of every sound file of the reference", async () => {
    const names = await soundImages();
    const shapes = new Map((await imageVectors()).map(([name, vector]) => [name, vector.reference.shape]));
    expect(names.length).toBeGreaterThan(50);
    for (const name of names) {
      const { width, height, channels } = header(await media(name));
      expect([name, height, width, channels]).toEqual([name, ...(shapes.get(name) ?? [])]);
    }
  });

  test.each([
    "rgb.avif",
    "rgba.avif",
    "sequence.avif",
    "rotated.avif",
    "ten_bit.avif",
    "palette.tiff",
    "big.tiff",
    "jpeg.tiff",
  ])("%s", async (name) => {
    const bytes = await media(name);
    const { width, height, channels } = header(bytes);
    expect([height, width, channels]).toEqual([...(await decode(bytes)).tensor.shape]);
  });

  test("16-bit samples count two bytes", async () => {
    expect(header(await media("rgb16.png"))).toMatchObject({ channels: 3, bytesPerPixel: 6 });
    expect(header(await media("rgb.png"))).toMatchObject({ channels: 3, bytesPerPixel: 3 });
  });
});

describe("a header that the decoder would read in another way is not judged as something small", () => {
  const latin1 = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));

  test("a comment in the middle of a PNM number is nothing, and its line's end with it", async () => {
    const bytes = latin1(`P6 1#\n2 #\r3 255\n${"\0".repeat(12 * 3 * 3)}`);
    expect(header(bytes)).toMatchObject({ width: 12, height: 3 });
    expect((await decode(bytes)).tensor.shape).toEqual([3, 12, 3]);
  });

  test("a PAM comment ends with its line feed, and no field occurs twice", async () => {
    const rest = `HEIGHT 1\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n${"\0".repeat(6)}`;
    const bytes = latin1(`P7\n# comment\rWIDTH 1\nWIDTH 2\n${rest}`);
    expect(header(bytes)).toMatchObject({ width: 2, height: 1, channels: 3 });
    expect((await decode(bytes)).tensor.shape).toEqual([1, 2, 3]);
    const twice = latin1(`P7\nWIDTH 1\nWIDTH 2\n${rest}`);
    expect(() => header(twice)).toThrow(expect.objectContaining({ code: "media_corrupt" }));
  });

  test("a WebP picture larger than its canvas", async () => {
    const picture = (await media("lossy.webp")).subarray(12);
    const canvas = (flags: number) => latin1(`VP8X\x0a\0\0\0${String.fromCharCode(flags)}\0\0\0\x09\0\0\x09\0\0`);
    const frame = Buffer.concat([new Uint8Array(16), picture]);
    const frameChunk = Buffer.concat([latin1("ANMF"), new Uint8Array(Uint32Array.of(frame.length).buffer), frame]);
    for (const chunks of [
      [canvas(0), picture],
      [canvas(2), frameChunk],
    ]) {
      const body = Buffer.concat([latin1("WEBP"), ...chunks]);
      const bytes = Buffer.concat([latin1("RIFF"), new Uint8Array(Uint32Array.of(body.length).buffer), body]);
      expect(() => header(bytes)).toThrow(expect.objectContaining({ code: "media_corrupt" }));
    }
  });

  test("a TIFF that is smaller than the JPEG inside", async () => {
    const bytes = await media("jpeg.tiff");
    setTiffField(bytes, 256, 16);
    setTiffField(bytes, 257, 16);
    expect(header(bytes)).toMatchObject({ width: 16, height: 16 });
    expect(await decodeError(bytes)).toMatchObject({ code: "media_corrupt" });
  });
});

describe("impossible headers", () => {
  test("more channels than a picture can have", () => {
    const bytes = new TextEncoder().encode("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 5\nMAXVAL 255\nENDHDR\n12345");
    expect(() => header(bytes)).toThrow(expect.objectContaining({ code: "media_unsupported" }));
  });

  test.each([
    ["gray.tiff", 258, 32],
    ["rgba.tiff", 277, 0],
    ["rgba.tiff", 277, 5],
  ])("%s whose field %d is %d", async (name, tag, value) => {
    const bytes = await media(name);
    setTiffField(bytes, tag, value);
    expect(() => header(bytes)).toThrow(expect.objectContaining({ code: "media_unsupported" }));
  });

  test("an AVIF whose boxes reach beyond the file", async () => {
    const bytes = (await media("rgb.avif")).subarray(0, 200);
    expect(() => header(bytes)).toThrow(expect.objectContaining({ code: "media_corrupt" }));
  });

  test("every beginning of a file gives a header or a coded error", async () => {
    const names = ["rgb_trns.png", "odd.jpg", "static.gif", "lossy_alpha.webp", "rgb.tiff", "big.tiff", "rgb.avif"];
    for (const name of [...names, "icon.ico", "rgb.bmp", "rgb.ppm", "rgb.qoi"]) {
      const bytes = await media(name);
      for (let length = 12; length < Math.min(bytes.length, 700); length++) {
        const cut = bytes.subarray(0, length);
        if (sniffMedia(cut).kind !== "image") continue;
        try {
          expect(header(cut).width).toBeGreaterThan(0);
        } catch (error) {
          expect(error).toBeInstanceOf(MediaError);
          expect(error).toMatchObject({ code: "media_corrupt" });
        }
      }
    }
  });

  test("a JPEG with a frame of no height, of 12 bits, or of two components", async () => {
    const bytes = await media("jpg420.jpg");
    const frame = Buffer.from(bytes).indexOf(Buffer.from([0xff, 0xc0]));
    const changed = (at: number, ...values: number[]) => {
      const copy = bytes.slice();
      copy.set(values, frame + at);
      return copy;
    };
    expect(() => header(changed(5, 0, 0))).toThrow(expect.objectContaining({ code: "media_corrupt" }));
    expect(() => header(changed(4, 12))).toThrow(expect.objectContaining({ code: "media_unsupported" }));
    expect(() => header(changed(9, 2))).toThrow(expect.objectContaining({ code: "media_unsupported" }));
  });

  test("a TIFF that states its width twice", async () => {
    const bytes = await media("rgb.tiff");
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const directory = view.getUint32(4, true);
    // The second entry, the height, becomes another width.
    expect(view.getUint16(directory + 14, true)).toBe(257);
    view.setUint16(directory + 14, 256, true);
    expect(() => header(bytes)).toThrow(expect.objectContaining({ code: "media_corrupt" }));
  });

  test("an AVIF box that is shorter than its own head", () => {
    const bytes = Uint8Array.from(Buffer.from("\0\0\0\x10ftypavif\0\0\0\0\0\0\0\x04meta", "latin1"));
    expect(() => header(bytes)).toThrow(expect.objectContaining({ code: "media_corrupt" }));
  });

  test("the pictures inside an ICO are judged by their own headers, not by the directory", async () => {
    const bytes = await media("icon.ico");
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const png = view.getUint32(6 + 12, true);
    view.setUint32(png + 16, 30000);
    expect(header(bytes)).toMatchObject({ width: 30000 });
  });
});

test("the first frame of a GIF is found with its own place and colours", async () => {
  expect(readGifFrame(await media("frame_inside.gif"))).toMatchObject({
    ...{ screenWidth: 4, screenHeight: 3, left: 1, top: 1, width: 2, height: 2 },
    ...{ transparentIndex: 2, isInterlaced: false },
  });
});
