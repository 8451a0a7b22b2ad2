/** From a source to an encoded medium, under a policy. */
import { validateHeaderValue } from "node:http";
import tls, { type SecureContext } from "node:tls";
import { ABORTED, unlessAborted } from "../abort.ts";
import { type EncodedMedium, isEncodedFile } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import { FetchClock } from "./clock.ts";
import { decodeDataUrl, isDataUrl } from "./data_url.ts";
import { sha256Of } from "./digest.ts";
import { fetchHttp, type HttpContext } from "./http.ts";
import { checkFileUrl, readFileUrl, readLocalFile } from "./local_file.ts";
import {
  type FetchedMedium,
  type FetchRequest,
  fetchRequestSchema,
  type MediaKind,
  type MediaSource,
  type NotModified,
} from "./medium.ts";
import { type FetchPolicy, type FetchPolicyOptions, fetchPolicySchema } from "./policy.ts";
import { type Resolver, systemResolver } from "./resolver.ts";
import { SpoolBudget } from "./spool_budget.ts";
import { Turns } from "./turns.ts";
import { parseUrl, schemeRefused, UrlPolicy } from "./url_policy.ts";

type Settings = ReturnType<typeof fetchRequestSchema.parse>;

/**
 * The one way in for whatever is loaded. It reads no settings from the environment but, as every program does, which proxy there is.
 * `dispose()` ends all fetches that run.
 */
export class MediaFetcher implements Disposable {
  /** With every default filled in. */
  readonly policy: FetchPolicy;
  readonly #urls: UrlPolicy;
  readonly #turns: Turns;
  readonly #spool: SpoolBudget;
  readonly #http: HttpContext;
  readonly #closing = new AbortController();
  /** Settles when all data URLs so far have been decoded or given up; never fails. */
  #lastDataUrl: Promise<void> = Promise.resolve();

