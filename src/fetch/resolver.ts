/** From a host to the addresses that may be connected to. */
import { dns } from "bun";
import { ABORTED, unlessAborted } from "../abort.ts";
import { MediaError } from "../errors.ts";
import { bareHost, isAddress } from "./addresses.ts";
import type { FetchClock } from "./clock.ts";
import { resolveFailure } from "./failures.ts";
import { shownHost, type UrlPolicy } from "./url_policy.ts";

/** All addresses of a name, the preferred one first. */
export type Resolver = (name: string) => Promise<readonly string[]>;

/**
 * As other programs of this machine resolve names, /etc/hosts and search domains included, but without a thread that waits: slow
 * names would take all threads that this process has, and files, decompression and the rest would wait for a stranger's name server.
 */
export const systemResolver: Resolver = async (name) => {
  const entries = await dns.lookup(name, { backend: "c-ares" });
  return entries.map(({ address }) => address);
};

/**
 * Resolves a URL's host, once, and judges every address that comes of it.
 * @returns what may be connected to, without anything being looked up again
 * @throws MediaError url_refused, fetch_failed, system_failed, or the clock's
 */
export async function judgedAddresses(
  url: URL,
  policy: UrlPolicy,
  resolve: Resolver,
  clock: FetchClock,
): Promise<readonly string[]> {
  const host = bareHost(url.hostname);
  if (isAddress(host)) {
    policy.checkAddresses(url, [host]);
    return [host];
  }
  clock.touch();
  // With its trailing dot, if it has one: without it, the search domains of this machine would be tried.
  const found = await unlessAborted(resolve(url.hostname), clock.signal).catch((cause: unknown) => {
    throw resolveFailure(url, cause);
  });
  if (found === ABORTED) throw clock.signal.reason;
  const addresses = [...new Set(found)];
  if (addresses.length === 0) throw new MediaError("fetch_failed", `The name ${shownHost(url)} has no address`);
  policy.checkAddresses(url, addresses);
  return addresses;
}
