/** How long an HTTP answer may be used again (RFC 9111), judged by http-cache-semantics. */
import CachePolicy from "http-cache-semantics";
import type { HttpAnswer, HttpFacts } from "../fetch/index.ts";

/** What the origin can be asked with whether a copy is current. */
export interface Validators {
  /** Of the copy, redirects followed: an ETag is a name within one URL, which another URL may use for something else. */
  readonly url: string;
  readonly etag?: string;
  readonly lastModified?: string;
}

/** The same for all requests that are made here: nothing in them varies. */
function requestFor(url: string) {
  return { url, method: "GET", headers: {} };
}

/** What the answers on the way to a medium say, redirects included: it is fresh as long as all of them are. */
export class HttpFreshness {
  readonly #answers: readonly { readonly url: string; readonly policy: CachePolicy }[];

  private constructor(answers: readonly { readonly url: string; readonly policy: CachePolicy }[]) {
    this.#answers = answers;
  }

  static of(facts: HttpFacts): HttpFreshness {
    return new HttpFreshness(
      [...facts.redirects, facts].map((answer) => ({ url: answer.url, policy: policyOf(answer) })),
    );
  }

  /** Whether what came last may be kept at all; a redirect that may not is asked for again each time. */
  get isStorable(): boolean {
    return this.#answers.at(-1)?.policy.storable() ?? false;
  }

  get isFresh(): boolean {
    return this.#answers.every(
      ({ url, policy }) => policy.storable() && policy.satisfiesWithoutRevalidation(requestFor(url)),
    );
  }

  /** Null when the origin gave nothing to ask with. */
  get validators(): Validators | null {
    const last = this.#answers.at(-1);
    if (!last) return null;
    const { "if-none-match": etag, "if-modified-since": lastModified } = last.policy.revalidationHeaders(
      requestFor(last.url),
    );
    if (typeof etag !== "string" && typeof lastModified !== "string") return null;
    return {
      url: last.url,
      ...(typeof etag === "string" ? { etag } : {}),
      ...(typeof lastModified === "string" ? { lastModified } : {}),
    };
  }

  /** After the origin has answered that the copy is current. */
  refreshed(facts: HttpFacts): HttpFreshness {
    const last = this.#answers.at(-1);
    const redirects = facts.redirects.map((answer) => ({ url: answer.url, policy: policyOf(answer) }));
    if (!last) return HttpFreshness.of(facts);
    // Many origins do not repeat what they were asked with, by which the library tells that the answer is about the copy.
    const { etag, lastModified } = this.validators ?? {};
    const asked = { ...(etag && { etag }), ...(lastModified && { "last-modified": lastModified }) };
    const { policy } = last.policy.revalidatedPolicy(requestFor(facts.url), {
      status: 304,
      headers: { ...asked, ...facts.headers },
    });
    return new HttpFreshness([...redirects, { url: facts.url, policy }]);
  }
}

function policyOf({ url, status, headers }: HttpAnswer): CachePolicy {
  return new CachePolicy(requestFor(url), { status, headers: { ...headers } });
}
