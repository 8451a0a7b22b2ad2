import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { MediaDecoder, MediaDescriptor, MediaLoader } from "../../src/index.ts";
import { mediaBytes, mediaPath } from "../support/media.ts";
import { LOCAL, startMediaOrigin } from "../support/media_origin.ts";
import { answer, startOrigin } from "../support/origin.ts";
import { refusal } from "../support/refusal.ts";

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

describe("one file gives one hash, whichever way it comes", () => {
  test.each([1, 2, 3, 4, 5, 6, 7, 8])("with EXIF orientation %d, turned or not", async (value) => {
    await using decoder = await MediaDecoder.open({ ...LOCAL, decoders: { children: 1 } });
    using origin = await startMediaOrigin();
    const name = `orientation${value}.jpg`;
    const bytes = await mediaBytes(name);
    const ways = [
      origin.url(`/${name}`),
      `data:image/jpeg;base64,${base64(bytes)}`,
      { path: mediaPath(name) },
      bytes,
      { type: "image_url", image_url: { url: `data:;base64,${base64(bytes)}` } } as const,
    ];
    for (const auto_orient of [false, true]) {
      const shapes = new Set<string>();
      const hashes = new Set<string | null>();
      for (const way of ways) {
        using lease = await decoder.decode(way, { mediaIoKwargs: { image: { auto_orient } } });
        shapes.add(lease.media.info.shape.join());
        hashes.add(lease.media.contentHash);
      }
      expect(hashes.size).toBe(1);
      expect([...shapes]).toEqual([auto_orient && value >= 5 ? "61,43,3" : "43,61,3"]);
    }
  });

  test("in every form of a data URI", async () => {
    await using decoder = await MediaDecoder.open({ decoders: { children: 1 } });
    const bytes = await mediaBytes("rgb.png");
    const text = base64(bytes);
    const forms = [
      `data:image/png;base64,${text}`,
      `data:image/png;charset=utf-8;name=a.png;base64,${text}`,
      `DATA:IMAGE/PNG;BASE64,${text}`,
      `data:image/png;base64,${text.replace(/.{76}/g, "$&\r\n")}`,
      `data:image/png;base64,${text.replace(/=+$/, "")}`,
      `data:image/png;base64,${text.replaceAll("+", "-").replaceAll("/", "_")}`,
      `data:;base64,${text}`,
    ];
    const hashes = new Set<string | null>();
    for (const form of forms) {
      using lease = await decoder.decode(form);
      hashes.add(lease.media.contentHash);
    }
    using plain = await decoder.decode(bytes);
    expect([...hashes]).toEqual([plain.media.contentHash]);
  });

  test("a GIF that is called image/jpeg, by a data URI or by an origin, is a GIF", async () => {
    await using decoder = await MediaDecoder.open({ ...LOCAL, decoders: { children: 1 } });
    const bytes = await mediaBytes("static.gif");
    using origin = await startOrigin((socket) =>
      socket.end(answer(bytes, { headers: { "content-type": "image/jpeg" } })),
    );
    for (const way of [`data:image/jpeg;base64,${base64(bytes)}`, origin.url("/picture.jpg")]) {
      using lease = await decoder.decode(way);
      expect(lease.media.info.metadata).toEqual({ Image: { format: "Gif", color_type: "Rgba8", layout: "HWC" } });
    }
  });
});

