import { describe, expect, test } from "bun:test";
import { MediaLoader, type MediaLoaderOptions } from "../../src/index.ts";
import { mediaBytes } from "../support/media.ts";
import { LOCAL, pathOf } from "../support/media_origin.ts";
import { answer, redirect, startOrigin } from "../support/origin.ts";
import { refusal } from "../support/refusal.ts";
import references from "../vectors/media.json" with { type: "json" };

const HONOURED: MediaLoaderOptions = { ...LOCAL, cache: { bytes: 2 ** 24, freshness: "http" } };
const red = await mediaBytes("rgb.png");
const photo = await mediaBytes("odd.jpg");
/** Header fields of what is to be asked about each time. */
const NO_CACHE = (etag: string) => ({ etag, "cache-control": "no-cache" });

/** Loads a URL so many times, one after the other; gives the shapes that came. */
async function loadInTurn(loader: MediaLoader, url: string, times: number): Promise<(number | undefined)[]> {
  const heights: (number | undefined)[] = [];
  for (let index = 0; index < times; index++) {
    using descriptor = await loader.load(url);
    heights.push(descriptor.shape[0]);
  }
  return heights;
}

test("a URL is good until it is evicted when HTTP is not to be honoured", async () => {
  await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes: 2 ** 24 } });
  using origin = await startOrigin((socket) => socket.end(answer(red, { headers: { "cache-control": "no-store" } })));
  await loadInTurn(loader, origin.url(), 3);
  expect(origin.requests.length).toBe(1);
});

