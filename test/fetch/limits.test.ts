import { describe, expect, test } from "bun:test";
import type { Socket } from "node:net";
import zlib from "node:zlib";
import { isEncodedFile } from "../../src/encoded.ts";
import { MediaError } from "../../src/errors.ts";
import { type FetchedMedium, MediaFetcher } from "../../src/fetch/index.ts";
import { answer, INSIDE, redirect, sendEndlessly, startFixedOrigin, startOrigin } from "../support/origin.ts";
import { eventually, openDescriptors } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

/** What an origin can do so that a fetch never ends. */
const ENDLESS: Record<string, (socket: Socket) => void> = {
  "never answers": () => {},
  "stops within its header": (socket) => socket.write("HTTP/1.1 200 OK\r\nx: "),
  "stops before its body": (socket) => socket.write(answer("", { headers: { "content-length": 10 } })),
  "stops within its body": (socket) => socket.write(answer("bytes", { headers: { "content-length": 10 } })),
  "stops within packed content": (socket) => {
    const headers = { "content-encoding": "gzip", "content-length": 1000 };
    socket.write(answer(zlib.gzipSync("bytes").subarray(0, 12), { headers }));
  },
};
/** What an origin can do so that it is never silent, and never comes to an end. */
const DRIPPING: Record<string, (socket: Socket) => void> = {
  "drips its header": (socket) => drip(socket, "HTTP/1.1 200 OK\r\nx: ", "x"),
  "drips its body": (socket) => drip(socket, answer("", { headers: { "content-length": 1000 } }), "x"),
  "drips chunks": (socket) => {
    drip(socket, answer("", { headers: { "content-length": null, "transfer-encoding": "chunked" } }), "1\r\nx\r\n");
  },
};

function drip(socket: Socket, start: string | Uint8Array, drop: string): void {
  socket.write(start);
  const timer = setInterval(() => socket.write(drop), 20);
  socket.on("close", () => clearInterval(timer));
}

describe("an origin that", () => {
  test.each(Object.entries(ENDLESS))("%s is given up after its time of silence", async (_, behave) => {
    using fetcher = new MediaFetcher({ ...INSIDE, idle_timeout: 0.2 });
    using origin = await startOrigin(behave);
    const error = await refusal(fetcher.fetch(origin.url("/secret")));
    expect(error).toMatchObject({ code: "fetch_timeout", status: 400, message: "The origin sent nothing for 0.2 s" });
    await eventually("the connection is closed", () => origin.open === 0);
    expect(origin.connections).toBe(1);
    expect(fetcher.activity).toEqual({ active: 0, waiting: 0 });
  });

  test.each(Object.entries({ ...ENDLESS, ...DRIPPING }))(
    "%s is given up after the time of a fetch",
    async (_, behave) => {
      using fetcher = new MediaFetcher({ ...INSIDE, timeout: 0.3 });
      using origin = await startOrigin(behave);
      const error = await refusal(fetcher.fetch(origin.url("/secret")));
      expect(error).toMatchObject({ code: "fetch_timeout", status: 400, message: "The fetch took longer than 0.3 s" });
      await eventually("the connection is closed", () => origin.open === 0);
      expect(origin.connections).toBe(1);
    },
  );

  test("drips is not silent, and is waited for", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, idle_timeout: 0.3 });
    using origin = await startOrigin((socket) => drip(socket, answer("", { headers: { "content-length": 40 } }), "x"));
    expect((await fetcher.fetch(origin.url())).encoded.byteLength).toBe(40);
  });

  test("redirects slowly uses up the time of one fetch, not of several", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, timeout: 0.5 });
    using origin = await startOrigin((socket) => setTimeout(() => socket.end(redirect("/again")), 200));
    expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "fetch_timeout" });
    expect(origin.connections).toBeLessThan(4);
  });

  test("has a name that is never resolved is given up", async () => {
    const resolve = (): Promise<string[]> => new Promise(() => {});
    using fetcher = new MediaFetcher({ timeout: 0.1 }, { resolve });
    expect(await refusal(fetcher.fetch("http://example.com/"))).toMatchObject({ code: "fetch_timeout" });
    await eventually("its turn is over", () => fetcher.activity.active === 0);
  });
});

