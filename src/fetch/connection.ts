/** One connection for one request, to an address that was judged or to a proxy; nothing is kept alive. */
import http from "node:http";
import net, { isIPv6, type Socket } from "node:net";
import tls, { type SecureContext } from "node:tls";
import { bareHost, isAddress } from "./addresses.ts";
import type { FetchClock } from "./clock.ts";
import { fetchFailure, proxyFailure } from "./failures.ts";
import { PacedStream } from "./paced_stream.ts";
import { tunnelThrough } from "./proxy.ts";

/** How long an address may take to answer while there are others to try, ms. */
const NEXT_ADDRESS_MS = 3000;

/** What an answer's header may have, bytes; more is refused by the parser before it is kept. */
const MOST_HEADER_BYTES = 16 * 1024;
/** Answers of status 1xx before the real one. */
const MOST_INTERIM_ANSWERS = 8;
/** All that may come before an answer's header has ended; the parser skips blank lines without counting them. */
const MOST_BYTES_BEFORE_ANSWER = (MOST_INTERIM_ANSWERS + 2) * MOST_HEADER_BYTES;

/** Where a request goes. Addresses are never names, so that nothing is looked up behind the judge's back. */
export type Route = { readonly addresses: readonly string[] } | { readonly proxy: URL };

/** A stream that is destroyed when it is disposed of, and at once when the fetch has to end. */
export interface Connection extends Disposable {
  readonly stream: PacedStream;
}

/**
 * Connects, and for https checks the certificate against the URL's host. Addresses are tried one after the other until one
 * accepts a connection; what fails later is final.
 * @param trust of the authorities; undefined: those built in
 * @throws MediaError fetch_failed, egress_proxy_failed, system_failed, or the clock's
 */
export async function connect(
  url: URL,
  route: Route,
  trust: SecureContext | undefined,
  clock: FetchClock,
): Promise<Connection> {
  const sockets: Socket[] = [];
  const destroy = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const registration = clock.onEnd(destroy);
  const dispose = (): void => {
    registration[Symbol.dispose]();
    destroy();
  };
  try {
    clock.touch();
    const plain =
      "proxy" in route ? await dialProxy(route.proxy, trust, clock) : await dialFirst(url, route.addresses, clock);
    sockets.push(plain);
    let socket = plain;
    if (url.protocol === "https:") {
      const inner = "proxy" in route ? await tunnelThrough(plain, route.proxy, url, clock) : plain;
      sockets.push(inner);
      socket = await secured(inner, bareHost(url.hostname), trust, clock);
      sockets.push(socket);
    }
    clock.signal.throwIfAborted();
    return { stream: new PacedStream(socket), [Symbol.dispose]: dispose };
  } catch (error) {
    dispose();
    throw clock.signal.aborted ? clock.signal.reason : fetchFailure(url, error);
  }
}

async function dialFirst(url: URL, addresses: readonly string[], clock: FetchClock): Promise<Socket> {
  const port = portOf(url);
  let failure: unknown;
  for (const [index, address] of addresses.entries()) {
    const isLast = index === addresses.length - 1;
    try {
      return await dialed(address, port, clock, isLast ? null : NEXT_ADDRESS_MS);
    } catch (error) {
      clock.signal.throwIfAborted();
      // On a machine without IPv6, such an address is merely out of reach: ports to come from are short for IPv4 at first.
      const isOutOfReach = isIPv6(address) && (error as { code?: unknown }).code === "EADDRNOTAVAIL";
      failure = isOutOfReach ? coded("ENETUNREACH", "no IPv6 here") : error;
    }
  }
  throw failure;
}

async function dialProxy(proxy: URL, trust: SecureContext | undefined, clock: FetchClock): Promise<Socket> {
  const host = bareHost(proxy.hostname);
  try {
    const socket = await dialed(host, portOf(proxy), clock, null);
    return proxy.protocol === "https:" ? await secured(socket, host, trust, clock) : socket;
  } catch (error) {
    clock.signal.throwIfAborted();
    throw proxyFailure(error);
  }
}

/** @param limitMs after which it is given up; null: the clock's limits only */
function dialed(host: string, port: number, clock: FetchClock, limitMs: number | null): Promise<Socket> {
  const socket = net.connect({ host, port });
  const timer =
    limitMs === null ? undefined : setTimeout(() => socket.destroy(coded("ETIMEDOUT", "no answer")), limitMs);
  return ready(socket, "connect", clock).finally(() => clearTimeout(timer));
}

function secured(socket: Socket, host: string, trust: SecureContext | undefined, clock: FetchClock): Promise<Socket> {
  const secure = tls.connect({
    socket,
    host,
    // Server names are names; a certificate for an address is checked against `host`.
    ...(isAddress(host) ? {} : { servername: host }),
    ...(trust ? { secureContext: trust } : {}),
    // Said aloud: NODE_TLS_REJECT_UNAUTHORIZED=0 is for other programs.
    rejectUnauthorized: true,
  });
  return ready(secure, "secureConnect", clock);
}

/** The socket once the event has come; a failure or the fetch's end destroys it. */
async function ready(socket: Socket, event: "connect" | "secureConnect", clock: FetchClock): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Stays for good: an error that nobody listens to would end the program.
  socket.on("error", reject);
  socket.once(event, resolve);
  socket.once("close", () => reject(coded("ECONNRESET", "closed")));
  using _ = clock.onEnd(() => {
    reject(clock.signal.reason);
    socket.destroy();
  });
  try {
    await promise;
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/**
 * Sends a GET request over a connection and waits for the answer's header.
 * @param target path, or the whole URL for a proxy
 * @throws MediaError fetch_failed, system_failed, or the clock's
 */
export async function request(
  connection: Connection,
  url: URL,
  target: string,
  headers: Readonly<Record<string, string>>,
  clock: FetchClock,
): Promise<http.IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
  const sent = http.request({
    method: "GET",
    path: target,
    setHost: false,
    headers: { host: url.host, ...headers, connection: "close" },
    maxHeaderSize: MOST_HEADER_BYTES,
    createConnection: () => connection.stream,
  });
  let interim = 0;
  sent.on("information", () => {
    interim += 1;
    if (interim > MOST_INTERIM_ANSWERS) sent.destroy(coded("HPE_INTERIM", "too many interim answers"));
  });
  sent.on("error", reject); // once there is an answer, whoever reads it asks the stream whether it broke
  sent.on("close", () => reject(coded("ECONNRESET", "closed")));
  sent.on("response", (response) => {
    response.on("error", () => {}); // whoever reads it hears of it too; when nobody does, it is nobody's
    resolve(response);
  });
  using _ = clock.onEnd(() => reject(clock.signal.reason));
  connection.stream.allow(MOST_BYTES_BEFORE_ANSWER);
  sent.end();
  try {
    const response = await promise;
    connection.stream.allow(Number.POSITIVE_INFINITY);
    clock.touch();
    return response;
  } catch (error) {
    sent.destroy();
    throw clock.signal.aborted ? clock.signal.reason : fetchFailure(url, error);
  }
}

function portOf(url: URL): number {
  if (url.port !== "") return Number(url.port);
  return url.protocol === "https:" ? 443 : 80;
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}
