/** Decoded tensors on demand: from the cache, from a load that is under way, or fetched and decoded. */
import { createHash } from "node:crypto";
import { type Decoded, type DecodeRequest, sniffMedia } from "../decode/index.ts";
import { type EncodedMedium, isEncodedFile, MOST_BYTES_IN_MEMORY, sharedBy, startOf } from "../encoded.ts";
import { type ErrorCode, MediaError } from "../errors.ts";
import {
  type FetchedMedium,
  type MediaFetcher,
  type MediaKind,
  type MediaSource,
  MOST_URL_CHARACTERS,
} from "../fetch/index.ts";
import type { Room } from "../nixl/index.ts";
import type { Found, MediaCache } from "./cache.ts";
import { abortedError, Flights } from "./flights.ts";
import { SharedTensor } from "./shared_tensor.ts";

/** What is said of sound where there is none. */
const SILENT: ReadonlySet<ErrorCode> = new Set(["no_audio_stream", "no_samples"]);

/** What is wanted of a source. */
export interface Wanted {
  /** What it has to be; null for whatever it turns out to be. */
  readonly kind: MediaKind | null;
  /** What is to be done with it, told from its first bytes. @throws MediaError media_unsupported, modality_not_enabled */
  readonly requestFor: (start: Uint8Array) => DecodeRequest;
  /** All that decides what {@link requestFor} answers besides the bytes, as text. */
  readonly settingsKey: string;
}

/** Tensors that whoever has them releases. */
export interface ClipWithSound {
  readonly clip: SharedTensor;
  readonly sound: SharedTensor | null;
}

type Decode = (request: DecodeRequest, encoded: EncodedMedium, signal: AbortSignal) => Promise<Decoded<Room>>;

/** Owned by its loader. Whoever acquires a tensor releases it. */
export class TensorSupply {
  readonly #fetcher: MediaFetcher;
  readonly #decode: Decode;
  readonly #cache: MediaCache;
  readonly #byUrl = new Flights();
  readonly #byContent = new Flights();

  constructor(fetcher: MediaFetcher, decode: Decode, cache: MediaCache) {
    this.#fetcher = fetcher;
    this.#decode = decode;
    this.#cache = cache;
  }

  /** Loads that joined one under way. */
  get joined(): number {
    return this.#byUrl.joined + this.#byContent.joined;
  }

  /**
   * The tensor of a source.
   * @returns one that the caller releases
   * @throws MediaError whatever was wrong with source, medium or machine; aborted
   */
  async acquire(source: MediaSource, wanted: Wanted, signal: AbortSignal | undefined): Promise<SharedTensor> {
    if (signal?.aborted) throw abortedError();
    const url = httpUrlOf(source);
    if (url === null) return this.#load(source, wanted, null, signal ?? new AbortController().signal);
    const urlKey = keyOf(url, wanted.kind ?? "any", wanted.settingsKey);
    const found = this.#cache.findByUrl(urlKey);
    if (found?.validators === null) {
      this.#cache.countHit();
      return found.tensor.retain();
    }
    return this.#byUrl.join(urlKey, (ended) => this.#load(url, wanted, { urlKey, found }, ended), signal);
  }

  /**
   * A clip and its sound, fetched once. Unlike {@link acquire} it joins no other fetch.
   * @returns tensors that the caller releases; no sound where the clip has none
   * @throws MediaError as {@link acquire}
   */
  async acquireWithSound(
    source: MediaSource,
    wanted: Wanted,
    soundWanted: Wanted,
    signal: AbortSignal | undefined,
  ): Promise<ClipWithSound> {
    if (signal?.aborted) throw abortedError();
    const url = httpUrlOf(source);
    const keyFor = ({ kind, settingsKey }: Wanted): string | null => url && keyOf(url, kind ?? "any", settingsKey);
    const [clipKey, soundKey] = [keyFor(wanted), keyFor(soundWanted)];
    const [clipFound, soundFound] = [clipKey, soundKey].map((key) => key && this.#cache.findByUrl(key));
    if (clipFound && soundFound && clipFound.validators === null && soundFound.validators === null) {
      this.#cache.countHit();
      this.#cache.countHit();
      return { clip: clipFound.tensor.retain(), sound: soundFound.tensor.retain() };
    }
    const failure = new AbortController();
    const ended = signal ? AbortSignal.any([signal, failure.signal]) : failure.signal;
    const { source: stable, digest } = this.#stable(source);
    const fetched = await this.#fetcher.fetch(stable, { kind: "video", signal: ended, digest });
    const [forClip = fetched.encoded, forSound = fetched.encoded] = sharedBy(2, fetched.encoded);
    const outcomes = await Promise.allSettled([
      this.#decodeOnce({ ...fetched, encoded: forClip }, wanted, clipKey, ended).catch(giveUp),
      this.#decodeSound({ ...fetched, encoded: forSound }, soundWanted, soundKey, ended).catch(giveUp),
    ]);
    const [clip, sound] = outcomes;
    if (clip.status === "fulfilled" && sound.status === "fulfilled") return { clip: clip.value, sound: sound.value };
    for (const outcome of outcomes) if (outcome.status === "fulfilled") outcome.value?.release();
    throw failure.signal.reason;

    function giveUp(error: unknown): never {
      failure.abort(error); // the first one counts
      throw error;
    }
  }

  /** Null where there is no sound: an animation, for one, cannot have any. */
  async #decodeSound(
    fetched: FetchedMedium,
    wanted: Wanted,
    urlKey: string | null,
    signal: AbortSignal,
  ): Promise<SharedTensor | null> {
    const sniffed = sniffMedia(startOf(fetched.encoded));
    if (sniffed.kind !== "container") {
      if (isEncodedFile(fetched.encoded)) fetched.encoded.dispose();
      return null;
    }
    try {
      return await this.#decodeOnce(fetched, wanted, urlKey, signal);
    } catch (error) {
      if (error instanceof MediaError && SILENT.has(error.code)) return null;
      throw error;
    }
  }