describe("when HTTP is honoured", () => {
  test.each([
    ["max-age=60", 1],
    ["public, max-age=60, immutable", 1],
    ["s-maxage=60, max-age=0", 1],
    ["no-store", 3],
    ["private, max-age=60", 3],
    ["max-age=0", 3],
  ])("Cache-Control: %s means %d requests for three loads", async (control, requests) => {
    await using loader = await MediaLoader.create(HONOURED);
    using origin = await startOrigin((socket) => socket.end(answer(red, { headers: { "cache-control": control } })));
    await loadInTurn(loader, origin.url(), 3);
    expect(origin.requests.length).toBe(requests);
    expect(loader.stats.cache.misses).toBe(1); // the bytes are the same
  });

  test.each(['"v1"', 'W/"v1"', '"with\ttab"', '"caf\u00e9"', "without quotes"])(
    "an origin is asked with the ETag that it gave, and what is current is not decoded again: %j",
    async (etag) => {
      await using loader = await MediaLoader.create(HONOURED);
      const headers = { etag, "cache-control": "no-cache" };
      using origin = await startOrigin((socket, request) => {
        const isCurrent = request.toLowerCase().includes(`if-none-match: ${etag}\r\n`.toLowerCase());
        socket.end(isCurrent ? answer("", { status: 304, headers }) : answer(red, { headers }));
      });
      await loadInTurn(loader, origin.url(), 3);
      expect(origin.requests.map((request) => /if-none-match/i.test(request))).toEqual([false, true, true]);
      expect(loader.stats.cache).toMatchObject({ misses: 1, hits: 2, revalidated: 2 });
    },
  );

  test("a 304 that says for how long makes the copy fresh again", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    using origin = await startOrigin((socket, request) => {
      const isAsked = /if-none-match/i.test(request);
      const control = isAsked ? "max-age=60" : "no-cache";
      socket.end(
        answer(isAsked ? "" : red, { status: isAsked ? 304 : 200, headers: { etag: '"v"', "cache-control": control } }),
      );
    });
    await loadInTurn(loader, origin.url(), 4);
    expect(origin.requests.length).toBe(2);
  });

  test("a picture that has changed is loaded anew", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    let version = 0;
    using origin = await startOrigin((socket) => {
      version += 1;
      socket.end(
        answer(version === 1 ? red : photo, { headers: { etag: `"${version}"`, "cache-control": "no-cache" } }),
      );
    });
    expect(await loadInTurn(loader, origin.url(), 2)).toEqual([43, 333]);
    expect(loader.stats.cache).toMatchObject({ misses: 2, revalidated: 0 });
  });

  test("Last-Modified will do", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    const headers = { "last-modified": new Date().toUTCString(), "cache-control": "no-cache" };
    using origin = await startOrigin((socket, request) => {
      const isAsked = /if-modified-since/i.test(request);
      socket.end(isAsked ? answer("", { status: 304, headers }) : answer(red, { headers }));
    });
    await loadInTurn(loader, origin.url(), 2);
    expect(loader.stats.cache).toMatchObject({ misses: 1, revalidated: 1 });
  });

  test("a redirect counts too: a temporary one is asked for again", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    using origin = await startOrigin((socket, request) => {
      const path = pathOf(request);
      if (path === "/moving") socket.end(redirect("/picture", 302));
      else socket.end(answer(red, { headers: { "cache-control": "max-age=60" } }));
    });
    await loadInTurn(loader, origin.url("/moving"), 2);
    expect(origin.requests.map(pathOf)).toEqual(["/moving", "/picture", "/moving", "/picture"]);
    expect(loader.stats.cache.misses).toBe(1);
  });

  test("a 304 that repeats no ETag is about the copy all the same, and the ETag goes on being asked with", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    using origin = await startOrigin((socket, request) => {
      const isAsked = /if-none-match: "v1"/i.test(request);
      socket.end(isAsked ? answer("", { status: 304 }) : answer(red, { headers: NO_CACHE('"v1"') }));
    });
    await loadInTurn(loader, origin.url(), 4);
    expect(origin.requests.map((request) => /if-none-match/i.test(request))).toEqual([false, true, true, true]);
    expect(loader.stats.cache).toMatchObject({ misses: 1, revalidated: 3 });
  });

  test("an ETag is a name within one URL: what another redirect leads to is not asked with it", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    using other = await startOrigin((socket, request) => {
      const isAsked = /if-none-match: "1"/i.test(request);
      socket.end(isAsked ? answer("", { status: 304 }) : answer(photo, { headers: NO_CACHE('"1"') }));
    });
    let target = "/picture";
    using origin = await startOrigin((socket, request) => {
      if (pathOf(request) === "/moving") socket.end(redirect(target));
      else if (/if-none-match: "1"/i.test(request)) socket.end(answer("", { status: 304, headers: NO_CACHE('"1"') }));
      else socket.end(answer(red, { headers: NO_CACHE('"1"') }));
    });
    expect(await loadInTurn(loader, origin.url("/moving"), 2)).toEqual([43, 43]);
    expect(loader.stats.cache).toMatchObject({ misses: 1, revalidated: 1 });
    target = other.url("/picture");
    expect(await loadInTurn(loader, origin.url("/moving"), 2)).toEqual([333, 333]);
    expect(loader.stats.cache).toMatchObject({ misses: 2, revalidated: 2 });
    expect(other.requests.map((request) => /if-none-match/i.test(request))).toEqual([false, true]);
    const asked = origin.requests.map((request) => [pathOf(request), /if-none-match/i.test(request)]);
    expect(asked).toEqual([
      ["/moving", false],
      ["/picture", false],
      ["/moving", false],
      ["/picture", true],
      ["/moving", false],
      ["/moving", false],
    ]);
  });

  test("a redirect that lasts is not asked for again while it and the picture are fresh", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    using origin = await startOrigin((socket, request) => {
      const headers = { "cache-control": "max-age=60" };
      if (pathOf(request) === "/picture") socket.end(answer(red, { headers }));
      else socket.end(answer("", { status: 301, headers: { ...headers, location: "/picture" } }));
    });
    await loadInTurn(loader, origin.url("/moved"), 3);
    expect(origin.requests.map(pathOf)).toEqual(["/moved", "/picture"]);
  });

  test("an origin that fails when it is asked is a failure, and the copy may be asked about again", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    let isDown = false;
    using origin = await startOrigin((socket, request) => {
      if (isDown) socket.end(answer("", { status: 500 }));
      else if (/if-none-match/i.test(request)) socket.end(answer("", { status: 304 }));
      else socket.end(answer(red, { headers: NO_CACHE('"v"') }));
    });
    await loadInTurn(loader, origin.url(), 1);
    isDown = true;
    expect(await refusal(loader.load(origin.url()))).toMatchObject({ code: "origin_refused", status: 400 });
    expect(loader.stats.pool.rooms).toBe(1);
    isDown = false;
    await loadInTurn(loader, origin.url(), 1);
    expect(loader.stats.cache).toMatchObject({ misses: 1, revalidated: 1 });
  });

  test("what is current is used even when the cache gave it up while the origin was asked", async () => {
    // One photo fills the cache.
    await using loader = await MediaLoader.create({ ...LOCAL, cache: { bytes: 507_904, freshness: "http" } });
    const asked = Promise.withResolvers<void>();
    const evicted = Promise.withResolvers<void>();
    using origin = await startOrigin(async (socket, request) => {
      if (!/if-none-match/i.test(request)) return socket.end(answer(photo, { headers: NO_CACHE('"v"') }));
      asked.resolve();
      await evicted.promise;
      return socket.end(answer("", { status: 304 }));
    });
    await loadInTurn(loader, origin.url(), 1);
    const loading = loader.load(origin.url());
    await asked.promise;
    using _other = await loader.load(red);
    expect(loader.stats.cache.evictions).toBe(1);
    evicted.resolve();
    using descriptor = await loading;
    expect(descriptor.contentHash).toBe(references["odd.jpg"].reference.content_hash);
    expect(loader.stats.cache.misses).toBe(2);
    descriptor.dispose();
    expect(loader.occupancy.rooms).toBe(1);
  });

  test("loads at the same time still are one", async () => {
    await using loader = await MediaLoader.create(HONOURED);
    using origin = await startOrigin((socket) =>
      setTimeout(() => socket.end(answer(red, { headers: { "cache-control": "no-store" } })), 50),
    );
    const descriptors = await Promise.all(Array.from({ length: 10 }, () => loader.load(origin.url())));
    expect(origin.connections).toBe(1);
    for (const descriptor of descriptors) descriptor.dispose();
  });
});
