import { describe, expect, test } from "bun:test";
import { decodeDataUrl, isDataUrl } from "../../src/fetch/data_url.ts";
import { MediaFetcher } from "../../src/fetch/index.ts";
import { refusal } from "../support/refusal.ts";

const BYTES = new Uint8Array([0xfb, 0xef, 0xff, 1, 2]);
const BASE64 = Buffer.from(BYTES).toString("base64"); // ++//AQI= : both special characters and padding
/** More than one piece of text that is worked on at once, and no multiple of anything. */
const MANY = Buffer.from(Uint8Array.from({ length: 3 * 65_521 }, (_, i) => Math.imul(i, 0x9e3779b1) >>> 19));
const LIMIT = 16 * 1024 * 1024;
const decode = async (url: string, limit = LIMIT) => Buffer.from(await decodeDataUrl(url, limit));

describe("a data URL is decoded", () => {
  test.each([
    ["as it should be", `data:image/png;base64,${BASE64}`],
    ["with parameters before base64", `data:image/png;name=a.png;charset=utf-8;base64,${BASE64}`],
    ["in capitals", `DATA:IMAGE/PNG;BASE64,${BASE64}`],
    ["without a media type", `data:;base64,${BASE64}`],
    ["with line breaks and blanks", `data:image/png;base64,\r\n ${BASE64.slice(0, 3)}\n${BASE64.slice(3)}\n`],
    ["with white space that is not ASCII", `data:image/png;base64,\u00a0${BASE64.slice(0, 3)}\u2028${BASE64.slice(3)}`],
    ["without padding", `data:image/png;base64,${BASE64.replace(/=/g, "")}`],
    ["in the URL-safe alphabet", `data:image/png;base64,${BASE64.replaceAll("+", "-").replaceAll("/", "_")}`],
    ["in both alphabets", `data:image/png;base64,${BASE64.replace("+", "-").replace("/", "_")}`],
    ["with percent escapes", `data:image/png;base64,${encodeURIComponent(BASE64)}`],
  ])("%s", async (_, url) => {
    expect(await decode(url)).toEqual(Buffer.from(BYTES));
  });

  test("with a line break within its padding, and without any data", async () => {
    expect(await decode("data:image/png;base64,++//AQ=\r\n=")).toEqual(Buffer.from(BYTES.subarray(0, 4)));
    expect(await decode("data:image/png;base64,")).toHaveLength(0);
  });

  test("when it is long, in every spelling", async () => {
    const text = MANY.toString("base64");
    const spellings = [
      text,
      text.replace(/=+$/, ""),
      text.replace(/.{76}/g, "$&\r\n"),
      text.replaceAll("+", "-").replaceAll("/", "_"),
      encodeURIComponent(text),
      // Every character is an escape of three, and blanks are two bytes of UTF-8: wherever a piece ends, it is within one.
      Buffer.from(text, "latin1").toString("hex").replace(/../g, "%$&%C2%A0"),
    ];
    for (const spelling of spellings) {
      for (const shift of ["", "%20", " ", "\n\n"]) {
        expect((await decode(`data:;base64,${shift}${spelling}`)).equals(MANY)).toBe(true);
      }
    }
  });

  test("as Buffer does it, for every length of the last quantum and around every piece", async () => {
    for (let length = 0; length < 20; length++) {
      const bytes = MANY.subarray(0, length);
      expect(await decode(`data:;base64,${bytes.toString("base64")}`)).toEqual(bytes);
    }
    for (let characters = 65_530; characters < 65_545; characters++) {
      if (characters % 4 === 1) continue;
      const text = MANY.toString("base64").slice(0, characters);
      expect((await decode(`data:;base64,${text}`)).equals(Buffer.from(text, "base64"))).toBe(true);
    }
  });
});