  /**
   * @param internals.resolve in place of the system's resolver, for tests
   * @throws MediaError invalid_options
   */
  constructor(options: FetchPolicyOptions = {}, internals: { readonly resolve?: Resolver } = {}) {
    this.policy = parseOptions(fetchPolicySchema, options, "fetch policy");
    this.#urls = new UrlPolicy(this.policy);
    this.#turns = new Turns(this.policy);
    this.#spool = new SpoolBudget(this.policy.max_spooled_bytes);
    checkUserAgent(this.policy.user_agent);
    this.#http = {
      policy: this.policy,
      urls: this.#urls,
      turns: this.#turns,
      resolve: internals.resolve ?? systemResolver,
      trust: authorities(this.policy.tls_ca),
    };
  }

  /** Requests over HTTP that run, and those that wait for their turn. */
  get activity(): { active: number; waiting: number } {
    return { active: this.#turns.active, waiting: this.#turns.waiting };
  }

  /**
   * Fetches a medium. With `validators` the origin may answer that the caller's copy is current.
   * @returns the encoded bytes, or an open file, of which the caller disposes
   * @throws MediaError url_invalid, url_refused, redirect_refused, origin_refused, fetch_failed, fetch_timeout, data_url_invalid,
   *   file_unreadable, media_too_large, media_empty, overloaded, egress_proxy_refused, system_failed, invalid_argument,
   *   invalid_options, aborted, closed
   */
  fetch(source: MediaSource, request?: FetchRequest & { readonly validators?: undefined }): Promise<FetchedMedium>;
  fetch(source: MediaSource, request: FetchRequest): Promise<FetchedMedium | NotModified>;
  async fetch(source: MediaSource, request: FetchRequest = {}): Promise<FetchedMedium | NotModified> {
    const settings = parseOptions(fetchRequestSchema, request, "fetch request");
    using clock = this.#clockFor(source, settings.signal);
    clock.signal.throwIfAborted();
    const reading = this.#read(source, settings, clock);
    const outcome = await unlessAborted(reading, clock.signal);
    if (outcome !== ABORTED) return outcome;
    // What comes of it, an error included, is nobody's any more.
    reading.then(disposeOfLate, () => {});
    throw clock.signal.reason;
  }

  /**
   * Judges what can be judged about a URL without the network: scheme, credentials, port, names, addresses, allowed hosts; of a
   * `file:` URL whether it names what is below the allowed folder. Of a data URL, which has everything in it, nothing: fetch it.
   * @throws MediaError url_invalid, url_refused
   */
  checkUrl(url: string | URL): void {
    const text = String(url);
    if (isDataUrl(text)) return;
    const parsed = parseUrl(text);
    if (parsed.protocol === "file:") checkFileUrl(parsed, this.policy.allowed_local_path);
    else this.#urls.checkWeb(parsed);
  }

  dispose(): void {
    this.#closing.abort();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Only what comes over the network has time limits. */
  #clockFor(source: MediaSource, signal: AbortSignal | undefined): FetchClock {
    const isWeb = isUrlSource(source) && /^\s*https?:/i.test(String(source));
    return new FetchClock({ ...this.policy, ...(isWeb ? {} : { timeout: null }) }, [
      { signal: this.#closing.signal, error: () => new MediaError("closed", "The fetcher was disposed of") },
      ...(signal ? [{ signal, error: () => abortedError(signal) }] : []),
    ]);
  }

  async #read(source: MediaSource, settings: Settings, clock: FetchClock): Promise<FetchedMedium | NotModified> {
    const url = isUrlSource(source) ? String(source) : null;
    if (url !== null && !isDataUrl(url)) {
      const parsed = parseUrl(url);
      if (parsed.protocol !== "file:") {
        this.#urls.checkWeb(parsed);
        return fetchHttp(
          parsed,
          { ...settings, maximumBytes: this.#limitOf(settings.kind), spool: this.#spool },
          this.#http,
          clock,
        );
      }
    }
    const encoded = await this.#readHere(source, clock.signal);
    if (encoded.byteLength === 0) throw new MediaError("media_empty", "There are no bytes to decode");
    const isHashed = settings.digest && !isEncodedFile(encoded);
    const sha256 = isHashed ? await sha256Of(encoded, clock.signal) : null;
    return { notModified: false, encoded, sha256, response: null };
  }

  /** What needs no network. */
  async #readHere(source: MediaSource, signal: AbortSignal): Promise<EncodedMedium> {
    const { max_local_bytes, max_data_url_bytes, allowed_local_path } = this.policy;
    if (source instanceof Uint8Array || source instanceof ArrayBuffer) {
      const bytes = source instanceof Uint8Array ? source : new Uint8Array(source);
      if (bytes.byteLength <= max_local_bytes) return bytes;
      throw new MediaError("media_too_large", `The medium is larger than the limit of ${max_local_bytes} bytes`);
    }
    if (isUrlSource(source)) {
      const text = String(source);
      if (isDataUrl(text)) return this.#oneByOne(() => decodeDataUrl(text, max_data_url_bytes, signal));
      if (allowed_local_path === null) throw schemeRefused();
      return readFileUrl(parseUrl(text), allowed_local_path, max_local_bytes);
    }
    if (typeof source === "object" && source !== null && typeof source.path === "string") {
      return readLocalFile(source.path, max_local_bytes);
    }
    throw new MediaError("invalid_argument", "A medium is given as bytes, as {path}, or as a URL");
  }

  /**
   * Data URLs are decoded one behind the other: together they would not be done sooner, and as many as come at once would all be in
   * memory before the first of them is counted where it waits for its decoder.
   */
  #oneByOne<T>(decode: () => Promise<T>): Promise<T> {
    const decoding = this.#lastDataUrl.then(decode);
    this.#lastDataUrl = decoding.then(
      () => {},
      () => {},
    );
    return decoding;
  }

  #limitOf(kind: MediaKind | undefined): number {
    const { max_image_bytes, max_audio_bytes, max_video_bytes } = this.policy;
    return { image: max_image_bytes, audio: max_audio_bytes, video: max_video_bytes }[kind ?? "video"];
  }
}

function isUrlSource(source: MediaSource): source is string | URL {
  return typeof source === "string" || source instanceof URL;
}

function abortedError(signal: AbortSignal): MediaError {
  return new MediaError("aborted", "The caller gave up before the medium was read", { cause: signal.reason });
}

function disposeOfLate(medium: FetchedMedium | NotModified): void {
  if (!medium.notModified && isEncodedFile(medium.encoded)) medium.encoded.dispose();
}

function checkUserAgent(value: string): void {
  try {
    validateHeaderValue("user-agent", value);
  } catch (cause) {
    throw new MediaError("invalid_options", "invalid fetch policy: user_agent: no text for a header field", { cause });
  }
}

/** The built-in authorities and some more. @throws MediaError invalid_options */
function authorities(pem: string | undefined): SecureContext | undefined {
  if (pem === undefined) return undefined;
  try {
    return tls.createSecureContext({ ca: [...tls.getCACertificates("default"), pem] });
  } catch (cause) {
    throw new MediaError("invalid_options", "invalid fetch policy: tls_ca: no certificates in PEM", { cause });
  }
}
