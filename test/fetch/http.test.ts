import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { closeSync, openSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { isEncodedFile } from "../../src/encoded.ts";
import { type FetchedMedium, MediaFetcher } from "../../src/fetch/index.ts";
import {
  answer,
  INSIDE,
  type Origin,
  redirect,
  sendEndlessly,
  startFixedOrigin,
  startOrigin,
} from "../support/origin.ts";
import { eventually } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

const fetcher = new MediaFetcher(INSIDE);

function textOf({ encoded }: FetchedMedium): string {
  if (isEncodedFile(encoded)) throw new Error("it came as a file");
  return Buffer.from(encoded).toString();
}

/** What fetching an origin's fixed answer is refused with; the origin has been asked once, and let go of. */
async function refusalOf(bytes: Uint8Array, path = "/secret?secret") {
  using origin = await startFixedOrigin(bytes);
  const error = await refusal(fetcher.fetch(origin.url(path)));
  expect(error.message).not.toContain("secret");
  expect(origin.connections).toBe(1);
  await eventually("the connection is closed", () => origin.open === 0);
  return error;
}

describe("a medium over HTTP", () => {
  test("comes with its digest and with what a cache may want to know", async () => {
    const headers = {
      etag: '"tag"',
      "cache-control": "max-age=60",
      "set-cookie": "session=secret",
      "www-authenticate": "Basic realm=secret",
      "x-secret": "secret",
    };
    using origin = await startFixedOrigin(answer("bytes", { headers }));
    const medium = await fetcher.fetch(origin.url("/a?b"), { digest: true, kind: "image" });
    expect(textOf(medium)).toBe("bytes");
    expect(medium.sha256).toBe(createHash("sha256").update("bytes").digest("hex"));
    expect(medium.response).toEqual({
      url: origin.url("/a?b"),
      status: 200,
      headers: { etag: '"tag"', "cache-control": "max-age=60", "content-length": "5", "set-cookie": "(withheld)" },
      redirects: [],
    });
    await eventually("the connection is closed", () => origin.open === 0);
    expect(fetcher.activity).toEqual({ active: 0, waiting: 0 });
  });

  test("is asked for with nothing but what is needed", async () => {
    using origin = await startFixedOrigin(answer("bytes"));
    await fetcher.fetch(`${origin.url("/a%20b/../c?d=e&f")}#fragment`);
    expect(origin.requests).toEqual([
      [
        "GET /c?d=e&f HTTP/1.1",
        `host: 127.0.0.1:${origin.port}`,
        "user-agent: dynamo-ai/dynamo",
        "accept: */*",
        "accept-encoding: identity",
        "connection: close",
        "\r\n",
      ].join("\r\n"),
    ]);
  });

  test("has no digest when none was asked for, and no response when it did not come over HTTP", async () => {
    using origin = await startFixedOrigin(answer("bytes"));
    expect((await fetcher.fetch(origin.url())).sha256).toBeNull();
    const bytes = await fetcher.fetch(Buffer.from("bytes"), { digest: true });
    expect(bytes).toMatchObject({ sha256: createHash("sha256").update("bytes").digest("hex"), response: null });
    const url = await fetcher.fetch("data:;base64,Ynl0ZXM=", { digest: true });
    expect(url).toMatchObject({ sha256: bytes.sha256, response: null });
  });

  test("whose copy is current is not sent again", async () => {
    using origin = await startOrigin((socket, request) =>
      socket.end(request.includes('if-none-match: "tag"') ? answer("", { status: 304 }) : answer("new")),
    );
    const same = await fetcher.fetch(origin.url(), { validators: { etag: '"tag"', lastModified: "yesterday" } });
    expect(same).toMatchObject({ notModified: true, response: { status: 304 } });
    expect(origin.requests[0]).toContain("if-modified-since: yesterday");
    const other = await fetcher.fetch(origin.url(), { validators: { etag: '"other"' } });
    expect(other).toMatchObject({ notModified: false, response: { status: 200 } });
    const smuggled = fetcher.fetch(origin.url(), { validators: { etag: '"a"\r\nx: y' } });
    expect(await refusal(smuggled)).toMatchObject({ code: "invalid_options" });
    expect(origin.connections).toBe(2);
  });

  test("may lack a length and end with its connection, or come in pieces after interim answers", async () => {
    expect(textOf(await fetched(answer("bytes", { headers: { "content-length": null } })))).toBe("bytes");
    const chunks = "4\r\nbyte\r\n1\r\ns\r\n0\r\n\r\n";
    const chunked = answer(chunks, { headers: { "content-length": null, "transfer-encoding": "chunked" } });
    expect(textOf(await fetched(Buffer.concat([Buffer.from("HTTP/1.1 103 Early\r\n\r\n"), chunked])))).toBe("bytes");
  });

  async function fetched(bytes: Uint8Array): Promise<FetchedMedium> {
    using origin = await startFixedOrigin(bytes);
    return await fetcher.fetch(origin.url());
  }
});

describe("an origin that", () => {
  test.each([400, 401, 403, 404, 410, 416, 429, 500, 503, 599, 300, 304, 206])(
    "answers with status %d is named with it, as the client's fault, and not asked again",
    async (status) => {
      const error = await refusalOf(answer("no", { status }));
      expect(error).toMatchObject({ code: "origin_refused", status: 400, retryable: false });
      expect(error.message).toContain(`${status}`);
    },
  );

  test.each([
    ["closes at once", Buffer.alloc(0)],
    ["talks something else", Buffer.from("SSH-2.0-x\r\n\r\n")],
    ["has an endless header field", answer("x", { headers: { x: "x".repeat(20_000) } })],
    [
      "has a long header",
      answer("x", { headers: Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`x-${i}`, i])) }),
    ],
    ["contradicts itself about lengths", answer("x", { headers: { "transfer-encoding": "chunked" } })],
    ["closes before the end that it announced", answer("bytes", { headers: { "content-length": 10 } })],
    [
      "closes within a chunk",
      answer("5\r\nby", { headers: { "content-length": null, "transfer-encoding": "chunked" } }),
    ],
    [
      "closes before the last chunk",
      answer("1\r\nb\r\n", { headers: { "content-length": null, "transfer-encoding": "chunked" } }),
    ],
    ["switches protocols", Buffer.from("HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")],
  ])("%s has failed", async (_, bytes) => {
    expect(await refusalOf(bytes)).toMatchObject({ code: "fetch_failed", status: 400, retryable: true });
  });

  test("says again and again that its answer is coming has failed", async () => {
    using origin = await startOrigin((socket) => sendEndlessly(socket, Buffer.from("HTTP/1.1 103 Early\r\n\r\n")));
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    await eventually("the connection is closed", () => origin.open === 0);
  });

  test("resets the connection in the middle has failed", async () => {
    using origin = await startOrigin((socket) => {
      socket.write(answer("bytes", { headers: { "content-length": 10 } }), () => socket.resetAndDestroy());
    });
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    expect(origin.connections).toBe(1);
  });

  test.each([
    ["plain", {}, Buffer.alloc(300_000, "x")],
    ["packed, which is whole", { "content-encoding": "gzip" }, gzipSync("bytes")],
    ["in a transfer coding of no meaning", { "transfer-encoding": "identity" }, Buffer.from("bytes")],
  ])("resets the connection after an answer without a length, %s, has failed", async (_, headers, body) => {
    using origin = await startOrigin((socket) => {
      const whole = answer(body, { headers: { "content-length": null, ...headers } });
      socket.write(whole, () => setTimeout(() => socket.resetAndDestroy(), 50)); // when it has been read
    });
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    await eventually("the connection is closed", () => origin.open === 0);
  });

  test("resets the connection after an answer that said its length, and was whole, has given it", async () => {
    using origin = await startOrigin((socket) => {
      socket.write(answer("bytes"), () => setTimeout(() => socket.resetAndDestroy(), 50));
    });
    expect(textOf(await fetcher.fetch(origin.url()))).toBe("bytes");
  });

  test.each(["gzip, chunked", "gzip", "xchunked"])(
    "sends its content in the transfer coding %p has failed",
    async (coding) => {
      const headers = { "content-length": null, "transfer-encoding": coding };
      expect(await refusalOf(answer("5\r\nbytes\r\n0\r\n\r\n", { headers }))).toMatchObject({ code: "fetch_failed" });
    },
  );

  test("sends blank lines and no answer has failed, soon", async () => {
    using origin = await startOrigin((socket) => sendEndlessly(socket, Buffer.from("\r\n".repeat(1000))));
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({
      code: "fetch_failed",
      message: expect.stringContaining("its header is too long"),
    });
    await eventually("the connection is closed", () => origin.open === 0);
  });

  test.each([
    ["with 200", answer("")],
    ["with 204", answer("", { status: 204 })],
    ["without a length", answer("", { headers: { "content-length": null } })],
  ])("has nothing, %s, has no medium", async (_, bytes) => {
    expect(await refusalOf(bytes)).toMatchObject({ code: "media_empty", status: 400 });
  });

  test("does not listen, or has no name, cannot be fetched from", async () => {
    const closed = await startFixedOrigin(answer("x"));
    closed[Symbol.dispose]();
    expect(await refusal(fetcher.fetch(closed.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    const unknown = await refusal(new MediaFetcher().fetch("http://name.invalid/secret"));
    expect(unknown).toMatchObject({ code: "fetch_failed", status: 400, message: "The name name.invalid is not found" });
  });
});

describe("redirects", () => {
  /** Redirects `/0` to `/1` and so on until `/last`, which is a medium. */
  function startChain(last: number, status = 302): Promise<Origin> {
    return startOrigin((socket, request) => {
      const at = Number(/^GET \/(\d+)/.exec(request)?.[1]);
      socket.end(at === last ? answer("bytes") : redirect(`${at + 1}`, status));
    });
  }

  test.each([301, 302, 303, 307, 308])("with status %d are followed three times, and no more", async (status) => {
    using three = await startChain(3, status);
    const medium = await fetcher.fetch(three.url("/0"));
    expect(textOf(medium)).toBe("bytes");
    expect(medium.response?.url).toBe(three.url("/3"));
    expect(medium.response?.redirects.map((hop) => [hop.url, hop.status])).toEqual(
      [0, 1, 2].map((at) => [three.url(`/${at}`), status]),
    );
    using four = await startChain(4, status);
    expect(await refusal(fetcher.fetch(four.url("/0")))).toMatchObject({ code: "redirect_refused", status: 400 });
    expect(four.connections).toBe(4);
  });

  test("in a circle end", async () => {
    using origin = await startFixedOrigin(redirect("/again"));
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "redirect_refused" });
    expect(origin.connections).toBe(4);
  });

  test("carry neither a referrer nor cookies to where they lead", async () => {
    using target = await startFixedOrigin(answer("bytes"));
    using origin = await startFixedOrigin(
      answer("", { status: 302, headers: { location: target.url("/a"), "set-cookie": "a=b" } }),
    );
    await fetcher.fetch(origin.url("/secret"));
    expect(target.requests[0]).toStartWith(`GET /a HTTP/1.1\r\nhost: 127.0.0.1:${target.port}\r\nuser-agent:`);
    expect(target.requests[0]).not.toMatch(/referer|cookie|authorization|secret/i);
  });

  test("to what is no URL, or is not HTTP, are refused", async () => {
    for (const location of [
      "http://",
      "http://[",
      "file:///etc/passwd",
      "data:image/png;base64,AAAA",
      "ftp://a/",
      "",
    ]) {
      using origin = await startFixedOrigin(redirect(location));
      const error = await refusal(fetcher.fetch(origin.url()));
      expect(error.code).toBe("redirect_refused");
    }
  });
});

test("a machine that is out of descriptors blames itself, not the origin", async () => {
  using origin = await startFixedOrigin(answer("bytes"));
  const url = origin.url();
  const descriptors: number[] = [];
  const outcomes = [];
  try {
    for (;;) descriptors.push(openSync("/dev/null", "r"));
  } catch {
    outcomes.push(await refusal(fetcher.fetch(url)), await refusal(fetcher.fetch("http://name.invalid/")));
  } finally {
    for (const fd of descriptors) closeSync(fd);
  }
  for (const error of outcomes) expect(error).toMatchObject({ code: "system_failed", status: 500 });
  expect(textOf(await fetcher.fetch(url))).toBe("bytes");
});
