/** The product: from a source to a descriptor of registered memory, and from a chat request to a worker's fields. */
import { readEnvironment } from "../../ffi/environment.ts";
import { isDataUrl } from "../fetch/index.ts";
import { describeRoom, NixlAgent } from "../nixl/index.ts";
import { parseOptions } from "../options.ts";
import type { MediaDescriptor } from "../tensor/index.ts";
import { type CacheStats, MediaCache } from "./cache.ts";
import { mediaPartsOf, parseChatRequest, withoutInlineMedia } from "./content_parts.ts";
import { type HoldStats, Holds } from "./holds.ts";
import { loadParts } from "./load_parts.ts";
import { LoadedMedium, LoadedTensor, withSounds } from "./loaded_media.ts";
import { type LoadSource, MediaDecoder, type WantedMedium } from "./media_decoder.ts";
import { LoadedMessages, type MediaSlot } from "./messages.ts";
import {
  type LoadMessagesOptions,
  type LoadOptions,
  loadMessagesOptionsSchema,
  loadOptionsSchema,
  type MediaLoaderOptions,
  mediaLoaderOptionsSchema,
  type RequestLimits,
} from "./options.ts";
import type { SharedTensor } from "./shared_tensor.ts";
import { type ClipWithSound, TensorSupply } from "./supply.ts";
import { Tenants } from "./tenants.ts";

const GIBIBYTE = 1024 ** 3;

/** What a loader is doing, and what it has done. */
export interface LoaderStats {
  readonly cache: CacheStats;
  readonly holds: HoldStats;
  /** Rooms that are held by descriptors, loads and the cache; and those that wait until no late reader can be at them. */
  readonly pool: {
    readonly budgetBytes: number;
    readonly rooms: number;
    readonly bytes: number;
    readonly quarantinedRooms: number;
    readonly quarantinedBytes: number;
    /** Rooms that were used again before their time in quarantine was over, since there was no other. */
    readonly quarantineShortened: number;
  };
  readonly fetches: { readonly active: number; readonly waiting: number };
  /** Media that wait for a decoder, and for room. */
  readonly waiting: { readonly forDecoder: number; readonly forRoom: number };
  /** Tenants that have loads or descriptors. */
  readonly tenants: number;
}

/** What a loader is made of. */
interface Parts {
  readonly decoder: MediaDecoder;
  readonly agent: NixlAgent;
  readonly cache: MediaCache;
  readonly holds: Holds;
  readonly tenants: Tenants;
  readonly requests: RequestLimits;
}

/**
 * Loads media: fetches and decodes each once, names it, leaves it in registered memory and describes it.
 *
 * Owned by whoever created it. `dispose()` ends decoders and agent; descriptors that are still held are void from then on.
 */
export class MediaLoader implements AsyncDisposable {
  readonly #parts: Parts;
  readonly #supply: TensorSupply;

  private constructor(parts: Parts) {
    this.#parts = parts;
    const { decoder, agent, cache, holds } = parts;
    this.#supply = new TensorSupply(decoder.fetcher, (...job) => decoder.decodeEncoded(...job), cache);
    decoder.pool.spareRooms = () => cache.spare();
    agent.onNotification = ({ message }) => holds.releaseByKey(Buffer.from(message).toString("latin1"));
  }

  /**
   * Creates the agent (about 0.4 s, blocking: do it at start-up), the memory and the decoder processes.
   * @throws MediaError nixl_unavailable with the remedy, registration_failed, decoder_failed, invalid_options
   */
  static async create(options: MediaLoaderOptions = {}): Promise<MediaLoader> {
    const settings = parseOptions(mediaLoaderOptionsSchema, options, "loader options");
    const { agent: agentOptions, cache, maxHoldMs, releaseKeys, tenants, requests, ...decoderSettings } = settings;
    const cacheBytes = cache.bytes ?? cacheBytesFromEnv();
    // The decoders start while the agent is created, which blocks this thread. What the policy does not say the environment
    // does, which is why it goes on as it was given.
    const opening = MediaDecoder.open({ ...decoderSettings, fetch: options.fetch });
    let agent: NixlAgent | undefined;
    try {
      agent = new NixlAgent(agentOptions);
      const decoder = await opening;
      decoder.pool.register(agent);
      return new MediaLoader({
        decoder,
        agent,
        cache: new MediaCache(cacheBytes, cache.freshness),
        holds: new Holds(maxHoldMs, releaseKeys),
        tenants: new Tenants(tenants),
        requests,
      });
    } catch (error) {
      await opening.then(
        (decoder) => decoder.dispose(),
        () => {},
      );
      agent?.dispose();
      throw error;
    }
  }

