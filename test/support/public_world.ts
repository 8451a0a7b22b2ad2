/**
 * A world of its own: a network namespace whose loopback device has public addresses, with origins on ports 80 and 443, canaries
 * inside, and a name server that rebinds. Fetches under the default policy and prints, as JSON, what came of each URL and who was
 * connected to. To be started with `unshare --net --mount`.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MediaError } from "../../src/errors.ts";
import { type FetchPolicyOptions, MediaFetcher } from "../../src/fetch/index.ts";
import { createCertificates } from "./certificates.ts";
import { startNameServer, type Zone } from "./name_server.ts";
import { answer, type Origin, redirect, startOrigin } from "./origin.ts";

export const PUBLIC_IPV4 = "93.184.216.34";
export const PUBLIC_IPV6 = "2606:4700::1111";
const INSIDE = ["127.0.0.1", "::1", "10.0.0.5", "169.254.169.254", "fd00::5", "64:ff9b::a00:5"];

/** What came of one URL. */
export interface Outcome {
  readonly code: string;
  /** Connections to public origins, and to anything inside or on another port, while it was fetched. */
  readonly outside: number;
  readonly inside: number;
  /** How often the rebinding name was resolved. */
  readonly resolved: number;
}

/** What the program prints. */
export interface Report {
  readonly outcomes: readonly Outcome[];
  /** What ended while a name server was silent: codes of fetches, and "file" for one that was read meanwhile. */
  readonly ended: readonly string[];
  /** What a fetch fails with when no port is left to connect from. */
  readonly withoutPorts: string;
}

export interface Case {
  readonly url: string;
  readonly policy?: FetchPolicyOptions;
}

const ZONE: Zone = {
  "public.example": [[PUBLIC_IPV4]],
  "public6.example": [[PUBLIC_IPV6]],
  "both.example": [[PUBLIC_IPV4, PUBLIC_IPV6]],
  "other.example": [[PUBLIC_IPV4]],
  "mixed.example": [[PUBLIC_IPV4, "127.0.0.1"]],
  "mixed6.example": [[PUBLIC_IPV4, "::1"]],
  "loopback.example": [["127.0.0.1"]],
  "loopback6.example": [["::1"]],
  "private.example": [["10.0.0.5"]],
  "private6.example": [["fd00::5"]],
  "nat64.example": [["64:ff9b::a00:5"]],
  "cloud.example": [["169.254.169.254"]],
  "mapped.example": [["::ffff:127.0.0.1"]],
  "empty.example": [[]],
  "rebind.example": [[PUBLIC_IPV4], ["127.0.0.1"]],
};

/** Redirects as the path says; anything else is a medium. */
function answerOf(header: string): Buffer {
  const target = /^GET \/to\/(\S+)/.exec(header)?.[1];
  return target === undefined ? answer("bytes") : redirect(decodeURIComponent(target));
}

async function startWorld() {
  const certificates = createCertificates("DNS:public.example,DNS:public6.example,DNS:both.example,DNS:rebind.example");
  const start = (host: string, port: number, tls?: typeof certificates): Promise<Origin> =>
    startOrigin((socket, header) => socket.end(answerOf(header)), { host, port, ...(tls ? { tls } : {}) });
  const outside: Origin[] = [];
  const inside: Origin[] = [await start(PUBLIC_IPV4, 8080)];
  for (const host of [PUBLIC_IPV4, PUBLIC_IPV6]) {
    outside.push(await start(host, 80), await start(host, 443, certificates));
  }
  for (const host of INSIDE) inside.push(await start(host, 80), await start(host, 443, certificates));
  return { certificates, outside, inside };
}

function run(...command: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(command);
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr}`);
}

/** Addresses on the loopback device, and a resolver configuration, both of this namespace only. */
function furnish(folder: string): void {
  run("ip", "link", "set", "lo", "up");
  for (const address of [PUBLIC_IPV4, PUBLIC_IPV6, ...INSIDE]) {
    if (address === "127.0.0.1" || address === "::1") continue;
    const length = address.includes(":") ? 128 : 32;
    run("ip", "address", "add", `${address}/${length}`, "dev", "lo", ...(length === 128 ? ["nodad"] : []));
  }
  writeFileSync(join(folder, "resolv.conf"), "nameserver 127.0.0.1\noptions timeout:2 attempts:1\n");
  run("mount", "--bind", join(folder, "resolv.conf"), "/etc/resolv.conf");
}

/**
 * Fetches from many names that are never answered for, and reads a file meanwhile.
 * @returns what ended in which order
 */
async function fetchSilently(): Promise<string[]> {
  using fetcher = new MediaFetcher({ timeout: 1 });
  const ended: string[] = [];
  const fetches = Array.from({ length: 32 }, async (_, i) => {
    const error: unknown = await fetcher.fetch(`http://silent${i}.example/`).catch((reason: unknown) => reason);
    ended.push(error instanceof MediaError ? error.code : String(error));
  });
  await Bun.sleep(50); // all lookups are under way
  await readFile("/etc/hostname");
  ended.push("file");
  await Promise.all(fetches);
  return ended;
}

/** The one port there is has a connection to the very same origin: nothing can be connected to it any more. */
async function fetchWithoutPorts(): Promise<string> {
  await writeFile("/proc/sys/net/ipv4/ip_local_port_range", "50000 50000");
  const only = net.connect(80, PUBLIC_IPV4);
  await once(only, "connect");
  using fetcher = new MediaFetcher({ allow_direct_ip: true });
  const error: unknown = await fetcher.fetch(`http://${PUBLIC_IPV4}/`).catch((reason: unknown) => reason);
  only.destroy();
  return error instanceof MediaError ? `${error.code} ${error.status}` : String(error);
}

async function main(cases: readonly Case[]): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), "world-"));
  furnish(folder);
  using names = await startNameServer("127.0.0.1", ZONE);
  const { certificates, outside, inside } = await startWorld();
  const sum = (origins: readonly Origin[]): number => origins.reduce((all, { connections }) => all + connections, 0);
  const outcomes: Outcome[] = [];
  for (const { url, policy } of cases) {
    const before = { outside: sum(outside), inside: sum(inside), resolved: names.asked.get("rebind.example") ?? 0 };
    using fetcher = new MediaFetcher({ tls_ca: certificates.ca, ...policy });
    const code = await fetcher.fetch(url).then(
      ({ encoded }) => `${encoded.byteLength} bytes`,
      (error: unknown) => (error instanceof MediaError ? error.code : String(error)),
    );
    outcomes.push({
      code,
      outside: sum(outside) - before.outside,
      inside: sum(inside) - before.inside,
      resolved: (names.asked.get("rebind.example") ?? 0) - before.resolved,
    });
  }
  const ended = await fetchSilently();
  const withoutPorts = await fetchWithoutPorts();
  for (const origin of [...outside, ...inside]) origin[Symbol.dispose]();
  run("umount", "/etc/resolv.conf");
  rmSync(folder, { recursive: true });
  return { outcomes, ended, withoutPorts };
}

if (import.meta.main) {
  console.log(JSON.stringify(await main(JSON.parse(process.argv[2] ?? "[]"))));
  process.exit(0); // lookups that nobody waits for any more go on for a while
}
