import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { fstatSync, readSync, writeSync } from "node:fs";
import zlib from "node:zlib";
import { type EncodedMedium, isEncodedFile } from "../../src/encoded.ts";
import { MediaFetcher } from "../../src/fetch/index.ts";
import { answer, INSIDE, redirect, sendEndlessly, startFixedOrigin, startOrigin } from "../support/origin.ts";
import { eventually, openDescriptors } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

const MEBIBYTE = 1024 * 1024;
const LIMITS = { max_image_bytes: MEBIBYTE, max_audio_bytes: 2 * MEBIBYTE, max_video_bytes: 40 * MEBIBYTE };
const fetcher = new MediaFetcher({ ...INSIDE, ...LIMITS });

const ENCODERS: Record<string, (bytes: Uint8Array) => Uint8Array> = {
  gzip: zlib.gzipSync,
  "x-gzip": zlib.gzipSync,
  GZip: zlib.gzipSync,
  deflate: zlib.deflateSync,
  br: zlib.brotliCompressSync,
  identity: (bytes) => bytes,
};

/** Bytes that do not repeat. */
function noise(byteLength: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  let state = 1;
  for (let i = 0; i < byteLength; i += 1) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    bytes[i] = state >> 16;
  }
  return bytes;
}

function bytesOf(encoded: EncodedMedium): Uint8Array {
  if (!isEncodedFile(encoded)) return encoded;
  const bytes = new Uint8Array(encoded.byteLength);
  expect(readSync(encoded.fd, bytes, 0, bytes.byteLength, 0)).toBe(bytes.byteLength);
  return bytes;
}

