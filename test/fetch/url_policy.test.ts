import { describe, expect, test } from "bun:test";
import { MediaError } from "../../src/errors.ts";
import { type FetchPolicyOptions, MediaFetcher } from "../../src/fetch/index.ts";

/** The code that a URL is refused with before anything is looked up; null when it is not. */
function verdict(url: string, policy: FetchPolicyOptions = {}): string | null {
  try {
    new MediaFetcher(policy).checkUrl(url);
    return null;
  } catch (error) {
    if (error instanceof MediaError) return error.code;
    throw error;
  }
}

describe("a URL is taken", () => {
  test.each([
    "http://example.com/a.png",
    "https://example.com/a.png?b#c",
    "HTTPS://EXAMPLE.COM/",
    "https://example.com:443/",
    "http://example.com:80/",
    "https://example.com./",
    "https://bücher.example/",
    "https://under_score.example.com/",
    "https://metadata.example.com/",
    "https://mylocalhost/",
    "data:image/png;base64,AAAA",
  ])("%s", (url) => {
    expect(verdict(url)).toBeNull();
  });
});

describe("a URL is refused", () => {
  test.each([
    "ftp://example.com/a.png",
    "file:///etc/passwd",
    "blob:http://example.com/a",
    "javascript:alert(1)",
    "gopher://example.com/",
    "ws://example.com/",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
  ])("for its scheme: %s", (url) => {
    expect(verdict(url)).toBe("url_refused");
    expect(() => new MediaFetcher().checkUrl(url)).toThrow("Only HTTP(S) and data URLs are allowed");
  });

  test.each([
    "http://user@example.com/",
    "http://user:password@example.com/",
    "http://:password@example.com/",
    "https://example.org%40:x@example.com/",
  ])("for credentials: %s", (url) => {
    expect(verdict(url)).toBe("url_refused");
  });

  test.each(["http://example.com:8080/", "https://example.com:80/", "http://example.com:443/"])(
    "for its port: %s",
    (url) => {
      expect(verdict(url)).toBe("url_refused");
      expect(verdict(url, { allow_direct_port: true })).toBeNull();
    },
  );

  test("for a port that nothing can listen on", () => {
    expect(verdict("http://example.com:0/")).toBe("url_refused");
    expect(verdict("http://example.com:0/", { allow_direct_port: true })).toBe("url_invalid");
  });

  const disguised = [
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://0x7f000001/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1./",
    "http://%31%32%37.0.0.1/",
    "http://127。0。0。1/",
    "http://１２７.０.０.１/",
    "http://①②⑦.⓪.⓪.①/",
    "http://0/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:53aa:64c:0:0:80ff:fffe]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://⑯⑨.254.169.254/",
    "http://2852039166/",
    "http://10.0.0.1/",
    "http://255.255.255.255/",
  ];
  test.each(disguised)("for an address inside, however it is written: %s", (url) => {
    expect(verdict(url)).toBe("url_refused");
    expect(verdict(url, { allow_direct_ip: true })).toBe("url_refused");
    expect(verdict(url, { allow_private_ips: true })).toBe("url_refused");
    expect(verdict(url, { allow_direct_ip: true, allow_private_ips: true })).toBeNull();
  });

  test.each(["http://8.8.8.8/", "http://134744072/", "https://[2606:4700::1111]/"])(
    "for an address in place of a name: %s",
    (url) => {
      expect(verdict(url)).toBe("url_refused");
      expect(verdict(url, { allow_direct_ip: true })).toBeNull();
    },
  );

  test.each([
    "localhost",
    "localhost.localdomain",
    "ip6-localhost",
    "ip6-loopback",
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "kubernetes.default",
    "kubernetes.default.svc",
    "some.localhost",
  ])("for a name that means the inside: %s", (name) => {
    const spellings = [name, name.toUpperCase(), `${name}.`, name.replace("o", "%6F"), name.replace("l", "ｌ")];
    for (const spelling of spellings) {
      expect(verdict(`http://${spelling}/`)).toBe("url_refused");
      expect(verdict(`http://${spelling}/`, { allow_private_ips: true })).toBeNull();
    }
    expect(verdict(`http://${name}../`)).not.toBeNull();
  });

  test.each([
    "",
    "example.com/a.png",
    "/etc/passwd",
    "//example.com/",
    "http://",
    "http://[fe80::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://1.2.3.4.5/",
    "http://a b/",
    "http://example.com:99999/",
    "http://./",
    "http://example..com/",
    `http://example.com/${"a".repeat(20_000)}`,
  ])("for being none: %p", (url) => {
    expect(verdict(url)).toBe("url_invalid");
  });
});