  async #load(
    source: MediaSource,
    wanted: Wanted,
    link: { readonly urlKey: string; readonly found: Found | null } | null,
    signal: AbortSignal,
  ): Promise<SharedTensor> {
    const { source: stable, digest } = this.#stable(source);
    const request = { ...(wanted.kind === null ? {} : { kind: wanted.kind }), signal, digest };
    const stale = link?.found?.tensor.retain() ?? null; // kept while the origin is asked about it
    try {
      const validators = link?.found?.validators;
      const fetched = await this.#fetcher.fetch(stable, validators ? { ...request, validators } : request);
      if (!fetched.notModified) return await this.#decodeOnce(fetched, wanted, link?.urlKey ?? null, signal);
      if (!link || !stale) throw new Error("an origin answered that a copy is current which it was not asked about");
      this.#cache.refresh(link.urlKey, fetched.response);
      this.#cache.countHit();
      return stale.retain();
    } finally {
      stale?.release();
    }
  }

  /** Decodes what was fetched, unless the same bytes were decoded before or are being decoded. */
  async #decodeOnce(
    { encoded, sha256, response }: FetchedMedium,
    wanted: Wanted,
    urlKey: string | null,
    signal: AbortSignal,
  ): Promise<SharedTensor> {
    let owned: EncodedMedium | null = encoded;
    const decode = (request: DecodeRequest, ended: AbortSignal): Promise<SharedTensor> => {
      owned = null;
      this.#cache.countMiss();
      return this.#decodeAndClose(request, encoded, ended);
    };
    try {
      const request = wanted.requestFor(startOf(encoded));
      if (sha256 === null) return await decode(request, signal);
      const contentKey = keyOf(sha256, JSON.stringify(request));
      const known = this.#cache.findByContent(contentKey)?.retain();
      if (known) this.#cache.countHit();
      const decoding = known ?? this.#byContent.join(contentKey, (ended) => decode(request, ended), signal);
      // Whoever joins work under way has no use for its own bytes.
      if (owned && isEncodedFile(owned)) owned.dispose();
      owned = null;
      const tensor = await decoding;
      this.#cache.keep(contentKey, tensor);
      if (urlKey !== null) this.#cache.link(urlKey, contentKey, response);
      return tensor;
    } finally {
      if (owned && isEncodedFile(owned)) owned.dispose();
    }
  }

  async #decodeAndClose(request: DecodeRequest, encoded: EncodedMedium, signal: AbortSignal): Promise<SharedTensor> {
    try {
      const { room, tensor } = await this.#decode(request, encoded, signal);
      return new SharedTensor(room, tensor);
    } finally {
      if (isEncodedFile(encoded)) encoded.dispose();
    }
  }

  /**
   * What is shared must not change under those who share it: the program's own bytes are copied, so that they stay what their digest
   * says; larger ones are decoded without being shared.
   */
  #stable(source: MediaSource): { source: MediaSource; digest: boolean } {
    if (!this.#cache.enabled) return { source, digest: false };
    if (!(source instanceof Uint8Array || source instanceof ArrayBuffer)) return { source, digest: true };
    // An empty one is refused where it is taken; one whose memory was handed to somebody else cannot even be copied.
    if (source.byteLength === 0 || source.byteLength > MOST_BYTES_IN_MEMORY) return { source, digest: false };
    return { source: new Uint8Array(source instanceof Uint8Array ? source : new Uint8Array(source)), digest: true };
  }
}

/** The normalised URL of what comes over HTTP, without its fragment, which no origin sees; null for everything else. */
function httpUrlOf(source: MediaSource): string | null {
  if (typeof source !== "string" && !(source instanceof URL)) return null;
  const text = String(source);
  // What is too long is refused where it is fetched; parsing it would take its time.
  if (text.length > MOST_URL_CHARACTERS || !/^\s*https?:/i.test(text)) return null;
  const url = URL.parse(text);
  if (!url) return null;
  url.hash = "";
  return url.href;
}

/** SHA-256 over all parts and where each ends. */
function keyOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
}
