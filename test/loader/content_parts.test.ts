import { describe, expect, test } from "bun:test";
import {
  isMediaPart,
  mediaPartsOf,
  parseChatRequest,
  parseMediaPart,
  withoutInlineMedia,
} from "../../src/loader/content_parts.ts";
import { refusal } from "../support/refusal.ts";

const URL_TEXT = "https://example.com/a";
const TYPES = [
  ["image_url", "image"],
  ["video_url", "video"],
  ["audio_url", "audio"],
] as const;

/** The coded error that parsing a part ends with. */
function refused(part: unknown) {
  return refusal((async () => parseMediaPart(part))());
}

describe.each(TYPES)("a part of type %s", (type, kind) => {
  test("carries its URL as a text or within an object", () => {
    const expected = { type, kind, url: URL_TEXT, uuid: null };
    expect(parseMediaPart({ type, [type]: URL_TEXT })).toEqual(expected);
    expect(parseMediaPart({ type, [type]: { url: URL_TEXT } })).toEqual(expected);
    expect(parseMediaPart({ type, [type]: { url: URL_TEXT, detail: "high", any: [1] }, cache: true })).toEqual(
      expected,
    );
  });

  test("may have a name beside the URL or in place of it, in the part or within the object", () => {
    const named = { type, kind, uuid: "mine" };
    expect(parseMediaPart({ type, [type]: URL_TEXT, uuid: "mine" })).toEqual({ ...named, url: URL_TEXT });
    expect(parseMediaPart({ type, [type]: { url: URL_TEXT, uuid: "mine" } })).toEqual({ ...named, url: URL_TEXT });
    for (const part of [
      { type, uuid: "mine" },
      { type, [type]: null, uuid: "mine" },
      { type, [type]: "", uuid: "mine" },
      { type, [type]: { url: null }, uuid: "mine" },
      { type, [type]: { url: "", uuid: "mine" } },
      { type, [type]: { uuid: "mine" } },
    ]) {
      expect(parseMediaPart(part)).toEqual({ ...named, url: null });
    }
  });

  test("has the name in the part when there are two", () => {
    expect(parseMediaPart({ type, [type]: { url: URL_TEXT, uuid: "inner" }, uuid: "outer" }).uuid).toBe("outer");
    expect(parseMediaPart({ type, [type]: { url: URL_TEXT, uuid: "inner" }, uuid: null }).uuid).toBe("inner");
  });

  test("with neither URL nor name is refused, saying so", async () => {
    for (const part of [{ type }, { type, [type]: {} }, { type, [type]: null, uuid: null }, { type, [type]: "" }]) {
      const error = await refused(part);
      expect(error).toMatchObject({ code: "request_invalid", status: 400 });
      expect(error.message).toBe(`A part of type ${type} has neither a URL nor a uuid`);
    }
  });

  test("does not take the URL of another type", async () => {
    const other = type === "image_url" ? "video_url" : "image_url";
    expect(await refused({ type, [other]: { url: URL_TEXT } })).toMatchObject({ code: "request_invalid" });
  });

  test.each([
    ["a number for a URL", { [type]: 5 }],
    ["a list for a URL", { [type]: [URL_TEXT] }],
    ["a URL that is a list", { [type]: { url: [URL_TEXT] } }],
    ["a name that is a number", { [type]: URL_TEXT, uuid: 5 }],
    ["an empty name", { [type]: URL_TEXT, uuid: "" }],
    ["an endless name", { [type]: URL_TEXT, uuid: "x".repeat(1001) }],
    ["a name within the object that is an object", { [type]: { url: URL_TEXT, uuid: {} } }],
  ])("is refused with %s", async (_, fields) => {
    expect(await refused({ type, ...fields })).toMatchObject({ code: "request_invalid", status: 400 });
  });
});

test("what is refused is not repeated", async () => {
  const secret = `data:image/png;base64,${"QUJD".repeat(300)}`;
  for (const part of [
    { type: "image_url", image_url: { url: [secret] } },
    { type: "image_url", image_url: { url: secret }, uuid: secret },
    { type: "image_url", image_url: [secret], [secret]: secret },
  ]) {
    const { message } = await refused(part);
    expect(message).not.toContain("QUJD");
    expect(message.length).toBeLessThan(500);
  }
});

