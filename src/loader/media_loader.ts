/** The product: from a source to a descriptor of registered memory. */
import type { MediaSource } from "../fetch/index.ts";
import { describeRoom, NixlAgent } from "../nixl/index.ts";
import { parseOptions } from "../options.ts";
import type { MediaDescriptor } from "../tensor/index.ts";
import { MediaDecoder } from "./media_decoder.ts";
import { type LoadOptions, type MediaLoaderOptions, mediaLoaderOptionsSchema } from "./options.ts";

/**
 * Loads media: decodes each once, names it, leaves it in registered memory and describes it.
 *
 * Owned by whoever created it. `dispose()` ends decoders and agent; descriptors that are still held are void from then on.
 */
export class MediaLoader implements AsyncDisposable {
  readonly #decoder: MediaDecoder;
  readonly #agent: NixlAgent;

  private constructor(decoder: MediaDecoder, agent: NixlAgent) {
    this.#decoder = decoder;
    this.#agent = agent;
  }

  /**
   * Creates the agent (about 0.4 s, blocking: do it at start-up), the memory and the decoder processes.
   * @throws MediaError nixl_unavailable with the remedy, registration_failed, decoder_failed, invalid_options
   */
  static async create(options: MediaLoaderOptions = {}): Promise<MediaLoader> {
    const { agent: agentOptions, ...decoderOptions } = parseOptions(
      mediaLoaderOptionsSchema,
      options,
      "loader options",
    );
    // The decoders start while the agent is created, which blocks this thread.
    const opening = MediaDecoder.open(decoderOptions);
    let agent: NixlAgent | undefined;
    try {
      agent = new NixlAgent(agentOptions);
      const decoder = await opening;
      decoder.pool.register(agent);
      return new MediaLoader(decoder, agent);
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
    return this.#agent;
  }

  /** Rooms that are given out, and their bytes. */
  get occupancy(): { readonly rooms: number; readonly bytes: number } {
    return this.#decoder.pool.occupancy;
  }

  /** Process ids of the decoder children. */
  get childPids(): number[] {
    return this.#decoder.childPids;
  }

  /** Media that wait for a decoder. */
  get queueLength(): number {
    return this.#decoder.queueLength;
  }

  /**
   * Decodes one medium into registered memory.
   * @param source bytes (not to be changed until this settles), a file as `{path}`, or a data URL
   * @returns a descriptor that keeps the memory until it is disposed
   * @throws MediaError whatever was wrong with source, medium or machine
   */
  async load(source: MediaSource, options: LoadOptions = {}): Promise<MediaDescriptor> {
    const { room, tensor } = await this.#decoder.decodeToRoom(source, options);
    try {
      return describeRoom(this.#decoder.pool, room, tensor, tensor.contentHash);
    } catch (error) {
      room.dispose();
      throw error;
    }
  }

  /** Ends decoders, registration and agent, in that order; idempotent. */
  async dispose(): Promise<void> {
    try {
      await this.#decoder.dispose();
    } finally {
      this.#agent.dispose();
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
