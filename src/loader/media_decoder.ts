/** Fetching and decoding without an agent: what works on a machine that has no libnixl. */

import type { z } from "zod";
import { locateFfmpeg, locateLibWebp, locateTurboJpeg } from "../../ffi/locate.ts";
import { type Decoded, type DecodedTensor, type DecodeRequest, DecoderPool, sniffMedia } from "../decode/index.ts";
import { isEncodedFile, startOf } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import { fetchMedia, type MediaSource } from "../fetch/index.ts";
import { type Room, SlabPool, watchForgotten } from "../nixl/index.ts";
import { parseOptions } from "../options.ts";
import { DecodedMedia, type PayloadLease } from "../tensor/index.ts";
import { type LoadOptions, loadOptionsSchema, type MediaDecoderOptions, mediaDecoderOptionsSchema } from "./options.ts";

/** A decoded medium and the memory it lies in. */
export interface DecodedLease extends PayloadLease, Disposable {
  /** Bytes, shape, metadata and hash. The bytes are not to be touched after `dispose()`. */
  readonly media: DecodedMedia;
}

/** Decodes media in child processes, into memory that may be registered. Owned by whoever opened it. */
export class MediaDecoder implements AsyncDisposable {
  /** Where tensors lie. */
  readonly pool: SlabPool;
  readonly #decoders: DecoderPool<Room>;
  readonly #settings: z.output<typeof mediaDecoderOptionsSchema>;

  private constructor(
    settings: z.output<typeof mediaDecoderOptionsSchema>,
    pool: SlabPool,
    decoders: DecoderPool<Room>,
  ) {
    this.#settings = settings;
    this.pool = pool;
    this.#decoders = decoders;
  }

  /**
   * Creates the slabs and starts the decoder processes.
   * @throws MediaError invalid_options, system_failed, decoder_failed, native_missing
   */
  static async open(options: MediaDecoderOptions = {}): Promise<MediaDecoder> {
    const settings = parseOptions(mediaDecoderOptionsSchema, options, "decoder options");
    const native = {
      ffmpegPath: locateFfmpeg().path,
      turboJpegPath: locateTurboJpeg().path,
      webpPath: locateLibWebp().path,
    };
    const pool = new SlabPool(settings.pool);
    try {
      const decoders = await DecoderPool.open<Room>(pool, native, settings.decoders);
      return new MediaDecoder(settings, pool, decoders);
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

  /**
   * Decodes one medium into plain memory.
   * @returns the tensor, which the caller disposes of
   * @throws MediaError whatever was wrong with source, medium or machine
   */
  async decode(source: MediaSource, options: LoadOptions = {}): Promise<DecodedLease> {
    const { room, tensor } = await this.decodeToRoom(source, options);
    try {
      return decodedLease(room, tensor);
    } catch (error) {
      room.dispose();
      throw error;
    }
  }

  /** As {@link decode}; the caller gives the room back. */
  async decodeToRoom(source: MediaSource, options: LoadOptions = {}): Promise<Decoded<Room>> {
    const { hashVideo, signal } = parseOptions(loadOptionsSchema, options, "load options");
    const encoded = await fetchMedia(source, this.#settings, signal);
    try {
      const request = this.#request(startOf(encoded), hashVideo ?? this.#settings.hashVideo);
      return await this.#decoders.decode(request, encoded, signal);
    } finally {
      if (isEncodedFile(encoded)) encoded.dispose();
    }
  }

  /** Ends the decoder processes, waits for them, and gives the memory back. */
  async dispose(): Promise<void> {
    try {
      await this.#decoders.dispose();
    } finally {
      this.pool.dispose();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /** Tells from the bytes what is to be done. @throws MediaError media_unsupported */
  #request(start: Uint8Array, hashVideo: boolean): DecodeRequest {
    const sniffed = sniffMedia(start);
    if (sniffed.kind === "refused") throw new MediaError("media_unsupported", `${sniffed.name} is not decoded`);
    const kind = sniffed.kind === "image" ? "image" : "video";
    return { kind, settings: this.#settings[kind], hashVideo };
  }
}

function decodedLease(room: Room, tensor: DecodedTensor): DecodedLease {
  const { shape, metadata, contentHash } = tensor;
  const media = DecodedMedia.fromTypedArray(room.payload, shape, { metadata, contentHash });
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
