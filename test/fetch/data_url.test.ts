import { describe, expect, test } from "bun:test";
import { decodeDataUrl, isDataUrl } from "../../src/fetch/data_url.ts";

const BYTES = new Uint8Array([0xfb, 0xef, 0xff, 1, 2]);
const BASE64 = Buffer.from(BYTES).toString("base64"); // ++//AQI= : both special characters and padding
const decode = (url: string, limit = 1000) => Array.from(decodeDataUrl(url, limit));

describe("a data URL is decoded", () => {
  test.each([
    ["as it should be", `data:image/png;base64,${BASE64}`],
    ["with parameters before base64", `data:image/png;name=a.png;charset=utf-8;base64,${BASE64}`],
    ["in capitals", `DATA:IMAGE/PNG;BASE64,${BASE64}`],
    ["without a media type", `data:;base64,${BASE64}`],
    ["with line breaks and blanks", `data:image/png;base64,\r\n ${BASE64.slice(0, 3)}\n${BASE64.slice(3)}\n`],
    ["without padding", `data:image/png;base64,${BASE64.replace(/=/g, "")}`],
    ["in the URL-safe alphabet", `data:image/png;base64,${BASE64.replaceAll("+", "-").replaceAll("/", "_")}`],
    ["with percent escapes", `data:image/png;base64,${encodeURIComponent(BASE64)}`],
  ])("%s", (_, url) => {
    expect(decode(url)).toEqual(Array.from(BYTES));
  });
});

describe("a data URL is refused", () => {
  test.each([
    ["that is not base64", "data:text/plain,hello"],
    ["with other characters", "data:image/png;base64,not!!!base64!!!"],
    ["with padding in the middle", "data:image/png;base64,AA==AA=="],
    ["with a character too few", "data:image/png;base64,AAAAA"],
    ["without a comma", "data:image/png;base64"],
    ["with broken escapes", "data:image/png;base64,%zz"],
  ])("%s, and its data are not repeated", (_, url) => {
    let message = "";
    try {
      decodeDataUrl(url, 1000);
    } catch (error) {
      expect(error).toMatchObject({ code: "data_url_invalid", status: 400 });
      message = String(error);
    }
    expect(message).not.toBe("");
    expect(message).not.toContain("not!!!");
  });

  test("over the limit, which is exact", () => {
    expect(decode(`data:;base64,${BASE64}`, BYTES.length)).toHaveLength(BYTES.length);
    const refused = expect.objectContaining({ code: "media_too_large" });
    expect(() => decodeDataUrl(`data:;base64,${BASE64}`, BYTES.length - 1)).toThrow(refused);
    expect(() => decodeDataUrl(`data:;base64,${"!".repeat(1_000_000)}`, 1000)).toThrow(refused);
  });
});

test("the scheme is told in any case, and only at the beginning", () => {
  expect(isDataUrl("dAtA:,")).toBe(true);
  expect(isDataUrl("http://example.com/data:")).toBe(false);
});
