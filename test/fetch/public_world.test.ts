/** The default policy on real sockets: public addresses, ports 80 and 443, and a real name server, in a network of its own. */
import { beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type Case, type Outcome, PUBLIC_IPV4, PUBLIC_IPV6, type Report } from "../support/public_world.ts";

const PROGRAM = join(import.meta.dir, "../support/public_world.ts");
const to = (url: string): string => encodeURIComponent(url);

/** Fetched; one connection, or as many as said, to public origins and none inside. */
const FETCHED: [Case, connections?: number][] = [
  [{ url: "http://public.example/" }],
  [{ url: "http://PUBLIC.example./" }],
  [{ url: "http://public6.example/" }],
  [{ url: "http://both.example/" }],
  [{ url: "https://public.example/" }],
  [{ url: "https://public6.example/" }],
  [{ url: "https://both.example/", policy: { allowed_media_domains: ["BOTH.example"] } }],
  [{ url: `http://${PUBLIC_IPV4}/`, policy: { allow_direct_ip: true } }],
  [{ url: `http://[${PUBLIC_IPV6}]/`, policy: { allow_direct_ip: true } }],
  [{ url: `http://public.example/to/${to("https://public6.example/")}` }, 2],
  [{ url: `https://public.example/to/${to("http://public.example/")}`, policy: { allow_https_to_http: true } }, 2],
];

/** Refused before anything is connected to. */
const REFUSED: Case[] = [
  ...["mixed", "mixed6", "loopback", "loopback6", "private", "private6", "nat64", "cloud", "mapped"].flatMap((name) => [
    { url: `http://${name}.example/` },
    { url: `https://${name}.example/`, policy: { allow_direct_ip: true, allow_direct_port: true } },
  ]),
  { url: "http://public.example:8080/" },
  { url: `http://${PUBLIC_IPV4}/` },
  { url: "http://localhost/" },
  { url: "http://2130706433/", policy: { allow_direct_ip: true } },
  { url: "http://[::ffff:a00:5]/", policy: { allow_direct_ip: true } },
  { url: "http://[64:ff9b::a00:5]/", policy: { allow_direct_ip: true } },
  { url: "http://user:password@public.example/" },
  { url: "http://public.example/", policy: { allowed_media_domains: ["other.example"] } },
];

/** Redirected by a public origin to what is not allowed: one connection to the origin, none to the target. */
const REDIRECTED: Case[] = [
  "http://127.0.0.1/",
  "http://[::1]/",
  "http://2130706433/",
  "http://localhost/",
  "http://loopback.example/",
  "https://loopback.example/",
  "http://mixed.example/",
  "http://cloud.example/latest/meta-data/",
  "http://169.254.169.254/latest/meta-data/",
  "http://public.example:8080/",
  "http://user:password@public.example/",
  `http://${PUBLIC_IPV4}/`,
  "file:///etc/passwd",
].map((target) => ({ url: `http://public.example/to/${to(target)}` }));
REDIRECTED.push(
  { url: `https://public.example/to/${to("http://public.example/")}` },
  {
    url: `http://public.example/to/${to("http://other.example/")}`,
    policy: { allowed_media_domains: ["public.example"] },
  },
);

/** Fails at the origin, or for want of it. */
const FAILED: [Case, connections: number][] = [
  [{ url: "https://other.example/" }, 1],
  [{ url: "http://missing.example/" }, 0],
  [{ url: "http://empty.example/" }, 0],
];

/** Public when it is asked for first, inside from then on. */
const REBINDING: Case[] = Array.from({ length: 3 }, () => ({ url: "http://rebind.example/" }));

const CASES: Case[] = [
  ...FETCHED.map(([one]) => one),
  ...REFUSED,
  ...REDIRECTED,
  ...FAILED.map(([one]) => one),
  ...REBINDING,
];
let report: Report;

beforeAll(async () => {
  const isRoot = process.getuid?.() === 0;
  const unshare = ["unshare", "--net", "--mount", ...(isRoot ? [] : ["--map-root-user"])];
  const child = Bun.spawn([...unshare, process.execPath, PROGRAM, JSON.stringify(CASES)], { stderr: "pipe" });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (child.exitCode !== 0) throw new Error(`the network of its own could not be had: ${stderr}`);
  report = JSON.parse(stdout);
});

function outcomeOf(wanted: Case): Outcome | undefined {
  return report.outcomes[CASES.indexOf(wanted)];
}

describe("under the default policy", () => {
  test.each(FETCHED)("%j is fetched", (one, connections = 1) => {
    expect(outcomeOf(one)).toMatchObject({ code: "5 bytes", outside: connections, inside: 0 });
  });

  test.each(REFUSED)("%j is refused, and nobody is connected to", (one) => {
    expect(outcomeOf(one)).toMatchObject({ code: "url_refused", outside: 0, inside: 0 });
  });

  test.each(REDIRECTED)("%j is a refused redirect, whose target is not connected to", (one) => {
    expect(outcomeOf(one)).toMatchObject({ code: "redirect_refused", outside: 1, inside: 0 });
  });

  test.each(FAILED)("%j fails, and is not tried again", (one, connections) => {
    expect(outcomeOf(one)).toMatchObject({ code: "fetch_failed", outside: connections, inside: 0 });
  });

  test("a name that rebinds is resolved once for a fetch, and never gets a connection inside", () => {
    const [first, ...later] = REBINDING.map(outcomeOf);
    expect(first).toEqual({ code: "5 bytes", outside: 1, inside: 0, resolved: 1 });
    for (const outcome of later) expect(outcome).toMatchObject({ code: "url_refused", outside: 0, inside: 0 });
  });
});

test("names that nobody answers for hold up neither files nor each other, and are given up in time", () => {
  expect(report.ended).toEqual(["file", ...Array.from({ length: 32 }, () => "fetch_timeout")]);
});

test("that no port is left to connect from is this machine's fault", () => {
  expect(report.withoutPorts).toBe("system_failed 500");
});
