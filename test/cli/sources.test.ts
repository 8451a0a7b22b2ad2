import { describe, expect, test } from "bun:test";
import { sourceOf } from "../../src/cli/sources.ts";

describe("what is given on the command line", () => {
  test.each(["photo.jpg", "./http:photo", "/data/a.png", " a.png", "C:\\a", "data", "-", "https"])(
    "is a path: %s",
    (argument) => {
      expect(sourceOf(argument)).toEqual({ source: { path: argument }, label: argument });
    },
  );

  test.each([
    ["https://host/a/b.png", "https://host/a/b.png"],
    ["HTTP://Host:80/A", "http://host/A"],
    ["https://user:password@host/a?signature=secret#secret", "https://host/a…"],
    ["https://host/a#secret", "https://host/a"],
    ["file:///data/a%20b.png", "file:///data/a%20b.png"],
    ["FILE:/data/a", "file:///data/a"],
    ["http://user:password@[/a?secret", "http:…"],
    ["https:", "https:…"],
    ["s3://key:secret@bucket/a?secret", "s3://bucket/a…"],
    ["x-store.v1+tls://key:secret@bucket", "x-store.v1+tls://bucket"],
    [`https://host/${"a".repeat(200)}`, `https://host/${"a".repeat(187)}…`],
    ["data:image/png;base64,secret", "data:image/png;base64,…"],
    ["data:secret", "data:…"],
    [`data:${"a".repeat(100)},secret`, "data:…"],
  ])("is a URL, and named without what is long or may be secret: %s", (argument, label) => {
    expect(sourceOf(argument)).toEqual({ source: argument, label });
  });
});