describe("a caller that gives up", () => {
  const behaviours = { ...ENDLESS, ...DRIPPING, "sends endlessly": (socket: Socket) => endless(socket) };

  test.each(Object.entries(behaviours))("on an origin that %s is let go at once", async (_, behave) => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_video_bytes: 2 ** 40 });
    using origin = await startOrigin(behave);
    const before = openDescriptors();
    const controller = new AbortController();
    const fetching = refusal(fetcher.fetch(origin.url("/secret"), { signal: controller.signal, digest: true }));
    await eventually("the origin was asked", () => origin.requests.length === 1);
    await Bun.sleep(20);
    controller.abort(new Error("the client left"));
    expect(await fetching).toMatchObject({ code: "aborted", cause: new Error("the client left") });
    await eventually("the connection is closed", () => origin.open === 0);
    expect(fetcher.activity).toEqual({ active: 0, waiting: 0 });
    await eventually("all is closed", () => openDescriptors() === before);
  });

  test("before it began connects to nobody", async () => {
    using fetcher = new MediaFetcher(INSIDE);
    using origin = await startFixedOrigin(answer("bytes"));
    const fetching = fetcher.fetch(origin.url(), { signal: AbortSignal.abort() });
    expect(await refusal(fetching)).toMatchObject({ code: "aborted" });
    expect(origin.connections).toBe(0);
  });

  test("again and again leaves nothing behind", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_video_bytes: 2 ** 40 });
    using origin = await startOrigin(endless);
    const before = openDescriptors();
    for (let i = 0; i < 50; i += 1) {
      const controller = new AbortController();
      const fetching = refusal(fetcher.fetch(origin.url(), { signal: controller.signal }));
      setTimeout(() => controller.abort(), i % 10);
      expect(await fetching).toMatchObject({ code: "aborted" });
    }
    await eventually("all connections are closed", () => origin.open === 0);
    await eventually("all is closed", () => openDescriptors() === before);
  });

  function endless(socket: Socket): void {
    socket.write(answer("", { headers: { "content-length": null } }));
    sendEndlessly(socket, new Uint8Array(65536));
  }
});

test("disposing of a fetcher ends what it does, and it takes nothing more", async () => {
  const fetcher = new MediaFetcher(INSIDE);
  using origin = await startOrigin(() => {});
  const fetching = refusal(fetcher.fetch(origin.url()));
  await eventually("the origin was asked", () => origin.requests.length === 1);
  fetcher.dispose();
  expect(await fetching).toMatchObject({ code: "closed", status: 500 });
  await eventually("the connection is closed", () => origin.open === 0);
  expect(await refusal(fetcher.fetch(origin.url()))).toMatchObject({ code: "closed" });
  expect(await refusal(fetcher.fetch(Buffer.from("bytes")))).toMatchObject({ code: "closed" });
  expect(origin.connections).toBe(1);
});

