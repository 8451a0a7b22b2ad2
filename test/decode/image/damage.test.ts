import { describe, expect, test } from "bun:test";
import sharp from "sharp";
import { MediaError } from "../../../src/errors.ts";
import { decode, decodeError, media, soundImages } from "../../support/images.ts";

const SOUND = [
  ...(await soundImages()),
  "rgb.avif",
  "rgba.avif",
  "ten_bit.avif",
  "palette.tiff",
  "big.tiff",
  "jpeg.tiff",
  "dxt1.dds",
  "dxt5.dds",
];

/** The content hash, or null for a coded error; anything else that is thrown fails the test. */
async function hashOrNull(encoded: Uint8Array): Promise<string | null> {
  try {
    return (await decode(encoded)).tensor.contentHash;
  } catch (error) {
    if (error instanceof MediaError && error.status === 400) return null;
    throw error;
  }
}

/** Numbers in [0, 1) that are the same on every run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

describe("damaged images are refused with a code", () => {
  test.each([
    ["bad_empty.png", "media_empty"],
    ["bad_text.jpg", "media_unsupported"],
    ["bad_vector.svg", "media_unsupported"],
    ["rgb.tga", "media_unsupported"],
    ["bad_header_only.jpg", "media_corrupt"],
    ["bad_truncated.jpg", "media_corrupt"],
    ["bad_tail128.jpg", "media_corrupt"],
    ["bad_truncated.png", "media_corrupt"],
    ["bad_crc.png", "media_corrupt"],
    ["bad_zero_width.png", "media_corrupt"],
    ["frame_data_short.gif", "media_corrupt"],
    ["h264.mp4", "media_unsupported"],
  ] as const)("%s: %s", async (name, code) => {
    const error = await decodeError(await media(name));
    expect(error.code).toBe(code);
    expect(error.message.length).toBeLessThan(300);
    expect(error.message).not.toContain("\n");
  });

  test("zeros in the middle of a JPEG's scan", async () => {
    const bytes = (await media("odd.jpg")).fill(0, 10000, 10064);
    expect(await decodeError(bytes)).toMatchObject({ code: "media_corrupt" });
  });

  test("a CMYK JPEG that is cut short, though its decoder would fill up the rest", async () => {
    const bytes = await media("jpg_cmyk.jpg");
    expect(await decodeError(bytes.subarray(0, bytes.length / 2))).toMatchObject({ code: "media_corrupt" });
  });

  test.each([
    ["#?RADIANCE\n", "Hdr"],
    ["\x76\x2f\x31\x01\x02\0\0\0", "OpenExr"],
    ["<svg/>", "SVG"],
    ["%PDF-1.7", "PDF"],
    ["<html>", "HTML"],
    ["8BPS\0\x01", "PSD"],
    ["\xff\x0a\0", "JPEG XL"],
    ["%!PS-Adobe", "PostScript"],
  ])("%j is recognised but not decoded, and refused by name", async (text, name) => {
    const error = await decodeError(Uint8Array.from(text, (character) => character.charCodeAt(0)));
    expect(error).toMatchObject({ code: "media_unsupported", message: expect.stringContaining(name) });
  });

  test("messages do not repeat what the file says", async () => {
    const error = await decodeError(new TextEncoder().encode('P3 2 2 255\n1 2 "secret" secret'));
    expect(error.code).toBe("media_corrupt");
    expect(error.message).not.toContain("secret");
  });
});

describe("never a picture whose tail is missing", () => {
  test.each(SOUND)("%s, cut anywhere: an error, or the whole picture", async (name) => {
    const bytes = await media(name);
    const whole = await hashOrNull(bytes);
    expect(whole).not.toBeNull();
    // The last 12 bytes one by one, then evenly over the file.
    const cuts = Array.from({ length: 36 }, (_, index) =>
      index < 12 ? bytes.length - 1 - index : Math.floor((bytes.length * (index - 12)) / 24),
    );
    for (const cut of cuts) {
      const hash = await hashOrNull(bytes.slice(0, cut));
      if (hash !== null) expect({ cut, hash }).toEqual({ cut, hash: whole ?? "" });
    }
  });

  test("half of every single picture is refused", async () => {
    const severalPictures = ["animated.gif", "animated.webp", "pages.tiff"];
    for (const name of SOUND.filter((candidate) => !severalPictures.includes(candidate))) {
      const bytes = await media(name);
      expect([name, await hashOrNull(bytes.slice(0, bytes.length / 2))]).toEqual([name, null]);
    }
  });
});

test("changed bytes give a picture or a coded error, never anything else", async () => {
  const random = numbers(1);
  for (const name of SOUND) {
    const bytes = await media(name);
    for (let round = 0; round < 8; round++) {
      const changed = bytes.slice();
      // Half of the changes go into the header.
      const range = round % 2 === 0 ? Math.min(200, bytes.length) : bytes.length;
      for (let change = 0; change < 3; change++) changed[Math.floor(random() * range)] = Math.floor(random() * 256);
      await hashOrNull(changed);
    }
  }
});

test("random bytes behind a signature end in a picture or a coded error, random bytes alone in an error", async () => {
  const random = numbers(2);
  for (const name of SOUND) {
    const bytes = (await media(name)).slice(0, 4000);
    for (let at = 12; at < bytes.length; at++) bytes[at] = Math.floor(random() * 256);
    await hashOrNull(bytes);
    expect(await hashOrNull(crypto.getRandomValues(new Uint8Array(1000)))).toBeNull();
  }
});

test("after the first decode sharp itself can open nothing but JPEG, TIFF and WebP", async () => {
  await decode(await media("odd.jpg"));
  for (const name of ["bad_vector.svg", "rgb.png", "static.gif", "rgb.avif"]) {
    await expect(
      sharp(await media(name))
        .raw()
        .toBuffer(),
    ).rejects.toThrow("unsupported");
  }
});