describe("the allowlist of hosts", () => {
  const policy = { allowed_media_domains: ["Example.COM", "cdn.example.net.", "bücher.example"] };

  test.each([
    "https://example.com/",
    "http://EXAMPLE.com./",
    "https://cdn.example.net/",
    "https://xn--bcher-kva.example/",
    "https://BÜCHER.example/",
    "https://example。com/",
  ])("takes %s", (url) => {
    expect(verdict(url, policy)).toBeNull();
  });

  test.each([
    "https://evil-example.com/",
    "https://example.com.evil.org/",
    "https://sub.example.com/",
    "https://example.net/",
    "https://evil.org/example.com",
    "https://evil.org?example.com",
    "https://evil.org#example.com",
    "https://evil.org\\example.com/",
    "https://evil.org%2eexample.com/",
    "https://bucher.example/",
    "https://com/",
  ])("refuses %s", (url) => {
    expect(verdict(url, policy)).toBe("url_refused");
  });

  test("when empty refuses every host, and says nothing about data URLs", () => {
    expect(verdict("https://example.com/", { allowed_media_domains: [] })).toBe("url_refused");
    expect(verdict("data:,x", { allowed_media_domains: [] })).toBeNull();
  });

  test("does not make an address inside one outside", () => {
    const inside = { allowed_media_domains: ["127.0.0.1", "localhost", "::1"], allow_direct_ip: true };
    for (const host of ["127.0.0.1", "localhost", "[::1]"]) {
      expect(verdict(`http://${host}/`, inside)).toBe("url_refused");
      expect(verdict(`http://${host}/`, { ...inside, allow_private_ips: true })).toBeNull();
    }
  });

  test.each([
    "*.example.com",
    "https://example.com",
    "example.com/path",
    "example.com:8080",
    "a b",
    "user@example.com",
    ".",
  ])("with %j in it is refused as an option", (entry) => {
    expect(() => new MediaFetcher({ allowed_media_domains: [entry] })).toThrow("allowed_media_domains");
  });
});

describe("the policy's options", () => {
  test("are refused when misspelt or out of range", () => {
    const wrong: object[] = [{ alow_direct_ip: true }, { timeout: 0 }, { max_fetches: 0 }, { max_image_bytes: 1.5 }];
    for (const options of [...wrong, { user_agent: "a\r\nb: c" }, { tls_ca: "no certificate" }]) {
      expect(() => new MediaFetcher(options)).toThrow(expect.objectContaining({ code: "invalid_options" }));
    }
  });

  test("have the reference's defaults", () => {
    expect(new MediaFetcher().policy).toMatchObject({
      allow_direct_ip: false,
      allow_direct_port: false,
      allow_private_ips: false,
      allowed_media_domains: null,
      timeout: 30,
      user_agent: "dynamo-ai/dynamo",
      max_image_bytes: 64 * 1024 * 1024,
      max_data_url_bytes: 16 * 1024 * 1024,
    });
  });
});

test("messages about a URL repeat neither its path nor its query nor its credentials", () => {
  const urls = [
    "http://name:secret@example.com/secret",
    "http://localhost/secret?secret",
    "http://127.0.0.1/secret",
    "http://example.com:99/secret",
    "ftp://secret.example.com/secret",
    `http://example.com/secret${"a".repeat(20_000)}`,
  ];
  for (const url of urls) {
    expect(() => new MediaFetcher().checkUrl(url)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("secret") }),
    );
  }
});