describe("a body", () => {
  test.each(Object.entries(ENCODERS))("in %s, which nobody asked for, is decoded", async (encoding, encode) => {
    const bytes = noise(300_000);
    using origin = await startFixedOrigin(answer(encode(bytes), { headers: { "content-encoding": encoding } }));
    const { encoded, sha256 } = await fetcher.fetch(origin.url(), { digest: true });
    expect(Buffer.compare(bytesOf(encoded), bytes)).toBe(0);
    expect(sha256).toBe(createHash("sha256").update(bytes).digest("hex"));
  });

  const packed = Object.entries(ENCODERS).filter(([name]) => name !== "identity"); // nothing says where that one ends
  test.each(packed)("in %s that is cut off by its connection has failed", async (encoding, encode) => {
    const cut = encode(noise(300_000)).subarray(0, -20);
    const headers = { "content-encoding": encoding, "content-length": null };
    using origin = await startFixedOrigin(answer(cut, { headers }));
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
  });

  test.each(["gzip", "deflate", "br"])("that is no %s, though it says so, has failed", async (encoding) => {
    using origin = await startFixedOrigin(answer(noise(1000), { headers: { "content-encoding": encoding } }));
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
  });

  test("in zstd has failed: that it is cut off would not be noticed", async () => {
    const whole = zlib.zstdCompressSync(noise(300_000));
    for (const bytes of [whole, whole.subarray(0, 200_000)]) {
      using origin = await startFixedOrigin(answer(bytes, { headers: { "content-encoding": "zstd" } }));
      expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    }
  });

  test.each(["compress", "gzip, gzip", "gzip, br", "constructor", "aws-chunked"])(
    "in %p has failed",
    async (encoding) => {
      using origin = await startFixedOrigin(answer("bytes", { headers: { "content-encoding": encoding } }));
      expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    },
  );

  test("of up to 16 MiB comes as bytes, a larger one as a sealed file that is its owner's", async () => {
    const before = openDescriptors();
    for (const headers of [{}, { "content-length": null }]) {
      const bytes = noise(16 * MEBIBYTE + 1);
      using small = await startFixedOrigin(answer(bytes.subarray(1), { headers }));
      const inMemory = await fetcher.fetch(small.url());
      expect(isEncodedFile(inMemory.encoded)).toBe(false);
      expect(Buffer.compare(bytesOf(inMemory.encoded), bytes.subarray(1))).toBe(0);
      using large = await startFixedOrigin(answer(bytes, { headers }));
      const { encoded, sha256 } = await fetcher.fetch(large.url(), { digest: true });
      if (!isEncodedFile(encoded)) throw new Error("it came as bytes");
      expect(Buffer.compare(bytesOf(encoded), bytes)).toBe(0);
      expect(Buffer.compare(encoded.start, bytes.subarray(0, 64 * 1024))).toBe(0);
      expect(sha256).toBe(createHash("sha256").update(bytes).digest("hex"));
      expect(() => writeSync(encoded.fd, "x", 0)).toThrow("EPERM");
      encoded.dispose();
      encoded.dispose();
      expect(() => fstatSync(encoded.fd)).toThrow("EBADF");
    }
    await eventually("all is closed", () => openDescriptors() === before);
  });

  test("does not hold more memory than it fills", async () => {
    using origin = await startFixedOrigin(answer(noise(70_000), { headers: { "content-length": null } }));
    const { encoded } = await fetcher.fetch(origin.url());
    expect(bytesOf(encoded).buffer.byteLength).toBeLessThan(100_000);
  });

  test("in small chunks is taken, in tiny ones refused: they cost more time than they carry", async () => {
    const headers = { "content-length": null, "transfer-encoding": "chunked" };
    const chunk = (size: number): string => `${size.toString(16)}\r\n${"x".repeat(size)}\r\n`;
    using lines = await startFixedOrigin(answer(`${chunk(100).repeat(50_000)}0\r\n\r\n`, { headers }));
    expect((await fetcher.fetch(lines.url())).encoded.byteLength).toBe(5_000_000);
    for (const size of [1, 8, 20]) {
      using tiny = await startOrigin((socket) => {
        socket.write(answer("", { headers }));
        sendEndlessly(socket, Buffer.from(chunk(size).repeat(1000)));
      });
      const error = await refusal(fetcher.fetch(tiny.url()));
      expect(error).toMatchObject({ code: "fetch_failed", message: expect.stringContaining("too small pieces") });
      await eventually("the connection is closed", () => tiny.open === 0);
    }
  });

  test.each([
    ["chunk extensions", "1;"],
    ["trailers", "1\r\na\r\n0\r\nx: "],
  ])("whose %s never end has failed", async (_, start) => {
    using origin = await startOrigin((socket) => {
      socket.write(answer(start, { headers: { "content-length": null, "transfer-encoding": "chunked" } }));
      sendEndlessly(socket, Buffer.alloc(65536, "x"));
    });
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    await eventually("the connection is closed", () => origin.open === 0);
  });

  test("that is longer than announced is what was announced", async () => {
    using origin = await startFixedOrigin(answer("bytes and more", { headers: { "content-length": 5 } }));
    expect(Buffer.from(bytesOf((await fetcher.fetch(origin.url())).encoded)).toString()).toBe("bytes");
  });
});