describe("fetches at the same time", () => {
  /** An origin that answers when it is told to. */
  async function startHeldOrigin() {
    const held: (() => void)[] = [];
    const origin = await startOrigin((socket) => held.push(() => socket.end(answer("bytes"))));
    return { origin, held, release: () => held.shift()?.(), [Symbol.dispose]: () => origin[Symbol.dispose]() };
  }

  test("from one origin are as many as the policy says, while other origins have their turns", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_fetches: 3, max_fetches_per_origin: 2 });
    using first = await startHeldOrigin();
    using second = await startHeldOrigin();
    const fromFirst = Array.from({ length: 5 }, () => fetcher.fetch(first.origin.url()));
    const fromSecond = Array.from({ length: 2 }, () => fetcher.fetch(second.origin.url()));
    await eventually("three run", () => first.held.length === 2 && second.held.length === 1);
    expect(fetcher.activity).toEqual({ active: 3, waiting: 4 });
    first.release();
    await eventually(
      "the next one runs",
      () => first.held.length + second.held.length === 3 && fetcher.activity.waiting === 3,
    );
    const timer = setInterval(() => {
      expect(first.origin.open).toBeLessThanOrEqual(2);
      first.release();
      second.release();
    }, 5);
    await Promise.all([...fromFirst, ...fromSecond]);
    clearInterval(timer);
    expect(fetcher.activity).toEqual({ active: 0, waiting: 0 });
  });

  test("that would wait in too long a line are refused, without a connection", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_fetches: 1, max_waiting_fetches: 1 });
    using held = await startHeldOrigin();
    const running = fetcher.fetch(held.origin.url());
    const waiting = fetcher.fetch(held.origin.url());
    const error = await refusal(fetcher.fetch(held.origin.url()));
    expect(error).toMatchObject({ code: "overloaded", status: 503, retryable: true, retryAfter: 1 });
    await eventually("the first one runs", () => held.held.length === 1);
    held.release();
    await running;
    await eventually("the second one runs", () => held.held.length === 1);
    held.release();
    await waiting;
    expect(held.origin.connections).toBe(2);
  });

  test("that wait can be given up, and run out of time", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_fetches: 1 });
    using impatient = new MediaFetcher({ ...INSIDE, max_fetches: 1, timeout: 0.3 });
    using held = await startHeldOrigin();
    const running = fetcher.fetch(held.origin.url());
    const controller = new AbortController();
    const waiting = refusal(fetcher.fetch(held.origin.url(), { signal: controller.signal }));
    expect(fetcher.activity).toEqual({ active: 1, waiting: 1 });
    controller.abort();
    expect(await waiting).toMatchObject({ code: "aborted" });
    expect(fetcher.activity).toEqual({ active: 1, waiting: 0 });
    const outOfTime = [1, 2].map(() => refusal(impatient.fetch(held.origin.url())));
    for (const error of await Promise.all(outOfTime)) expect(error.code).toBe("fetch_timeout");
    held.release();
    await running;
  });

  test("that follow a redirect do not stop each other, however few may run", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_fetches: 2, max_fetches_per_origin: 1 });
    using target = await startFixedOrigin(answer("bytes"));
    using origin = await startFixedOrigin(redirect(target.url()));
    using back = await startFixedOrigin(redirect(origin.url()));
    const urls = Array.from({ length: 12 }, (_, i) => (i % 2 === 0 ? origin : back).url());
    const media = await Promise.all(urls.map((url) => fetcher.fetch(url)));
    expect(media.map(({ encoded }) => encoded.byteLength)).toEqual(urls.map(() => 5));
  });

  test("that are under way are not refused when the line is full, and go first", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_fetches_per_origin: 1, max_waiting_fetches: 1 });
    using target = await startHeldOrigin();
    using origin = await startFixedOrigin(redirect(target.origin.url("/redirected")));
    const first = fetcher.fetch(target.origin.url("/first"));
    const waiting = fetcher.fetch(target.origin.url("/waiting"));
    const redirected = fetcher.fetch(origin.url());
    await eventually("two wait for the target", () => fetcher.activity.waiting === 2);
    for (const fetching of [first, redirected, waiting]) {
      await eventually("the next one runs", () => target.held.length === 1);
      target.release();
      await fetching;
    }
    const paths = target.origin.requests.map((request) => request.split(" ")[1]);
    expect(paths).toEqual(["/first", "/redirected", "/waiting"]);
  });

  test("go on after one has failed", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_fetches: 1 });
    using origin = await startFixedOrigin(answer("no", { status: 404 }));
    const errors = await Promise.all(Array.from({ length: 5 }, () => refusal(fetcher.fetch(origin.url()))));
    expect(errors.map(({ code }) => code)).toEqual(errors.map(() => "origin_refused"));
    expect(origin.connections).toBe(5);
  });
});

describe("large media together", () => {
  const MEBIBYTE = 1024 * 1024;

  test("take no more memory than is allowed, until they are disposed of", async () => {
    using fetcher = new MediaFetcher({ ...INSIDE, max_spooled_bytes: 30 * MEBIBYTE });
    using origin = await startFixedOrigin(answer(new Uint8Array(18 * MEBIBYTE)));
    const { encoded } = await fetcher.fetch(origin.url());
    if (!isEncodedFile(encoded)) throw new Error("it came as bytes");
    const error = await refusal(fetcher.fetch(origin.url()));
    expect(error).toMatchObject({ code: "overloaded", status: 503, retryAfter: 1 });
    encoded.dispose();
    const { encoded: second } = await fetcher.fetch(origin.url());
    expect(second.byteLength).toBe(18 * MEBIBYTE);
    if (isEncodedFile(second)) second.dispose();
    await eventually("no connection is left", () => origin.open === 0);
  });

  test.each([true, false])(
    "of several at the same time as many come as there is room for (announced: %p)",
    async (isAnnounced) => {
      const limits = isAnnounced ? {} : { max_video_bytes: 20 * MEBIBYTE };
      using fetcher = new MediaFetcher({ ...INSIDE, ...limits, max_spooled_bytes: 50 * MEBIBYTE });
      const body = new Uint8Array(20 * MEBIBYTE);
      using origin = await startOrigin((socket) => {
        // Without a length, the answer ends with its connection.
        socket.end(isAnnounced ? answer(body) : Buffer.concat([Buffer.from("HTTP/1.1 200 OK\r\n\r\n"), body]));
      });
      const outcomes = await Promise.all(
        Array.from({ length: 6 }, () => fetcher.fetch(origin.url()).catch((error: unknown) => error)),
      );
      const codes = outcomes.flatMap((outcome) => (outcome instanceof MediaError ? [outcome.code] : []));
      expect(codes).toEqual(Array(4).fill("overloaded"));
      for (const outcome of outcomes as FetchedMedium[])
        if ("encoded" in outcome && isEncodedFile(outcome.encoded)) outcome.encoded.dispose();
      const { encoded } = await fetcher.fetch(origin.url());
      if (isEncodedFile(encoded)) encoded.dispose();
    },
  );
});
