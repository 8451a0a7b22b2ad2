import { afterEach, describe, expect, test } from "bun:test";
import type { TLSSocket } from "node:tls";
import { MediaFetcher } from "../../src/fetch/index.ts";
import { createCertificates } from "../support/certificates.ts";
import { answer, INSIDE, redirect, sendEndlessly, startFixedOrigin, startOrigin } from "../support/origin.ts";
import { eventually, openDescriptors } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

const MEBIBYTE = 1024 * 1024;
const sound = createCertificates("DNS:example.com,IP:127.0.0.1");
const resolve = async (): Promise<string[]> => ["127.0.0.1"];
const trusting = new MediaFetcher({ ...INSIDE, tls_ca: sound.ca, max_image_bytes: MEBIBYTE }, { resolve });

afterEach(() => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
});

describe("over https", () => {
  test("the certificate and the server name are the URL's host's, though the connection goes to an address", async () => {
    let serverName: unknown;
    using origin = await startOrigin(
      (socket) => {
        serverName = (socket as TLSSocket & { servername?: unknown }).servername;
        socket.end(answer("bytes"));
      },
      { tls: sound },
    );
    const { encoded } = await trusting.fetch(`https://example.com:${origin.port}/`);
    expect(encoded.byteLength).toBe(5);
    expect(serverName).toBe("example.com");
    expect(origin.requests[0]).toContain(`host: example.com:${origin.port}\r\n`);
    const dotted = await trusting.fetch(`https://example.com.:${origin.port}/`);
    expect(dotted.encoded.byteLength).toBe(5);
  });

  test("an address is fetched from when the certificate is for it", async () => {
    using origin = await startFixedOrigin(answer("bytes"), { tls: sound });
    expect((await trusting.fetch(origin.url())).encoded.byteLength).toBe(5);
    using other = await startFixedOrigin(answer("bytes"), { tls: createCertificates("DNS:example.com") });
    expect(await refusal(trusting.fetch(other.url()))).toMatchObject({ code: "fetch_failed", status: 400 });
    expect(other.requests).toEqual([]);
  });

  const wrongName = createCertificates("DNS:evil-example.com");
  const expired = createCertificates("DNS:example.com", { days: -1 });
  test.each([
    ["of an authority that is not trusted", createCertificates("DNS:example.com"), sound.ca],
    ["for another name", wrongName, wrongName.ca],
    ["that has expired", expired, expired.ca],
  ])(
    "a certificate %s is not taken, whatever the environment says, and nothing is asked",
    async (_, certificates, ca) => {
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
      using fetcher = new MediaFetcher({ ...INSIDE, tls_ca: ca }, { resolve });
      using origin = await startFixedOrigin(answer("bytes"), { tls: certificates });
      const error = await refusal(fetcher.fetch(`https://example.com:${origin.port}/secret`));
      expect(error).toMatchObject({
        code: "fetch_failed",
        status: 400,
        message: expect.stringContaining("certificate"),
      });
      expect(origin.requests).toEqual([]);
      expect(origin.connections).toBe(1);
      await eventually("the connection is closed", () => origin.open === 0);
    },
  );

  test("several authorities can be trusted besides the built-in ones", async () => {
    const other = createCertificates("DNS:example.org");
    using fetcher = new MediaFetcher({ ...INSIDE, tls_ca: `${other.ca}\n${sound.ca}` }, { resolve });
    using origin = await startFixedOrigin(answer("bytes"), { tls: sound });
    expect((await fetcher.fetch(`https://example.com:${origin.port}/`)).encoded.byteLength).toBe(5);
  });

  test("who does not speak TLS has failed, or is given up when it says nothing", async () => {
    using plain = await startOrigin(() => {});
    using fetcher = new MediaFetcher({ ...INSIDE, idle_timeout: 0.2 }, { resolve });
    const silent = await refusal(fetcher.fetch(`https://example.com:${plain.port}/`));
    expect(silent.code).toBe("fetch_timeout");
    const secureAsPlain = await refusal(fetcher.fetch(`http://example.com:${plain.port}/`));
    expect(secureAsPlain.code).toBe("fetch_timeout");
    await eventually("the connections are closed", () => plain.open === 0);
  });

  test("limits hold, and what is given up leaves nothing behind", async () => {
    using origin = await startOrigin(
      (socket) => {
        socket.write(answer("", { headers: { "content-length": null } }));
        sendEndlessly(socket, new Uint8Array(65536));
      },
      { tls: sound },
    );
    const before = openDescriptors();
    const url = `https://example.com:${origin.port}/`;
    for (let i = 0; i < 20; i += 1) {
      expect(await refusal(trusting.fetch(url, { kind: "image" }))).toMatchObject({ code: "media_too_large" });
      const controller = new AbortController();
      setTimeout(() => controller.abort(), i);
      expect(await refusal(trusting.fetch(url, { signal: controller.signal }))).toMatchObject({ code: "aborted" });
    }
    await eventually("the connections are closed", () => origin.open === 0);
    await eventually("all is closed", () => openDescriptors() <= before);
  });

  test("a body that is cut off has failed", async () => {
    using origin = await startFixedOrigin(answer("bytes", { headers: { "content-length": 10 } }), { tls: sound });
    const error = await refusal(trusting.fetch(`https://example.com:${origin.port}/`));
    expect(error).toMatchObject({ code: "fetch_failed", status: 400 });
  });
});

describe("a redirect from https to http", () => {
  test("is refused, and the target sees no connection, unless the policy allows it", async () => {
    using target = await startFixedOrigin(answer("bytes"));
    using origin = await startFixedOrigin(redirect(`http://example.com:${target.port}/`), { tls: sound });
    const url = `https://example.com:${origin.port}/`;
    const error = await refusal(trusting.fetch(url));
    expect(error).toMatchObject({ code: "redirect_refused", status: 400 });
    expect([origin.connections, target.connections]).toEqual([1, 0]);
    using lenient = new MediaFetcher({ ...INSIDE, tls_ca: sound.ca, allow_https_to_http: true }, { resolve });
    expect((await lenient.fetch(url)).encoded.byteLength).toBe(5);
  });

  test("the other way round is followed", async () => {
    using target = await startFixedOrigin(answer("bytes"), { tls: sound });
    using origin = await startFixedOrigin(redirect(`https://example.com:${target.port}/`));
    expect((await trusting.fetch(origin.url())).encoded.byteLength).toBe(5);
  });
});