test.each([
  [null],
  [undefined],
  ["image_url"],
  [5],
  [[]],
  [{}],
  [{ type: "text", text: "hello" }],
  [{ type: "IMAGE_URL", image_url: URL_TEXT }],
  [{ type: "toString" }],
  [{ type: "__proto__" }],
  [{ type: ["image_url"] }],
])("%p is no media part", (part) => {
  expect(isMediaPart(part)).toBe(false);
});

describe("a chat request", () => {
  test("has the media of all messages, of any role, in their order", () => {
    const request = parseChatRequest({
      model: "any",
      messages: [
        { role: "system", content: "text" },
        {
          role: "user",
          content: [
            { type: "image_url", image_url: "https://a/1" },
            { type: "text", text: "and" },
          ],
        },
        { role: "assistant", content: null },
        { role: "assistant" },
        { role: "tool", content: [{ type: "video_url", video_url: { url: "https://a/2" } }, { type: "later" }, null] },
        {
          content: [
            { type: "audio_url", audio_url: "https://a/3" },
            { type: "image_url", uuid: "four" },
          ],
        },
      ],
    });
    expect(mediaPartsOf(request, 4).map(({ type, url, uuid }) => [type, url ?? uuid])).toEqual([
      ["image_url", "https://a/1"],
      ["video_url", "https://a/2"],
      ["audio_url", "https://a/3"],
      ["image_url", "four"],
    ]);
  });

  test("has none when its messages are text", () => {
    for (const messages of [[], [{ role: "user", content: "image_url" }], [{ content: {} }], [{ content: 5 }]]) {
      expect(mediaPartsOf(parseChatRequest({ messages }), 0)).toEqual([]);
    }
  });

  test("with more media than may be is refused before any is looked at, however many messages they are in", async () => {
    const messages = [1, 2].map(() => ({ content: [{ type: "image_url" }, { type: "text" }, { type: "video_url" }] }));
    const error = await refusal((async () => mediaPartsOf({ messages }, 3))());
    expect(error).toMatchObject({ code: "request_invalid", status: 400 });
    expect(error.message).toBe("The request has 4 media: at most 3 are taken");
  });

  test.each([[null], [undefined], ["text"], [[]], [{}], [{ messages: {} }], [{ messages: [5] }], [{ messages: [[]] }]])(
    "is refused when it is %p",
    async (request) => {
      const error = await refusal((async () => parseChatRequest(request))());
      expect(error).toMatchObject({ code: "request_invalid", status: 400 });
    },
  );
});

describe("inline media", () => {
  const inline = "data:image/png;base64,QUJD";

  test("are taken out wherever a URL may stand, and nothing else is", () => {
    const parts = (text: string) => [
      { type: "image_url", image_url: text },
      { type: "video_url", video_url: { url: text, detail: "low" }, uuid: "mine" },
      { type: "audio_url", audio_url: { url: text } },
    ];
    const others = [
      { type: "text", text: inline },
      { type: "image_url", image_url: { url: URL_TEXT } },
      { type: "image_url", image_url: { uuid: "mine" } },
      { type: "image_url", uuid: "mine" },
      null,
    ];
    const before = [{ role: "user", name: "A", content: [...parts(inline), ...others] }, { content: inline }];
    const copy = structuredClone(before);
    expect(withoutInlineMedia(before)).toEqual([
      { role: "user", name: "A", content: [...parts(""), ...others] },
      { content: inline },
    ]);
    expect(before).toEqual(copy);
  });

  test("are taken out under names that the part's type does not use, too", () => {
    const part = {
      type: "image_url",
      image_url: null,
      video_url: { url: inline, x: 1 },
      audio_url: inline,
      uuid: "mine",
    };
    const [message] = withoutInlineMedia([{ content: [part] }]);
    expect(message?.content).toEqual([{ ...part, video_url: { url: "", x: 1 }, audio_url: "" }]);
  });

  test.each([["DATA:image/png;base64,QUJD"], [" \n\tdata:,x"], ["Data:;base64,"]])("are seen in %p too", (url) => {
    const [message] = withoutInlineMedia([{ content: [{ type: "image_url", image_url: { url } }] }]);
    expect(message?.content).toEqual([{ type: "image_url", image_url: { url: "" } }]);
  });
});
