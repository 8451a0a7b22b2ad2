/** Reads tensors out of other processes' registered memory, knowing nothing but their descriptors. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { NativeAgent, type NativeTransfer } from "../../ffi/agent.ts";
import { roundToPages } from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import {
  type DataType,
  type DescriptorMetadata,
  imageHashHeader,
  isVideoMetadata,
  MediaDescriptor,
  tensorByteLength,
  videoHashHeader,
} from "../tensor/index.ts";
import { progressDelayFromEnvironment } from "./agent.ts";
import { type LandingBuffer, LandingBuffers } from "./landing.ts";
import { RemoteAgents } from "./remotes.ts";
import { Verifier } from "./verifier.ts";

/** A transfer on the same host takes about 0.4 ms per MB: so long it is polled on every turn of the event loop. */
const EAGER_POLL_MS = 5;
/** Afterwards it is polled once in so many milliseconds. */
const POLL_INTERVAL_MS = 1;

/** Settings of a reader. */
export const mediaReaderOptionsSchema = z.strictObject({
  backend: z.string().min(1).default("UCX").describe("NIXL plugin that moves the bytes"),
  landingBytes: z
    .int()
    .positive()
    .default(2 * 1024 ** 3)
    .describe("The most registered memory kept for what is read, bytes"),
  timeoutMs: z.int().positive().default(30_000).describe("Time after which a read fails, ms"),
});
export type MediaReaderOptions = z.input<typeof mediaReaderOptionsSchema>;

/** Settings of one read. */
export interface ReadOptions {
  /** Where to copy the tensor to; exactly its size. Without it, the tensor stays in native memory until disposed. */
  readonly into?: Uint8Array | Uint8ClampedArray | Float32Array;
  /** Whether to check the content hash (default true). */
  readonly verify?: boolean;
  /** What is left with the owner of the memory when the read is done; default a random key. */
  readonly notification?: string;
}

/** A tensor that was read. */
export interface ReadMedia extends Disposable {
  /** The tensor: native memory, valid until `dispose()`, or the array that was given. */
  readonly bytes: Uint8Array;
  readonly shape: readonly number[];
  readonly dtype: DataType;
  readonly metadata: DescriptorMetadata | null;
  readonly contentHash: string | null;
  /** Whether the bytes have the descriptor's content hash; null when it has none or was not to be checked. */
  readonly verified: boolean | null;
  /** Time of the transfer alone, ms. */
  readonly transferMs: number;
  /** Gives the memory back; idempotent. */
  dispose(): void;
}

/** A reader with an agent and landing memory of its own. Owned by whoever opened it. */
export class MediaReader implements Disposable {
  readonly #settings: z.output<typeof mediaReaderOptionsSchema>;
  readonly #agent: NativeAgent;
  readonly #remotes: RemoteAgents;
  readonly #landing: LandingBuffers;
  readonly #verifier = new Verifier();
  readonly #active = new Set<NativeTransfer>();
  #disposed = false;

