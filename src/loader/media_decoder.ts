/** Fetching and decoding without an agent: what works on a machine that has no libnixl. */

import type { z } from "zod";
import { locateFfmpeg, locateLibWebp, locateTurboJpeg } from "../../ffi/locate.ts";
import { type Decoded, type DecodedTensor, type DecodeRequest, DecoderPool, sniffMedia } from "../decode/index.ts";
import { type EncodedMedium, isEncodedFile, startOf } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import { fetchPolicyFromEnv, MediaFetcher, type MediaKind, type MediaSource } from "../fetch/index.ts";
import { type Room, SlabPool, watchForgotten } from "../nixl/index.ts";
import { parseOptions, withoutUndefined } from "../options.ts";
import { DecodedMedia, FLOAT32, type PayloadLease } from "../tensor/index.ts";
import { type ContentPart, isMediaPart, parseMediaPart } from "./content_parts.ts";
import { enabledSettings, type MediaSettings, settingsFor } from "./media_settings.ts";
import {
  type DecodeOptions,
  decodeOptionsSchema,
  type MediaDecoderOptions,
  mediaDecoderOptionsSchema,
} from "./options.ts";
import type { Wanted } from "./supply.ts";

/** A decoded medium and the memory it lies in. */
export interface DecodedLease extends PayloadLease, Disposable {
  /** Bytes, shape, metadata and hash. The bytes are not to be touched after `dispose()`. */
  readonly media: DecodedMedia;
}

/** Where a medium comes from: the program's own source, or a part of a chat request. */
export type LoadSource = MediaSource | ContentPart;

/** What a request's media are decoded with. */
export interface RequestSettings {
  readonly settings: MediaSettings;
  /** Whether clips come with their sound. */
  readonly withAudio: boolean;
}

/** What is to be fetched, and made of it. */
export interface WantedMedium {
  readonly url: MediaSource;
  readonly wanted: Wanted;
  /** What is to be made of a clip's sound; null where it is not asked for. */
  readonly sound: Wanted | null;
}

/** Decodes media in child processes, into memory that may be registered. Owned by whoever opened it. */
export class MediaDecoder implements AsyncDisposable {
  /** Where tensors lie. */
  readonly pool: SlabPool;
  /** Where encoded media come from. */
  readonly fetcher: MediaFetcher;
  readonly #decoders: DecoderPool<Room>;
  readonly #settings: z.output<typeof mediaDecoderOptionsSchema>;

  private constructor(
    settings: z.output<typeof mediaDecoderOptionsSchema>,
    fetcher: MediaFetcher,
    pool: SlabPool,
    decoders: DecoderPool<Room>,
  ) {
    this.#settings = settings;
    this.fetcher = fetcher;
    this.pool = pool;
    this.#decoders = decoders;
  }

  /**
   * Creates the slabs and starts the decoder processes.
   * @throws MediaError invalid_options, system_failed, decoder_failed, native_missing
   */
  static async open(options: MediaDecoderOptions = {}): Promise<MediaDecoder> {
    const settings = parseOptions(mediaDecoderOptionsSchema, options, "decoder options");
    const fetcher = new MediaFetcher({ ...fetchPolicyFromEnv(), ...withoutUndefined(options.fetch ?? {}) });
    const native = {
      ffmpegPath: locateFfmpeg().path,
      turboJpegPath: locateTurboJpeg().path,
      webpPath: locateLibWebp().path,
    };
    const pool = new SlabPool(settings.pool);
    try {
      const decoders = await DecoderPool.open<Room>(pool, native, settings.decoders);
      return new MediaDecoder(settings, fetcher, pool, decoders);
    } catch (error) {
      pool.dispose();
      throw error;
    }
  }

  /** Process ids of the decoder children. */
  get childPids(): number[] {
    return this.#decoders.childPids;
  }

  /** Media that wait for a decoder. */
  get queueLength(): number {
    return this.#decoders.queueLength;
  }

  /** Media that wait for room. */
  get roomQueueLength(): number {
    return this.#decoders.roomQueueLength;
  }

  /**
   * Decodes one medium into plain memory.
   * @returns the tensor, which the caller disposes of
   * @throws MediaError whatever was wrong with source, medium or machine
   */
  async decode(source: LoadSource, options: DecodeOptions = {}): Promise<DecodedLease> {
    const { room, tensor } = await this.decodeToRoom(source, options);
    try {
      return decodedLease(room, tensor);
    } catch (error) {
      room.dispose();
      throw error;
    }
  }

