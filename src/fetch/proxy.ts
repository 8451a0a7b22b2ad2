/** Proxies that the environment names, as every program goes by: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. */
import http from "node:http";
import type { Socket } from "node:net";
import { getProxyForUrl } from "proxy-from-env";
import { MediaError } from "../errors.ts";
import type { FetchClock } from "./clock.ts";
import { proxyFailure } from "./failures.ts";
import { shownHost } from "./url_policy.ts";

/**
 * The proxy that a URL is to be fetched through; null when there is none. A proxy resolves names itself, so nobody here sees which
 * address is connected to: it is used only by whoever says that it can be trusted with that.
 * @throws MediaError egress_proxy_refused
 */
export function proxyFor(url: URL, isTrusted: boolean): URL | null {
  const text = getProxyForUrl(url.href);
  if (text === "") return null;
  if (!isTrusted) {
    throw new MediaError(
      "egress_proxy_refused",
      "An HTTP proxy is configured, and trust_egress_proxy does not say that it checks addresses",
    );
  }
  const proxy = URL.parse(text);
  if (!proxy || (proxy.protocol !== "http:" && proxy.protocol !== "https:")) {
    throw new MediaError("egress_proxy_refused", "The proxy that is configured is none for HTTP");
  }
  return proxy;
}

/** The header field by which the program authenticates to its own proxy, if the proxy's URL has credentials. */
export function proxyCredentials(proxy: URL): Record<string, string> {
  if (proxy.username === "" && proxy.password === "") return {};
  const plain = `${unescaped(proxy.username)}:${unescaped(proxy.password)}`;
  return { "proxy-authorization": `Basic ${Buffer.from(plain).toString("base64")}` };
}

/** The proxy wants other credentials than it was given, or some at all. */
export function credentialsRefused(): MediaError {
  return new MediaError("egress_proxy_failed", "The proxy does not accept this server's credentials (status 407)");
}

/** Has a proxy connect to a URL's host. @throws MediaError fetch_failed, egress_proxy_failed, system_failed, or the clock's */
export async function tunnelThrough(socket: Socket, proxy: URL, url: URL, clock: FetchClock): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const authority = `${url.hostname}:${url.port || 443}`;
  const asked = http.request({
    method: "CONNECT",
    path: authority,
    setHost: false,
    headers: { host: authority, ...proxyCredentials(proxy) },
    createConnection: () => socket,
  });
  const refuse = (status: number | undefined): void =>
    reject(
      status === 407
        ? credentialsRefused()
        : new MediaError("fetch_failed", `The proxy does not connect to ${shownHost(url)}: status ${status}`),
    );
  asked.on("connect", (answer, tunnel: Socket) => {
    if (answer.statusCode === 200) resolve(tunnel);
    else refuse(answer.statusCode);
  });
  asked.on("response", (answer) => refuse(answer.statusCode));
  asked.on("error", (error) => reject(proxyFailure(error)));
  asked.on("close", () => reject(new MediaError("egress_proxy_failed", "The proxy broke off")));
  using _ = clock.onEnd(() => reject(clock.signal.reason));
  asked.end();
  return await promise;
}

/** Text as it stands when its percent signs are no escapes. */
function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