  private constructor(settings: z.output<typeof mediaReaderOptionsSchema>) {
    this.#settings = settings;
    this.#agent = NativeAgent.create({
      name: `media-reader-${randomUUID()}`,
      backend: settings.backend,
      progressDelayMicroseconds: progressDelayFromEnvironment(),
    });
    this.#remotes = new RemoteAgents(this.#agent);
    this.#landing = new LandingBuffers(this.#agent, settings.landingBytes);
  }

  /** Takes about 0.4 s: open it once. @throws MediaError nixl_unavailable, nixl_failed, invalid_options */
  static async open(options: MediaReaderOptions = {}): Promise<MediaReader> {
    return new MediaReader(parseOptions(mediaReaderOptionsSchema, options, "reader options"));
  }

  /**
   * Reads the tensor that a descriptor names.
   * @param descriptor as an object or as its JSON, parsed or not
   * @throws MediaError descriptor_invalid; no_room; read_failed when the owner cannot be reached or refuses
   */
  async read(descriptor: unknown, options: ReadOptions = {}): Promise<ReadMedia> {
    if (this.#disposed) throw new MediaError("closed", "the reader was disposed");
    const parsed = descriptor instanceof MediaDescriptor ? descriptor : MediaDescriptor.parse(descriptor);
    const byteLength = checkReadable(parsed, options.into);
    const header = options.verify === false ? null : hashHeaderOf(parsed);
    const headerBytes = roundToPages(header?.byteLength ?? 0);
    const buffer = this.#landing.take(headerBytes, byteLength);
    let transferMs: number;
    try {
      transferMs = await this.#transfer(
        parsed,
        buffer.range.address + headerBytes,
        options.notification ?? randomUUID(),
      );
    } catch (error) {
      // A transfer that could not be ended may still write: only then the buffer is lost on purpose.
      if (!(error instanceof UnfinishedTransfer)) this.#landing.giveBack(buffer);
      throw error instanceof UnfinishedTransfer ? error.error : error;
    }
    try {
      const verified = header && (await this.#hashMatches(buffer, headerBytes, header, byteLength, parsed.contentHash));
      return this.#finished(parsed, buffer, headerBytes, byteLength, verified, transferMs, options.into);
    } catch (error) {
      this.#landing.giveBack(buffer);
      throw error;
    }
  }

  /** Ends running transfers, forgets remotes, gives all memory back; idempotent. Unread results become zeros. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#verifier.dispose();
    this.#remotes.forgetAll();
    for (const transfer of this.#active) this.#agent.release(transfer);
    this.#active.clear();
    this.#landing.dispose();
    this.#agent.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async #hashMatches(
    buffer: LandingBuffer,
    headerBytes: number,
    header: Uint8Array,
    byteLength: number,
    expected: string | null,
  ): Promise<boolean> {
    const start = headerBytes - header.byteLength;
    const span = buffer.range.view(start, header.byteLength + byteLength);
    span.set(header);
    return (await this.#verifier.hash(span, buffer.range.address + start)) === expected;
  }

  #finished(
    descriptor: MediaDescriptor,
    buffer: LandingBuffer,
    offset: number,
    byteLength: number,
    verified: boolean | null,
    transferMs: number,
    into: ReadOptions["into"],
  ): ReadMedia {
    let bytes = buffer.range.view(offset, byteLength);
    let held = true;
    const dispose = (): void => {
      if (held && !this.#disposed) this.#landing.giveBack(buffer);
      held = false;
    };
    if (into) {
      const target = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
      target.set(bytes);
      dispose();
      bytes = target;
    }
    const { shape, dtype, metadata, contentHash } = descriptor;
    return { bytes, shape, dtype, metadata, contentHash, verified, transferMs, dispose, [Symbol.dispose]: dispose };
  }

  /** @returns milliseconds */
  async #transfer(descriptor: MediaDescriptor, localAddress: number, notification: string): Promise<number> {
    const { addr, size } = descriptor.nixlDescriptor;
    const started = performance.now();
    let remote: string | null = null;
    let transfer: NativeTransfer;
    try {
      remote = this.#remotes.nameOf(descriptor.nixlMetadata);
      transfer = this.#agent.read(remote, localAddress, addr, size, Buffer.from(notification));
    } catch (error) {
      if (remote !== null) this.#remotes.forget(remote);
      throw readFailed(error);
    }
    this.#active.add(transfer);
    try {
      await this.#finish(transfer, started);
    } catch (error) {
      this.#end(transfer, readFailed(error));
      this.#remotes.forget(remote);
      throw readFailed(error);
    }
    this.#end(transfer, null);
    return performance.now() - started;
  }

  async #finish(transfer: NativeTransfer, started: number): Promise<void> {
    while (!this.#agent.poll(transfer)) {
      const elapsed = performance.now() - started;
      if (elapsed > this.#settings.timeoutMs) {
        throw new MediaError("read_failed", `The read did not finish within ${this.#settings.timeoutMs} ms`);
      }
      await (elapsed < EAGER_POLL_MS ? new Promise((resolve) => setImmediate(resolve)) : Bun.sleep(POLL_INTERVAL_MS));
      if (this.#disposed) throw new MediaError("closed", "the reader was disposed during the read");
    }
  }

  /** Releases a transfer. @throws UnfinishedTransfer when that fails, so that its memory is not used again */
  #end(transfer: NativeTransfer, error: MediaError | null): void {
    if (!this.#active.delete(transfer)) return; // dispose() ended it
    try {
      this.#agent.release(transfer);
    } catch (cause) {
      throw new UnfinishedTransfer(error ?? readFailed(cause));
    }
  }
}

/** Internal: a transfer that could not be released, with the error that the caller is to see. */
class UnfinishedTransfer extends Error {
  constructor(readonly error: MediaError) {
    super(error.message);
  }
}

function readFailed(error: unknown): MediaError {
  if (error instanceof MediaError && error.code !== "nixl_failed") return error;
  return new MediaError("read_failed", "The tensor could not be read: its owner is gone or refuses", {
    cause: error instanceof MediaError ? error.cause : error,
  });
}

/** @returns the tensor's size in bytes @throws MediaError descriptor_invalid, invalid_argument */
function checkReadable(descriptor: MediaDescriptor, into: ReadOptions["into"]): number {
  const { size, mem_type } = descriptor.nixlDescriptor;
  if (mem_type !== "Dram")
    throw new MediaError("descriptor_invalid", `memory of type ${mem_type} cannot be read, only Dram`);
  const expected = tensorByteLength(descriptor.shape, descriptor.dtype);
  if (size === 0 || size !== expected) {
    throw new MediaError("descriptor_invalid", `${size} bytes are not the ${expected} that shape and dtype make`);
  }
  if (into && into.byteLength !== size) {
    throw new MediaError("invalid_argument", `the given array has ${into.byteLength} bytes, the tensor ${size}`);
  }
  return size;
}

/** What the hash covers in front of the bytes; null when there is no hash to check. */
function hashHeaderOf(descriptor: MediaDescriptor): Uint8Array | null {
  const { shape, dtype, metadata, contentHash } = descriptor;
  if (contentHash === null) return null;
  const isVideo = metadata !== null && isVideoMetadata(metadata);
  return isVideo ? videoHashHeader(shape, dtype, metadata.Video, descriptor.byteLength) : imageHashHeader(shape, dtype);
}