  /** As {@link decode}; the caller gives the room back. */
  async decodeToRoom(source: LoadSource, options: DecodeOptions = {}): Promise<Decoded<Room>> {
    const parsed = parseOptions(decodeOptionsSchema, options, "decode options");
    const { url, wanted } = this.want(source, this.settingsFor(parsed.mediaIoKwargs), parsed.hashVideo);
    const kind = wanted.kind ?? undefined;
    const { encoded } = await this.fetcher.fetch(url, { kind, signal: parsed.signal });
    try {
      return await this.decodeEncoded(wanted.requestFor(startOf(encoded)), encoded, parsed.signal);
    } finally {
      if (isEncodedFile(encoded)) encoded.dispose();
    }
  }

  /** The settings of all media of a request. @throws MediaError invalid_options */
  settingsFor(mediaIoKwargs: unknown): RequestSettings {
    return soundAside(settingsFor(this.#settings, mediaIoKwargs));
  }

  /**
   * What is to be fetched for a source, and what is to be made of it.
   * @param hashVideo whether a clip gets a content hash; by default as the decoder was set
   * @throws MediaError request_invalid; modality_not_enabled when that is known already
   */
  want(
    source: LoadSource,
    { settings, withAudio }: RequestSettings,
    hashVideo = this.#settings.hashVideo,
  ): WantedMedium {
    if (!isMediaPart(source)) {
      return { url: source as MediaSource, wanted: wantedOf(null, settings, hashVideo), sound: null };
    }
    const { kind, url } = parseMediaPart(source);
    enabledSettings(settings, kind);
    if (url === null) throw new MediaError("request_invalid", "The part has no URL: there is nothing to load");
    const wanted = wantedOf(kind, settings, hashVideo);
    if (kind !== "video" || !withAudio) return { url, wanted, sound: null };
    enabledSettings(settings, "audio");
    return { url, wanted, sound: wantedOf("audio", settings, false) };
  }

  /** Decodes what was fetched; the caller gives the room back. @throws MediaError what the decoders say */
  decodeEncoded(request: DecodeRequest, encoded: EncodedMedium, signal?: AbortSignal): Promise<Decoded<Room>> {
    return this.#decoders.decode(request, encoded, signal);
  }

  /** Ends fetches and the decoder processes, waits for them, and gives the memory back. */
  async dispose(): Promise<void> {
    this.fetcher.dispose();
    try {
      await this.#decoders.dispose();
    } finally {
      this.pool.dispose();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** Whether a clip's sound is wanted changes nothing about its frames, nor what they are cached by. */
function soundAside(settings: MediaSettings): RequestSettings {
  const { video } = settings;
  if (!video?.with_audio) return { settings, withAudio: false };
  return { settings: { ...settings, video: { ...video, with_audio: false } }, withAudio: true };
}

function wantedOf(kind: MediaKind | null, settings: MediaSettings, hashVideo: boolean): Wanted {
  const requestFor = (start: Uint8Array): DecodeRequest => {
    const sniffed = sniffMedia(start);
    if (sniffed.kind === "refused") throw new MediaError("media_unsupported", `${sniffed.name} is not decoded`);
    const found = kind ?? (sniffed.kind === "image" ? "image" : sniffed.holds);
    // Clips have sound, and what holds sound most often may hold pictures: there the decoder has the say.
    const isAnimation = sniffed.kind === "image" && (sniffed.format === "Gif" || sniffed.format === "WebP");
    if ((found === "image") !== (sniffed.kind === "image") && !(found === "video" && isAnimation)) {
      const name = sniffed.kind === "image" ? sniffed.format : sniffed.name;
      throw new MediaError("media_unsupported", `${name} was sent as ${found}, and is not decoded as such`);
    }
    // Images and sounds always have a hash, and one that clips are to have makes no other ones.
    return { kind: found, settings: enabledSettings(settings, found), hashVideo: found === "video" && hashVideo };
  };
  const deciding = kind === null ? settings : settings[kind];
  const isHashDeciding = kind === null || kind === "video";
  return { kind, requestFor, settingsKey: JSON.stringify([deciding, isHashDeciding && hashVideo]) };
}

function decodedLease(room: Room, tensor: DecodedTensor): DecodedLease {
  const { shape, dtype, metadata, contentHash } = tensor;
  const { payload } = room;
  const array =
    dtype === FLOAT32 ? new Float32Array(payload.buffer, payload.byteOffset, payload.byteLength / 4) : payload;
  const media = DecodedMedia.fromTypedArray(array, shape, { metadata, contentHash });
  const lease = {
    media,
    bytes: media.bytes,
    get released() {
      return room.disposed;
    },
    dispose: () => room.dispose(),
    [Symbol.dispose]: () => room.dispose(),
  };
  watchForgotten(lease, room);
  return lease;
}