describe("a request's image settings", () => {
  test("are part of what a decoded picture is kept under, in whichever way they are written", async () => {
    await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes: 2 ** 24 } });
    using origin = await startMediaOrigin();
    const load = (image: Record<string, unknown>) => loader.load(origin.url("/rgba.png"), { mediaIoKwargs: { image } });
    using plain = await load({});
    using white = await load({ channels: "rgb" });
    using whiteAgain = await load({ channels: "rgb", background: "#FFFFFF" });
    using red = await load({ channels: "rgb", background: [255, 0, 0] });
    using small = await load({ max_pixels: 100 });
    using plainAgain = await load({ auto_orient: false });
    expect([plain, white, red].map(({ shape }) => shape[2])).toEqual([4, 3, 3]);
    expect(new Set([plain, white, red, small].map(({ contentHash }) => contentHash)).size).toBe(4);
    expect(whiteAgain.nixlDescriptor).toEqual(white.nixlDescriptor);
    expect(plainAgain.nixlDescriptor).toEqual(plain.nixlDescriptor);
  });

  test("do not loosen the server's limits", async () => {
    await using decoder = await MediaDecoder.open({
      image: { limits: { max_image_width: 60 } },
      decoders: { children: 1 },
    });
    const bytes = await mediaBytes("rgb.png");
    const image = { max_pixels: 100, limits: { max_image_width: 10_000 } };
    expect(await refusal(decoder.decode(bytes, { mediaIoKwargs: { image } }))).toMatchObject({
      code: "limit_exceeded",
    });
  });

  test("that are misspelt or impossible are a client's error", async () => {
    await using decoder = await MediaDecoder.open({ decoders: { children: 1 } });
    const bytes = await mediaBytes("rgb.png");
    for (const image of [{ autoOrient: true }, { channels: "bgr" }, { background: "red" }, { max_pixels: -1 }]) {
      const error = await refusal(decoder.decode(bytes, { mediaIoKwargs: { image } }));
      expect(error).toMatchObject({ code: "invalid_options", status: 400 });
    }
  });

  test("that scaled a picture are told on the wire, behind the known keys, and read back", async () => {
    await using loader = await MediaLoader.create({ decoders: { children: 1 }, image: { max_pixels: 1000 } });
    using descriptor = await loader.load(await mediaBytes("odd.jpg"));
    const text = descriptor.toWire();
    expect(text).toContain('"color_type":"Rgb8","layout":"HWC","source_width":501,"source_height":333}');
    expect(MediaDescriptor.parse(text).metadata).toEqual(descriptor.metadata);
    using untouched = await loader.load(await mediaBytes("one.png"));
    expect(untouched.toWire()).toContain('"layout":"HWC"}');
  });
});

/** Memory of a process that nobody shares, bytes (proc(5), statm). */
function privateBytes(pid: number): number {
  const [, resident = 0, shared = 0] = readFileSync(`/proc/${pid}/statm`, "utf8").split(" ").map(Number);
  return (resident - shared) * 4096;
}

test("a decoder's memory levels off over many pictures of all formats and settings", async () => {
  await using decoder = await MediaDecoder.open({ decoders: { children: 1, recycleAboveBytes: 2 ** 40 } });
  const names = [
    "odd.jpg",
    "jpg_cmyk.jpg",
    "rgba16.png",
    "rgb.avif",
    "animated.gif",
    "pages.tiff",
    "lossy_alpha.webp",
    "line.png",
  ];
  const pictures = await Promise.all(names.map(mediaBytes));
  const settings = [
    {},
    { auto_orient: true, to_srgb: true, channels: "rgb" },
    { max_pixels: 500, channels: "rgba" },
    { max_pixels: 40_000 },
  ];
  const [pid = 0] = decoder.childPids;
  const round = async (): Promise<number> => {
    for (let at = 0; at < 800; at++) {
      const image = settings[at % settings.length];
      using _ = await decoder.decode(pictures[(at >> 2) % pictures.length] ?? new Uint8Array(), {
        mediaIoKwargs: { image },
      });
    }
    return privateBytes(pid);
  };
  const held = [await round(), await round(), await round(), await round()];
  expect(decoder.childPids).toEqual([pid]);
  // What one round leaves behind, if anything does, would be there in each of the rounds behind the first.
  expect(Math.min(...held.slice(2)) - (held[0] ?? 0)).toBeLessThan(48 * 2 ** 20);
}, 120_000);
