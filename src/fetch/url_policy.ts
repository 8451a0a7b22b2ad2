/** What can be said about a URL before anything is looked up or opened. */
import { MediaError } from "../errors.ts";
import { bareHost, isAddress, isBlockedName, isPublicAddress } from "./addresses.ts";
import type { FetchPolicy } from "./policy.ts";

/** Longer ones are no address of anything; many servers refuse half of it. */
export const MOST_URL_CHARACTERS = 16 * 1024;
/** A host name has at most 253 characters; messages need not repeat more than that. */
const MOST_HOST_CHARACTERS = 100;

/** Judges URLs by a policy. Stateless. */
export class UrlPolicy {
  readonly #policy: FetchPolicy;
  /** Null: all hosts. */
  readonly #allowedHosts: ReadonlySet<string> | null;

  /** @throws MediaError invalid_options for an allowed host that is none */
  constructor(policy: FetchPolicy) {
    this.#policy = policy;
    this.#allowedHosts = policy.allowed_media_domains && new Set(policy.allowed_media_domains.map(allowedHost));
  }

  /**
   * A URL that is to be requested: everything about it but where its name leads.
   * @throws MediaError url_refused
   */
  checkWeb(url: URL): void {
    const policy = this.#policy;
    if (url.protocol !== "http:" && url.protocol !== "https:") throw schemeRefused();
    // What the parser drops as empty ("http://@host/", "http://:@host/") is no credential.
    if (url.username !== "" || url.password !== "") throw refused("URLs with credentials are not fetched");
    if (url.port !== "" && !policy.allow_direct_port) throw refused("URLs with a port of their own are not fetched");
    if (url.port === "0") throw new MediaError("url_invalid", "The URL's port is none");
    const host = bareHost(url.hostname);
    if (host === "" || host.includes("..")) throw new MediaError("url_invalid", "The URL's host is no name");
    if (isAddress(host)) {
      if (!policy.allow_direct_ip) throw refused("URLs with an address in place of a host name are not fetched");
      this.checkAddresses(url, [host]);
    } else if (!policy.allow_private_ips && isBlockedName(host)) {
      throw refused(`${shownHost(url)} is not a public name`);
    }
    if (this.#allowedHosts && !this.#allowedHosts.has(host)) {
      throw refused(`${shownHost(url)} is not among the hosts that are fetched from`);
    }
  }

  /** Where the URL's host leads: one bad address among good ones is enough. @throws MediaError url_refused */
  checkAddresses(url: URL, addresses: readonly string[]): void {
    if (this.#policy.allow_private_ips || addresses.every(isPublicAddress)) return;
    // Which address it is, is nothing that a stranger should learn.
    throw refused(`${shownHost(url)} leads to an address that is not public`);
  }
}

/** @throws MediaError url_invalid */
export function parseUrl(text: string): URL {
  if (text.length > MOST_URL_CHARACTERS) {
    throw new MediaError("url_invalid", `The URL is longer than ${MOST_URL_CHARACTERS} characters`);
  }
  const url = URL.parse(text);
  if (!url) throw new MediaError("url_invalid", "The text is no URL");
  return url;
}

/** What messages may say about a URL: no path, no query, no credentials. */
export function shownHost(url: URL): string {
  return url.host.length <= MOST_HOST_CHARACTERS ? url.host : `${url.host.slice(0, MOST_HOST_CHARACTERS)}…`;
}

export function schemeRefused(): MediaError {
  return refused("Only HTTP(S) and data URLs are allowed");
}

/** An entry of the allowlist as URLs have their hosts: lower case, IDNs in ASCII, no trailing dot. */
function allowedHost(entry: string): string {
  const url = URL.parse(`http://${entry.includes(":") && !entry.startsWith("[") ? `[${entry}]` : entry}`);
  const isHost = url && !/[/?#@\\\s*]/.test(entry) && url.port === "" && bareHost(url.hostname) !== "";
  if (!isHost) {
    throw new MediaError("invalid_options", "invalid fetch policy: allowed_media_domains: an entry is no host name");
  }
  return bareHost(url.hostname);
}

function refused(message: string): MediaError {
  return new MediaError("url_refused", message);
}