  /** The agent that serves the tensors. */
  get agent(): NixlAgent {
    return this.#parts.agent;
  }

  /** Rooms that are given out, and their bytes. */
  get occupancy(): { readonly rooms: number; readonly bytes: number } {
    return this.#parts.decoder.pool.occupancy;
  }

  /** Process ids of the decoder children. */
  get childPids(): number[] {
    return this.#parts.decoder.childPids;
  }

  /** Media that wait for a decoder. */
  get queueLength(): number {
    return this.#parts.decoder.queueLength;
  }

  /** Counts for whoever watches the server. */
  get stats(): LoaderStats {
    const { cache, decoder, holds, tenants } = this.#parts;
    const { budgetBytes, occupancy, quarantine } = decoder.pool;
    return {
      cache: { ...cache.stats, joined: this.#supply.joined },
      holds: holds.stats,
      pool: {
        budgetBytes,
        ...occupancy,
        quarantinedRooms: quarantine.rooms,
        quarantinedBytes: quarantine.bytes,
        quarantineShortened: quarantine.shortened,
      },
      fetches: decoder.fetcher.activity,
      waiting: { forDecoder: decoder.queueLength, forRoom: decoder.roomQueueLength },
      tenants: tenants.size,
    };
  }

  /** Loads under way of a tenant, and bytes that its descriptors keep. */
  usageOf(tenant: string): { readonly loads: number; readonly bytes: number } {
    return this.#parts.tenants.usageOf(tenant);
  }

  /**
   * Loads one medium into registered memory, or finds it there.
   * @param source bytes (not to be changed until this settles), a file as `{path}`, a URL, or a content part of a chat request
   * @returns a descriptor that keeps the memory until it is disposed; its local payload may be shared, and is only to be read
   * @throws MediaError whatever was wrong with source, medium or machine
   */
  async load(source: LoadSource, options: LoadOptions = {}): Promise<MediaDescriptor> {
    const { mediaIoKwargs, ...common } = parseOptions(loadOptionsSchema, options, "load options");
    const wanted = this.#parts.decoder.want(source, this.#parts.decoder.settingsFor(mediaIoKwargs), common.hashVideo);
    using _ = this.#parts.tenants.beginLoads(common.tenant, 1);
    const { main } = await this.#acquire({ ...wanted, sound: null }, common);
    return this.#describe(main);
  }

  /**
   * Loads all media of a chat completion request, concurrently. When one fails, the others are given up and nothing is kept.
   * @param request OpenAI's, with `messages` and perhaps `media_io_kwargs`; what else is in it is no concern here
   * @returns the worker's fields, to be disposed of when the worker has read
   * @throws MediaError request_invalid; what failed first
   */
  async loadMessages(request: unknown, options: LoadMessagesOptions = {}): Promise<LoadedMessages> {
    const { onDecodeError, signal, ...common } = parseOptions(loadMessagesOptionsSchema, options, "load options");
    const chat = parseChatRequest(request);
    const { decoder, requests, tenants } = this.#parts;
    const parts = mediaPartsOf(chat, requests.maxMedia);
    const messages = withoutInlineMedia(chat.messages); // now: the request is the caller's again while this waits
    const settings = decoder.settingsFor(common.mediaIoKwargs ?? chat.media_io_kwargs);
    const mediaToLoad = parts.filter(({ url }) => url !== null).length;
    using loads = tenants.beginLoads(common.tenant, Math.min(mediaToLoad, requests.concurrency));
    const slots = await loadParts(parts, {
      load: async ({ type }, url, partSignal) => {
        tenants.checkBytes(common.tenant);
        const wanted = decoder.want({ type, [type]: { url } } as LoadSource, settings, common.hashVideo);
        return this.#acquire(wanted, { tenant: common.tenant, signal: partSignal });
      },
      checkUrl: async (url, partSignal) => {
        if (isDataUrl(url)) await decoder.fetcher.fetch(url, { signal: partSignal });
        else decoder.fetcher.checkUrl(url);
      },
      passesOn: onDecodeError === "passthrough",
      concurrency: loads.count,
      signal,
    });
    const all = withSounds(parts, slots);
    return new LoadedMessages(messages, all.parts, this.#describeAll(all.slots));
  }

  /** Ends loads, decoders, registration and agent, in that order; idempotent. */
  async dispose(): Promise<void> {
    const { agent, cache, decoder, holds } = this.#parts;
    holds.dispose();
    cache.dispose();
    try {
      await decoder.dispose();
    } finally {
      holds.dispose(); // of what was loaded meanwhile
      agent.dispose();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /** What is wanted, which counts as the tenant's from now on. */
  async #acquire(
    { url, wanted, sound }: WantedMedium,
    { tenant, signal }: Pick<LoadOptions, "tenant" | "signal">,
  ): Promise<LoadedMedium> {
    if (!sound) return new LoadedMedium(this.#held(await this.#supply.acquire(url, wanted, signal), tenant), null);
    return this.#heldBoth(await this.#supply.acquireWithSound(url, wanted, sound, signal), tenant);
  }

  #heldBoth({ clip, sound }: ClipWithSound, tenant: string | undefined): LoadedMedium {
    let main: LoadedTensor;
    try {
      main = this.#held(clip, tenant);
    } catch (error) {
      sound?.release();
      throw error;
    }
    try {
      return new LoadedMedium(main, sound && this.#held(sound, tenant));
    } catch (error) {
      main[Symbol.dispose]();
      throw error;
    }
  }

  /** A tensor as part of its tenant's share; given back when that is too much. */
  #held(tensor: SharedTensor, tenant: string | undefined): LoadedTensor {
    try {
      return new LoadedTensor(tensor, this.#parts.tenants.beginHold(tenant, tensor));
    } catch (error) {
      tensor.release();
      throw error;
    }
  }

  /** The descriptor takes over what is given; its time runs from now. */
  #describe({ tensor, endHold }: LoadedTensor): MediaDescriptor {
    const { decoder, holds } = this.#parts;
    const lease = holds.begin(tensor, endHold);
    try {
      return describeRoom(decoder.pool, tensor.room, tensor.tensor, tensor.tensor.contentHash, lease);
    } catch (error) {
      lease.dispose();
      throw error;
    }
  }

  /** All at once, when the last one is there: none is given back for its age while others are still on their way. */
  #describeAll(slots: readonly MediaSlot<LoadedTensor>[]): MediaSlot[] {
    const described: MediaSlot[] = [];
    try {
      for (const slot of slots) {
        described.push("Decoded" in slot ? { Decoded: this.#describe(slot.Decoded) } : slot);
      }
      return described;
    } catch (error) {
      for (const slot of described) if ("Decoded" in slot) slot.Decoded.dispose();
      // The one that failed was given back already.
      for (const slot of slots.slice(described.length + 1)) if ("Decoded" in slot) slot.Decoded[Symbol.dispose]();
      throw error;
    }
  }
}

/** `DYN_MULTIMODAL_LOADER_CACHE_GB`, in bytes; what is no positive number means no cache, as it does elsewhere in the fleet. */
function cacheBytesFromEnv(): number {
  const text = readEnvironment("DYN_MULTIMODAL_LOADER_CACHE_GB") ?? "";
  // JavaScript's hexadecimal and infinite numbers are none there.
  const gibibytes = /^[\d.e+-]+$/i.test(text) ? Number(text) : 0;
  return gibibytes > 0 ? Math.min(Math.floor(gibibytes * GIBIBYTE), Number.MAX_SAFE_INTEGER) : 0;
}
