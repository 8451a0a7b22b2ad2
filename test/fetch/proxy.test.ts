import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import net, { type Socket } from "node:net";
import { join } from "node:path";
import { type FetchPolicyOptions, MediaFetcher } from "../../src/fetch/index.ts";
import { createCertificates } from "../support/certificates.ts";
import { answer, INSIDE, type Origin, redirect, startFixedOrigin, startOrigin } from "../support/origin.ts";
import { eventually } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

const PROGRAM = join(import.meta.dir, "../support/fetch_once.ts");
const VARIABLES = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"].flatMap((name) => [name, name.toUpperCase()]);
const kept = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));
const clear = (): void => {
  for (const name of VARIABLES) delete process.env[name];
};

beforeEach(clear);
afterEach(() => {
  clear();
  for (const [name, value] of Object.entries(kept)) if (value !== undefined) process.env[name] = value;
});

/** A proxy that tunnels to `target`, whatever name it is told, and answers plain requests itself. */
function startProxy(target?: Origin): Promise<Origin> {
  return startOrigin((socket, request) => {
    if (!request.startsWith("CONNECT ")) socket.end(answer("proxied"));
    else if (target) tunnel(socket, target.port);
    else socket.end(answer("", { status: 403 }));
  });
}

function tunnel(socket: Socket, port: number): void {
  const onward = net.connect(port, "127.0.0.1", () => {
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    socket.pipe(onward).pipe(socket);
  });
  onward.on("error", () => socket.destroy());
  socket.on("close", () => onward.destroy());
  onward.on("close", () => socket.resume()); // nobody reads it any more, and its end is to be seen
}

/** Names are resolved by the proxy: whoever asks here has lost. */
function trusting(options: FetchPolicyOptions = {}): MediaFetcher {
  const resolve = async (): Promise<string[]> => {
    throw new Error("a name was resolved");
  };
  return new MediaFetcher({ trust_egress_proxy: true, ...options }, { resolve });
}

