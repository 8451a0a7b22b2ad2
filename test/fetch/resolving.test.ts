import { describe, expect, test } from "bun:test";
import { MediaFetcher } from "../../src/fetch/index.ts";
import { answer, INSIDE, redirect, startFixedOrigin } from "../support/origin.ts";
import { refusal } from "../support/refusal.ts";

/** A resolver that gives its answers in turn, the last one for good, and remembers what it was asked. */
function scripted(...answers: string[][]) {
  const asked: string[] = [];
  const resolve = async (name: string): Promise<string[]> => {
    asked.push(name);
    return answers[Math.min(asked.length, answers.length) - 1] ?? [];
  };
  return { asked, resolve };
}

/** Nobody is there: TEST-NET-3 is not routed, and the policy of these tests never lets it be tried. */
const DOCUMENTATION = "203.0.113.1";

describe("a name", () => {
  test.each([
    ["127.0.0.1"],
    ["10.1.2.3"],
    ["169.254.169.254"],
    ["::1"],
    ["fe80::1%lo"],
    ["::ffff:127.0.0.1"],
    ["64:ff9b::7f00:1"],
    [DOCUMENTATION],
    ["no address"],
  ])("that leads inside, to %s, is refused, also when other addresses are public", async (address) => {
    using origin = await startFixedOrigin(answer("bytes"));
    for (const addresses of [
      [address],
      ["8.8.8.8", address],
      [address, "8.8.8.8"],
      ["8.8.8.8", "2606:4700::1", address],
    ]) {
      const { asked, resolve } = scripted(addresses);
      using fetcher = new MediaFetcher({ allow_direct_port: true }, { resolve });
      const error = await refusal(fetcher.fetch(`http://example.com:${origin.port}/secret`));
      expect(error).toMatchObject({ code: "url_refused", status: 400 });
      expect(error.message).not.toContain(address);
      expect(asked).toEqual(["example.com"]);
    }
    expect(origin.connections).toBe(0);
  });

  test("is resolved once for a request, and the connection goes to what was judged", async () => {
    using origin = await startFixedOrigin(answer("bytes"));
    // Rebinding: whoever asks a second time would be sent elsewhere.
    const { asked, resolve } = scripted(["127.0.0.1"], [DOCUMENTATION]);
    using fetcher = new MediaFetcher(INSIDE, { resolve });
    await fetcher.fetch(`http://example.com:${origin.port}/`);
    expect(asked).toEqual(["example.com"]);
    expect(origin.requests[0]).toContain(`host: example.com:${origin.port}\r\n`);
  });

  test("is resolved and judged again for every redirect", async () => {
    using origin = await startFixedOrigin(redirect("/again"));
    const { asked, resolve } = scripted(["127.0.0.1"]);
    using fetcher = new MediaFetcher(INSIDE, { resolve });
    const error = await refusal(fetcher.fetch(`http://example.com:${origin.port}/`));
    expect(error.code).toBe("redirect_refused");
    expect(asked).toEqual(Array.from({ length: 4 }, () => "example.com"));
  });

  test("without addresses cannot be fetched from", async () => {
    using fetcher = new MediaFetcher({}, { resolve: async () => [] });
    expect(await refusal(fetcher.fetch("http://example.com/"))).toMatchObject({ code: "fetch_failed", status: 400 });
  });

  test("of which some addresses refuse connections is reached by the next one", async () => {
    using origin = await startFixedOrigin(answer("bytes"));
    const { asked, resolve } = scripted(["127.0.0.2", "::1", "127.0.0.3", "127.0.0.1"]);
    using fetcher = new MediaFetcher(INSIDE, { resolve });
    expect((await fetcher.fetch(`http://example.com:${origin.port}/`)).encoded.byteLength).toBe(5);
    expect(asked).toHaveLength(1);
    expect(origin.connections).toBe(1);
  });

  test("whose first address accepts a connection and breaks off is not tried again elsewhere", async () => {
    using broken = await startFixedOrigin(new Uint8Array(), { host: "127.0.0.2" });
    using other = await startFixedOrigin(answer("bytes"), { host: "127.0.0.1", port: broken.port });
    using fetcher = new MediaFetcher(INSIDE, { resolve: async () => ["127.0.0.2", "127.0.0.1"] });
    const error = await refusal(fetcher.fetch(`http://example.com:${broken.port}/`));
    expect(error.code).toBe("fetch_failed");
    expect([broken.connections, other.connections]).toEqual([1, 0]);
  });

  test("that cannot be looked up says so, and is the client's fault", async () => {
    const resolve = async (): Promise<string[]> => {
      throw Object.assign(new Error("secret"), { code: "ESERVFAIL" });
    };
    using fetcher = new MediaFetcher({}, { resolve });
    const error = await refusal(fetcher.fetch("http://example.com/"));
    expect(error).toMatchObject({ code: "fetch_failed", status: 400 });
    expect(error.message).toBe("The name example.com cannot be looked up (ESERVFAIL)");
  });
});

describe("a redirect that is not allowed leaves its target alone:", () => {
  /** The policy allows the first origin only by its name; the target listens and counts. */
  async function expectRefused(location: (port: number) => string, policy: object = {}): Promise<void> {
    using target = await startFixedOrigin(answer("inside"));
    using origin = await startFixedOrigin(redirect(location(target.port)));
    const resolve = async (name: string): Promise<string[]> => [name === "target.example" ? "10.0.0.1" : "127.0.0.1"];
    using fetcher = new MediaFetcher({ allow_private_ips: true, allow_direct_port: true, ...policy }, { resolve });
    const error = await refusal(fetcher.fetch(`http://example.com:${origin.port}/`));
    expect(error).toMatchObject({ code: "redirect_refused", status: 400, retryable: false });
    expect([origin.connections, target.connections]).toEqual([1, 0]);
  }

  test.each([
    (port: number) => `http://127.0.0.1:${port}/`,
    (port: number) => `http://2130706433:${port}/`,
    (port: number) => `//0x7f.1:${port}/`,
    (port: number) => `http://[::ffff:127.0.0.1]:${port}/`,
    (port: number) => `http://user:password@example.com:${port}/`,
    () => "http://[fe80::1%25lo]/",
    () => "gopher://127.0.0.1/",
  ])("%p", (location) => expectRefused(location));

  test("another host than those of the allowlist", () =>
    expectRefused((port) => `http://evil-example.com:${port}/`, { allowed_media_domains: ["example.com"] }));
});