describe("a data URL is refused", () => {
  test.each([
    ["that is not base64", "data:text/plain,hello"],
    ["with other characters", "data:image/png;base64,not!!!base64!!!"],
    ["with padding in the middle", "data:image/png;base64,AA==AA=="],
    ["with padding in the middle that fills its quantum", "data:image/png;base64,AAAAAA==AAAA"],
    ["with too much padding", "data:image/png;base64,AA==="],
    ["with padding alone, beyond two", "data:image/png;base64,==="],
    ["with a character too few", "data:image/png;base64,AAAAA"],
    ["with NUL", "data:image/png;base64,AAA\0"],
    ["with an escaped NUL", "data:image/png;base64,AAA%00"],
    ["with a character whose low byte is a letter", "data:image/png;base64,AAA\u0141"],
    ["with half a surrogate pair", "data:image/png;base64,AAA\ud83d"],
    ["without a comma", "data:image/png;base64"],
    ["with broken escapes", "data:image/png;base64,%zz"],
    ["with half an escape", "data:image/png;base64,AAAA%4"],
    ["with escapes that are no UTF-8", "data:image/png;base64,%A0AAAA"],
  ])("%s, and its data are not repeated", async (_, url) => {
    const refused = await refusal(decodeDataUrl(url, LIMIT));
    expect(refused).toMatchObject({ code: "data_url_invalid", status: 400 });
    expect(refused.message).not.toMatch(/not!!!|AAA|%/);
    expect(refused.cause instanceof Error ? refused.cause.message : "").not.toMatch(/not!!!|AAA/);
  });

  test("wherever one character of a long one is wrong", async () => {
    const text = MANY.toString("base64").replace(/=+$/, "");
    const places = [0, 1, 65_533, 65_534, 65_535, 65_536, 65_537, 131_071, 131_072, text.length - 1];
    for (const place of places) {
      for (const wrong of ["=", "!", "\0", "\u0141", "%g", "==", "%3D", "%C3%89"]) {
        const url = `data:;base64,${text.slice(0, place)}${wrong}${text.slice(place + 1)}`;
        // At the very end, padding is what it is.
        if (place === text.length - 1 && /^(=|%3D)/.test(wrong)) continue;
        expect(await refusal(decodeDataUrl(url, LIMIT))).toMatchObject({ code: "data_url_invalid" });
      }
    }
  });

  test("over the limit, which is exact", async () => {
    expect(await decode(`data:;base64,${BASE64}`, BYTES.length)).toHaveLength(BYTES.length);
    for (const url of [
      `data:;base64,${BASE64}`,
      `data:;base64,${encodeURIComponent(BASE64)}`,
      `data:;base64,${"!".repeat(1_000_000)}`,
      `data:;base64,${" ".repeat(1_000_000)}`,
    ]) {
      const refused = await refusal(decodeDataUrl(url, BYTES.length - 1));
      expect(refused).toMatchObject({ code: "media_too_large", status: 400 });
    }
    const long = `data:;base64,${MANY.toString("base64")}`;
    expect((await decode(long, MANY.length)).equals(MANY)).toBe(true);
    expect(await refusal(decodeDataUrl(long, MANY.length - 1))).toMatchObject({ code: "media_too_large" });
  });
});

describe("while data URLs are decoded", () => {
  const text = MANY.toString("base64").slice(0, 4 * 65_536);
  const url = `data:;base64,${text.repeat(16)}`;

  test("the event loop goes on, between any two pieces of however many", async () => {
    let finished = 0;
    let turns = 0;
    const turn = (): void => {
      turns += 1;
      if (finished < 4) setImmediate(turn);
    };
    setImmediate(turn);
    await Promise.all(Array.from({ length: 4 }, () => decodeDataUrl(url, LIMIT).then(() => (finished += 1))));
    // Text of 4 MiB is 64 pieces or more, each of which is looked at, then decoded.
    expect(turns).toBeGreaterThan(4 * 2 * 63);
  });

  test("a short one need not wait for the end of a long one", async () => {
    const order: string[] = [];
    await Promise.all([
      decodeDataUrl(url, LIMIT).then(() => order.push("long")),
      decodeDataUrl(`data:;base64,${BASE64}`, LIMIT).then(() => order.push("short")),
    ]);
    expect(order).toEqual(["short", "long"]);
  });

  test("the caller can give up, before and meanwhile", async () => {
    expect(await refusal(decodeDataUrl(url, LIMIT, AbortSignal.abort()))).toMatchObject({ code: "aborted" });
    const controller = new AbortController();
    const decoding = refusal(decodeDataUrl(url, LIMIT, controller.signal));
    setImmediate(() => setImmediate(() => controller.abort()));
    expect(await decoding).toMatchObject({ code: "aborted" });
    expect((await decode(url)).equals(Buffer.from(text.repeat(16), "base64"))).toBe(true); // the others' turns still come
  });
});

test("the scheme is told in any case, and only at the beginning", () => {
  expect(isDataUrl("dAtA:,")).toBe(true);
  expect(isDataUrl("http://example.com/data:")).toBe(false);
});

describe("several at the same time", () => {
  const large = `data:;base64,${"A".repeat(8 * 1024 * 1024)}`;
  const small = "data:;base64,QUJD";

  test("are decoded one behind the other", async () => {
    using fetcher = new MediaFetcher();
    const order: number[] = [];
    await Promise.all(
      [large, small, large, small].map((url, index) => fetcher.fetch(url).then(() => void order.push(index))),
    );
    expect(order).toEqual([0, 1, 2, 3]);
  });

  test("do not wait for one that is none or was given up", async () => {
    using fetcher = new MediaFetcher();
    const controller = new AbortController();
    const givenUp = refusal(fetcher.fetch(large, { signal: controller.signal }));
    const none = refusal(fetcher.fetch("data:;base64,!"));
    const good = fetcher.fetch(small);
    controller.abort();
    expect([(await givenUp).code, (await none).code]).toEqual(["aborted", "data_url_invalid"]);
    expect((await good).encoded.byteLength).toBe(3);
  });
});