describe("a proxy that is configured", () => {
  test.each([
    ["http_proxy", "http://example.com/"],
    ["HTTP_PROXY", "http://example.com/"],
    ["HTTPS_PROXY", "https://example.com/"],
    ["ALL_PROXY", "https://example.com/"],
  ])("as %s is refused when nobody trusts it: nothing is connected to", async (name, url) => {
    using proxy = await startProxy();
    process.env[name] = proxy.url();
    using fetcher = new MediaFetcher();
    const error = await refusal(fetcher.fetch(url));
    expect(error).toMatchObject({ code: "egress_proxy_refused", status: 500, retryable: false });
    expect(proxy.connections).toBe(0);
  });

  test("and trusted is asked for plain URLs, with its own credentials and no other", async () => {
    using proxy = await startProxy();
    process.env.HTTP_PROXY = `http://name:pass%20word@127.0.0.1:${proxy.port}`;
    using fetcher = trusting();
    const medium = await fetcher.fetch("http://example.com/a?b");
    expect(Buffer.from(medium.encoded as Uint8Array).toString()).toBe("proxied");
    expect(proxy.requests[0]).toStartWith("GET http://example.com/a?b HTTP/1.1\r\nhost: example.com\r\n");
    const credentials = Buffer.from("name:pass word").toString("base64");
    expect(proxy.requests[0]).toContain(`proxy-authorization: Basic ${credentials}\r\n`);
  });

  test("and trusted tunnels to https, whose certificate is checked all the same, and sees nothing of it", async () => {
    const certificates = createCertificates("DNS:example.com");
    using origin = await startFixedOrigin(answer("bytes"), { tls: certificates });
    using proxy = await startProxy(origin);
    process.env.HTTPS_PROXY = `http://name:password@127.0.0.1:${proxy.port}`;
    using fetcher = trusting({ tls_ca: certificates.ca });
    expect((await fetcher.fetch("https://example.com/secret")).encoded.byteLength).toBe(5);
    expect(proxy.requests).toEqual([
      expect.stringMatching(/^CONNECT example\.com:443 HTTP\/1\.1\r\nhost: example\.com:443\r\n/),
    ]);
    expect(proxy.requests[0]).toMatch(/proxy-authorization: Basic/);
    expect(origin.requests[0]).toStartWith("GET /secret HTTP/1.1\r\nhost: example.com\r\n");
    expect(origin.requests[0]).not.toMatch(/proxy/i);
    const error = await refusal(fetcher.fetch("https://example.org/"));
    expect(error).toMatchObject({ code: "fetch_failed", message: expect.stringContaining("certificate") });
    await eventually("all connections are closed", () => origin.open === 0 && proxy.open === 0);
  });

  test.each([
    ["http://127.0.0.1/", "url_refused", {}],
    ["http://10.0.0.1/", "url_refused", { allow_direct_ip: true }],
    ["http://localhost/", "url_refused", {}],
    ["http://example.com:8080/", "url_refused", {}],
    ["http://evil-example.com/", "url_refused", { allowed_media_domains: ["example.com"] }],
  ])("and trusted is not asked for %s, which is refused as ever", async (url, code, options) => {
    using proxy = await startProxy();
    process.env.ALL_PROXY = proxy.url();
    using fetcher = trusting(options);
    expect(await refusal(fetcher.fetch(url))).toMatchObject({ code });
    expect(proxy.connections).toBe(0);
  });

  test("and trusted is not asked for what a redirect may not lead to", async () => {
    using proxy = await startFixedOrigin(redirect("http://169.254.169.254/"));
    process.env.ALL_PROXY = proxy.url();
    using fetcher = trusting();
    expect(await refusal(fetcher.fetch("http://example.com/"))).toMatchObject({ code: "redirect_refused" });
    expect(proxy.connections).toBe(1);
  });

  test("and refuses to tunnel, breaks off, is silent or is not there, has failed", async () => {
    using refusing = await startProxy();
    using closing = await startOrigin((socket) => socket.destroy());
    using silent = await startOrigin(() => {});
    const gone = await startProxy();
    gone[Symbol.dispose]();
    using fetcher = trusting({ idle_timeout: 0.2 });
    for (const [proxy, code, status] of [
      [refusing, "fetch_failed", 400],
      [closing, "egress_proxy_failed", 500],
      [silent, "fetch_timeout", 400],
      [gone, "egress_proxy_failed", 500],
    ] as const) {
      process.env.ALL_PROXY = proxy.url();
      expect(await refusal(fetcher.fetch("https://example.com/secret"))).toMatchObject({ code, status });
      await eventually("the connection is closed", () => proxy.open === 0);
    }
    expect(await refusal(fetcher.fetch("http://example.com/secret"))).toMatchObject({ code: "egress_proxy_failed" });
  });

  test.each(["http", "https"])("and does not accept this server has failed, and no origin has: %s", async (scheme) => {
    using proxy = await startFixedOrigin(answer("", { status: 407 }));
    process.env.ALL_PROXY = `http://name:password@127.0.0.1:${proxy.port}`;
    using fetcher = trusting();
    const error = await refusal(fetcher.fetch(`${scheme}://example.com/secret`));
    expect(error).toMatchObject({ code: "egress_proxy_failed", status: 500, retryable: true });
    expect(error.message).toContain("The proxy");
    expect(error.message).not.toMatch(/password|secret|127/);
    await eventually("the connection is closed", () => proxy.open === 0);
  });

  test("of another kind is refused", async () => {
    process.env.ALL_PROXY = "socks5://127.0.0.1:1080";
    using fetcher = trusting();
    expect(await refusal(fetcher.fetch("http://example.com/"))).toMatchObject({
      code: "egress_proxy_refused",
      status: 500,
    });
  });

  test("does not matter to data URLs, nor to hosts that NO_PROXY names", async () => {
    using proxy = await startProxy();
    using origin = await startFixedOrigin(answer("bytes"));
    process.env.ALL_PROXY = proxy.url();
    process.env.NO_PROXY = "127.0.0.1";
    using fetcher = new MediaFetcher(INSIDE);
    expect((await fetcher.fetch("data:;base64,Ynl0ZXM=")).encoded.byteLength).toBe(5);
    expect((await fetcher.fetch(origin.url())).encoded.byteLength).toBe(5);
    expect([proxy.connections, origin.connections]).toEqual([0, 1]);
  });
});

test("a proxy that is there when the program starts gets no connection behind the policy's back", async () => {
  using proxy = await startProxy();
  using origin = await startFixedOrigin(answer("bytes"));
  const run = async (env: Record<string, string>): Promise<string> => {
    const proxies = {
      HTTP_PROXY: proxy.url(),
      http_proxy: proxy.url(),
      ALL_PROXY: proxy.url(),
      NODE_USE_ENV_PROXY: "1",
    };
    const child = Bun.spawn([process.execPath, PROGRAM, origin.url(), JSON.stringify(INSIDE)], {
      env: { ...process.env, ...proxies, ...env },
    });
    return (await child.stdout.text()).trim();
  };
  expect(await run({})).toBe("egress_proxy_refused");
  expect([proxy.connections, origin.connections]).toEqual([0, 0]);
  expect(await run({ NO_PROXY: "127.0.0.1" })).toBe("5 bytes");
  expect([proxy.connections, origin.connections]).toEqual([0, 1]);
});
