/**
 * Decoded media that stay for the next one who wants them: by what their encoded bytes are, and by the URLs that gave them.
 *
 * Keys are SHA-256: what a stranger sends cannot be made to stand for what another one gets.
 */
import { LRUCache } from "lru-cache";
import type { HttpFacts } from "../fetch/index.ts";
import type { SpareRoom } from "../nixl/index.ts";
import { HttpFreshness, type Validators } from "./http_freshness.ts";
import type { SharedTensor } from "./shared_tensor.ts";

/** URLs that are remembered; each takes some hundred bytes. */
const MOST_URLS = 65_536;

/** What a URL gave when it was fetched last. */
interface Link {
  readonly contentKey: string;
  /** Null when what HTTP says about it is not to be honoured. */
  readonly freshness: HttpFreshness | null;
}

/** What is known of a URL. The tensor is retained by whoever wants to keep it. */
export interface Found {
  readonly tensor: SharedTensor;
  /** What to ask the origin with before the tensor may be used; null when it may be used as it is. */
  readonly validators: Validators | null;
}

/** Counts since the loader was created, and what is there now. */
export interface CacheStats {
  readonly hits: number;
  readonly misses: number;
  /** Of the hits: those that an origin was asked about first. */
  readonly revalidated: number;
  /** Loads that joined one under way. */
  readonly joined: number;
  readonly evictions: number;
  readonly entries: number;
  readonly bytes: number;
}

/** Least recently used media go first. Owned by its loader. */
export class MediaCache {
  readonly #maximumBytes: number;
  readonly #honoursFreshness: boolean;
  readonly #tensors: LRUCache<string, SharedTensor> | null;
  readonly #links = new LRUCache<string, Link>({ max: MOST_URLS });
  #hits = 0;
  #misses = 0;
  #revalidated = 0;
  #evictions = 0;

  /** @param maximumBytes of rooms; 0 keeps nothing */
  constructor(maximumBytes: number, freshness: "ignore" | "http") {
    this.#maximumBytes = maximumBytes;
    this.#honoursFreshness = freshness === "http";
    this.#tensors =
      maximumBytes === 0
        ? null
        : new LRUCache<string, SharedTensor>({
            maxSize: maximumBytes,
            sizeCalculation: (tensor) => tensor.roomBytes,
            dispose: (tensor, _key, reason) => {
              if (reason === "evict") this.#evictions += 1;
              tensor.release();
            },
          });
  }

  /** Whether anything is kept at all. */
  get enabled(): boolean {
    return this.#tensors !== null;
  }

  get stats(): Omit<CacheStats, "joined"> {
    return {
      hits: this.#hits,
      misses: this.#misses,
      revalidated: this.#revalidated,
      evictions: this.#evictions,
      entries: this.#tensors?.size ?? 0,
      bytes: this.#tensors?.calculatedSize ?? 0,
    };
  }

  /** What a URL gave before, if it is still here and HTTP, where it is honoured, lets it be used or asked about. */
  findByUrl(urlKey: string): Found | null {
    const link = this.#links.get(urlKey);
    if (!link) return null;
    const tensor = this.#tensors?.get(link.contentKey);
    if (!tensor) {
      this.#links.delete(urlKey);
      return null;
    }
    if (link.freshness === null || link.freshness.isFresh) return { tensor, validators: null };
    const validators = link.freshness.validators;
    return validators && { tensor, validators };
  }

  /** What these encoded bytes gave before, with these settings. */
  findByContent(contentKey: string): SharedTensor | null {
    return this.#tensors?.get(contentKey) ?? null;
  }

  /** Keeps a tensor, which it retains, unless it is larger than the cache. */
  keep(contentKey: string, tensor: SharedTensor): void {
    if (!this.#tensors || tensor.roomBytes > this.#maximumBytes || this.#tensors.has(contentKey)) return;
    this.#tensors.set(contentKey, tensor.retain());
  }

  /** Remembers what a URL gave. @param response null for what did not come over HTTP */
  link(urlKey: string, contentKey: string, response: HttpFacts | null): void {
    if (!this.#tensors?.has(contentKey)) return;
    const freshness = this.#honoursFreshness && response ? HttpFreshness.of(response) : null;
    if (freshness && !freshness.isStorable) this.#links.delete(urlKey);
    else this.#links.set(urlKey, { contentKey, freshness });
  }

  /** The origin says that what the URL gave before is current. */
  refresh(urlKey: string, response: HttpFacts): void {
    this.#revalidated += 1;
    const link = this.#links.get(urlKey);
    if (link?.freshness) this.#links.set(urlKey, { ...link, freshness: link.freshness.refreshed(response) });
  }

  countHit(): void {
    this.#hits += 1;
  }

  countMiss(): void {
    this.#misses += 1;
  }

  /** Tensors that nobody else has, the one whose use is longest ago in front. */
  spare(): SpareRoom[] {
    const spare: SpareRoom[] = [];
    for (const key of this.#tensors?.rkeys() ?? []) {
      const tensor = this.#tensors?.peek(key);
      if (!tensor || tensor.users > 1) continue;
      const giveUp = (): void => {
        this.#evictions += 1;
        this.#tensors?.delete(key);
      };
      spare.push({ room: tensor.room, giveUp });
    }
    return spare;
  }

  /** Gives everything back. */
  dispose(): void {
    this.#tensors?.clear();
    this.#links.clear();
  }
}