describe("the limit of a medium", () => {
  const KINDS = [
    ["image", MEBIBYTE],
    ["audio", 2 * MEBIBYTE],
    ["video", 40 * MEBIBYTE],
    [undefined, 40 * MEBIBYTE],
  ] as const;

  test.each(KINDS)("of kind %p holds for an endless body, also behind a redirect", async (kind, limit) => {
    const before = openDescriptors();
    let sent = 0;
    using origin = await startOrigin((socket, request) => {
      if (request.startsWith("GET / ")) {
        socket.end(redirect("/endless"));
        return;
      }
      socket.write(answer("", { headers: { "content-length": null, "transfer-encoding": "chunked" } }));
      socket.on("close", () => {
        sent = socket.bytesWritten;
      });
      sendEndlessly(socket, Buffer.from(`10000\r\n${"x".repeat(0x10000)}\r\n`));
    });
    const error = await refusal(fetcher.fetch(origin.url(), kind ? { kind } : {}));
    expect(error).toMatchObject({ code: "media_too_large", status: 400, message: expect.stringContaining(`${limit}`) });
    await eventually("the connection is closed", () => origin.open === 0 && sent > 0);
    expect(origin.connections).toBe(2);
    // What the kernel's buffers took is on top.
    expect(sent).toBeLessThan(limit + 32 * MEBIBYTE);
    await eventually("all is closed", () => openDescriptors() <= before + 1);
  });

  test("lets a body of exactly that size pass, and not one byte more", async () => {
    for (const headers of [{}, { "content-length": null }]) {
      using exact = await startFixedOrigin(answer(noise(MEBIBYTE), { headers }));
      expect((await fetcher.fetch(exact.url(), { kind: "image" })).encoded.byteLength).toBe(MEBIBYTE);
      using over = await startFixedOrigin(answer(noise(MEBIBYTE + 1), { headers }));
      expect(await refusal(fetcher.fetch(over.url(), { kind: "image" }))).toMatchObject({ code: "media_too_large" });
    }
  });

  test("is told from an announced length before anything of the body is there", async () => {
    using origin = await startOrigin((socket) => {
      socket.write(answer("", { headers: { "content-length": MEBIBYTE + 1 } }));
    });
    expect(await refusal(fetcher.fetch(origin.url(), { kind: "image" }))).toMatchObject({ code: "media_too_large" });
    await eventually("the connection is closed", () => origin.open === 0);
  });

  test.each(["gzip", "deflate", "br"])("holds for what %s unpacks to, and memory stays flat", async (encoding) => {
    const bomb = ENCODERS[encoding]?.(new Uint8Array(64 * MEBIBYTE)) ?? new Uint8Array();
    expect(bomb.byteLength).toBeLessThan(100_000);
    using origin = await startFixedOrigin(answer(bomb, { headers: { "content-encoding": encoding } }));
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    for (let i = 0; i < 5; i += 1) {
      expect(await refusal(fetcher.fetch(origin.url(), { kind: "image" }))).toMatchObject({
        code: "media_too_large",
      });
    }
    expect(process.memoryUsage.rss() - before).toBeLessThan(32 * MEBIBYTE);
  });

  test("holds for packed bytes too, whatever they unpack to", async () => {
    // Empty blocks: endless gzip that unpacks to nothing.
    using origin = await startOrigin((socket) => {
      socket.write(answer("", { headers: { "content-length": null, "content-encoding": "gzip" } }));
      socket.write(Buffer.from("1f8b0800000000000003", "hex"));
      sendEndlessly(socket, Buffer.from("000000ffff".repeat(10_000), "hex"));
    });
    expect(await refusal(fetcher.fetch(origin.url(), { kind: "image" }))).toMatchObject({ code: "media_too_large" });
  });
});

test("over-cap downloads, one after the other, leave neither memory nor descriptors nor connections", async () => {
  using origin = await startOrigin((socket) => {
    socket.write(answer("", { headers: { "content-length": null } }));
    sendEndlessly(socket, new Uint8Array(65536));
  });
  const once = async (kind: "image" | "video"): Promise<void> => {
    expect(await refusal(fetcher.fetch(origin.url(), { kind }))).toMatchObject({ code: "media_too_large" });
  };
  for (let i = 0; i < 10; i += 1) await once("image");
  await once("video");
  await eventually("all connections are closed", () => origin.open === 0);
  Bun.gc(true);
  const [memory, descriptors] = [process.memoryUsage.rss(), openDescriptors()];
  for (let i = 0; i < 50; i += 1) await once(i % 10 === 0 ? "video" : "image");
  await eventually("all connections are closed", () => origin.open === 0);
  await eventually("all is closed", () => openDescriptors() <= descriptors);
  Bun.gc(true);
  expect(process.memoryUsage.rss() - memory).toBeLessThan(48 * MEBIBYTE);
});
