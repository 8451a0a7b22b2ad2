/** Media over HTTP: hop by hop, each judged like the first one. */
import type { IncomingMessage } from "node:http";
import type { SecureContext } from "node:tls";
import { MediaError } from "../errors.ts";
import { type IncomingAnswer, readBody } from "./body.ts";
import type { FetchClock } from "./clock.ts";
import { type Connection, connect, type Route, request } from "./connection.ts";
import type { FetchedMedium, HttpAnswer, NotModified, Validators } from "./medium.ts";
import type { FetchPolicy } from "./policy.ts";
import { credentialsRefused, proxyCredentials, proxyFor } from "./proxy.ts";
import { judgedAddresses, type Resolver } from "./resolver.ts";
import type { SpoolBudget } from "./spool_budget.ts";
import type { Turns } from "./turns.ts";
import { shownHost, type UrlPolicy } from "./url_policy.ts";

const MOST_REDIRECTS = 3;
const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** Of an answer's header, what tells whether it may be used again (RFC 9111) and what it was. */
const KEPT_FIELDS = [
  "age",
  "cache-control",
  "content-encoding",
  "content-length",
  "content-type",
  "date",
  "etag",
  "expires",
  "last-modified",
  "pragma",
  "vary",
] as const;

/** What all fetches of one fetcher share. */
export interface HttpContext {
  readonly policy: FetchPolicy;
  readonly urls: UrlPolicy;
  readonly turns: Turns;
  readonly resolve: Resolver;
  /** Authorities that certificates are checked against; undefined: those built in. */
  readonly trust: SecureContext | undefined;
}

/** What is wanted of one fetch. */
export interface HttpJob {
  readonly maximumBytes: number;
  readonly digest: boolean;
  /** What large media count against. */
  readonly spool: SpoolBudget;
  readonly validators?: Validators | undefined;
}

/**
 * Fetches a URL, redirects followed. Nothing is ever tried again.
 * @param url was judged
 * @throws MediaError with any code that a fetch has
 */
export async function fetchHttp(
  url: URL,
  job: HttpJob,
  context: HttpContext,
  clock: FetchClock,
): Promise<FetchedMedium | NotModified> {
  const redirects: HttpAnswer[] = [];
  let current = url;
  for (;;) {
    using _ = await context.turns.take(current.origin, clock, redirects.length > 0);
    const route = await asHop(redirects.length > 0, current, () => routeTo(current, context, clock));
    using connection = await connect(current, route, context.trust, clock);
    const validators = current.href === (job.validators?.url ?? url.href) ? job.validators : undefined;
    const message = await ask(connection, current, route, validators, context, clock);
    if (message.statusCode === 407 && "proxy" in route && current.protocol === "http:") throw credentialsRefused();
    const target = redirectTarget(message, current);
    const hop = { ...job, validators };
    if (!target) return await outcome({ message, stream: connection.stream }, current, redirects, hop, clock);
    redirects.push(answerOf(message, current));
    const from = current;
    if (redirects.length > MOST_REDIRECTS) throw redirectRefused(from, `more than ${MOST_REDIRECTS} times`);
    if (from.protocol === "https:" && target.protocol === "http:" && !context.policy.allow_https_to_http) {
      throw redirectRefused(from, "from https to http");
    }
    await asHop(true, from, async () => context.urls.checkWeb(target));
    clock.rest();
    current = target;
  }
}

/** The way to a URL that was judged: an address of its own, all of which are judged, or a proxy that is trusted with that. */
async function routeTo(url: URL, context: HttpContext, clock: FetchClock): Promise<Route> {
  const proxy = proxyFor(url, context.policy.trust_egress_proxy);
  return proxy ? { proxy } : { addresses: await judgedAddresses(url, context.urls, context.resolve, clock) };
}

/** What the policy refuses behind a redirect is a refused redirect. */
async function asHop<T>(isRedirect: boolean, url: URL, judge: () => Promise<T>): Promise<T> {
  try {
    return await judge();
  } catch (error) {
    const isRefusal = error instanceof MediaError && (error.code === "url_refused" || error.code === "url_invalid");
    if (!isRedirect || !isRefusal) throw error;
    throw redirectRefused(url, `to what is not allowed: ${error.message}`, error);
  }
}

function ask(
  connection: Connection,
  url: URL,
  route: Route,
  validators: Validators | undefined,
  context: HttpContext,
  clock: FetchClock,
): Promise<IncomingMessage> {
  const { etag, lastModified } = validators ?? {};
  const path = `${url.pathname}${url.search}`;
  // A proxy is told where a plain request is to go; inside a tunnel it is out of sight.
  const proxy = "proxy" in route && url.protocol === "http:" ? route.proxy : null;
  const headers = {
    "user-agent": context.policy.user_agent,
    accept: "*/*",
    "accept-encoding": "identity",
    ...(etag === undefined ? {} : { "if-none-match": etag }),
    ...(lastModified === undefined ? {} : { "if-modified-since": lastModified }),
    ...(proxy ? proxyCredentials(proxy) : {}),
  };
  return request(connection, url, proxy ? `http://${url.host}${path}` : path, headers, clock);
}

/** Where an answer redirects to; null when it does not. @throws MediaError redirect_refused */
function redirectTarget(response: IncomingMessage, url: URL): URL | null {
  const { location } = response.headers;
  if (location === undefined || !REDIRECT_STATUSES.has(response.statusCode ?? 0)) return null;
  const target = URL.parse(location, url.href);
  if (!target) throw redirectRefused(url, "to what is no URL");
  target.hash = "";
  return target;
}

async function outcome(
  response: IncomingAnswer,
  url: URL,
  redirects: readonly HttpAnswer[],
  job: HttpJob,
  clock: FetchClock,
): Promise<FetchedMedium | NotModified> {
  const facts = { ...answerOf(response.message, url), redirects };
  const { status } = facts;
  if (status === 304 && job.validators) return { notModified: true, response: facts };
  // A part of a medium (206) was not asked for, and is none.
  if (status < 200 || status >= 300 || status === 206) {
    throw new MediaError("origin_refused", `${shownHost(url)} answered with status ${status}`);
  }
  if (status === 204 || status === 205) throw new MediaError("media_empty", `${shownHost(url)} has no content there`);
  const { encoded, sha256 } = await readBody(response, url, job, clock);
  return { notModified: false, encoded, sha256, response: facts };
}

function answerOf(response: IncomingMessage, url: URL): HttpAnswer {
  const headers: Record<string, string> = {};
  for (const name of KEPT_FIELDS) {
    const value = response.headers[name];
    if (value !== undefined) headers[name] = value;
  }
  if (response.headers["set-cookie"]) headers["set-cookie"] = "(withheld)";
  return { url: url.href, status: response.statusCode ?? 0, headers };
}

function redirectRefused(from: URL, reason: string, cause?: unknown): MediaError {
  return new MediaError("redirect_refused", `${shownHost(from)} redirects ${reason}`, { cause });
}
