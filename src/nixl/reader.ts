/** Reads tensors out of other processes' registered memory, knowing nothing but their descriptors. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { NativeAgent, type NativeTransfer } from "../../ffi/agent.ts";
import { roundToPages } from "../../ffi/memory.ts";
import { NativeStatus } from "../../ffi/native.ts";
import { MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import { type DataType, type DescriptorMetadata, MediaDescriptor } from "../tensor/index.ts";
import { progressDelayFromEnvironment } from "./agent.ts";
import { type LandingBuffer, LandingBuffers } from "./landing.ts";
import { checkReadable, hashHeaderOf } from "./readable.ts";
import { RemoteAgents, type RemoteLease } from "./remotes.ts";
import { runEveryStep } from "./teardown.ts";
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
export const readOptionsSchema = z.strictObject({
  into: z
    .union([z.instanceof(Uint8Array), z.instanceof(Uint8ClampedArray), z.instanceof(Float32Array)], {
      error: "expected a Uint8Array, Uint8ClampedArray or Float32Array",
    })
    .optional()
    .describe("Where to copy the tensor to; exactly its size. Without it, it stays in native memory until disposed"),
  verify: z.boolean().default(true).describe("Whether to check the content hash"),
  release: z
    .boolean()
    .default(true)
    .describe(
      "Whether the owner is told that the memory can be given back, where the descriptor carries a key for that; it is, then, when the read is done",
    ),
  notification: z
    .string()
    .optional()
    .describe(
      "What else is left with the owner of the memory when the read is done; default the release key, else a random one",
    ),
});
export type ReadOptions = z.input<typeof readOptionsSchema>;

/** A tensor that was read. */
export interface ReadMedia extends Disposable {
  /** The tensor: native memory, valid until `dispose()`, or the array that was given. */
  readonly bytes: Uint8Array;
  readonly shape: readonly number[];
  readonly dtype: DataType;
  readonly metadata: DescriptorMetadata | null;
  readonly contentHash: string | null;
  /**
   * Whether the bytes have the descriptor's content hash; null when it has none, when it was not to be checked, and for
   * metadata of a kind whose hash is not known here.
   */
  readonly verified: boolean | null;
  /**
   * From posting the transfer until it was seen to be done, ms. Connecting to a new owner is not in it, but what UCX puts
   * off until the first transfer is.
   */
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
   * @throws MediaError descriptor_invalid, invalid_options; no_room, medium_exceeds_pool; read_failed when the owner cannot
   *   be reached or refuses; closed when the reader is disposed before the tensor is there
   */
  async read(descriptor: unknown, options: ReadOptions = {}): Promise<ReadMedia> {
    this.#checkOpen();
    const { into, verify, release, ...given } = parseOptions(readOptionsSchema, options, "read options");
    const parsed = descriptor instanceof MediaDescriptor ? descriptor : MediaDescriptor.parse(descriptor);
    const notification = given.notification ?? (release ? parsed.releaseKey : null) ?? randomUUID();
    const byteLength = checkReadable(parsed, into?.byteLength);
    const header = verify ? hashHeaderOf(parsed) : null;
    const headerBytes = roundToPages(header?.byteLength ?? 0);
    const buffer = this.#landing.take(headerBytes, byteLength);
    try {
      const transferMs = await this.#transfer(parsed, buffer.range.address + headerBytes, notification);
      this.#checkOpen();
      const verified = header && (await this.#hashMatches(buffer, headerBytes, header, byteLength, parsed.contentHash));
      // Disposed of meanwhile, the memory reads as zeros: they are not the tensor, whatever was verified before.
      this.#checkOpen();
      return this.#finished(parsed, buffer, headerBytes, verified, transferMs, into);
    } catch (error) {
      // A transfer that could not be ended may still write: only then the buffer is lost on purpose.
      if (error instanceof UnfinishedTransfer) throw error.error;
      if (!this.#disposed) this.#landing.giveBack(buffer);
      throw error;
    }
  }

  /**
   * Forgets remotes, ends running transfers, gives all memory back; idempotent. Unread results become zeros.
   * @throws MediaError nixl_failed when a step failed; all others were done all the same
   */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const transfers = [...this.#active];
    this.#active.clear();
    runEveryStep("the reader", [
      () => this.#verifier.dispose(),
      () => this.#remotes.forgetAll(),
      ...transfers.map((transfer) => () => this.#agent.release(transfer)),
      () => this.#landing.dispose(),
      () => this.#agent.dispose(),
    ]);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #checkOpen(): void {
    if (this.#disposed) throw new MediaError("closed", "the reader was disposed");
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
    verified: boolean | null,
    transferMs: number,
    into: ReadOptions["into"],
  ): ReadMedia {
    let bytes = buffer.range.view(offset, descriptor.nixlDescriptor.size);
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

  /** @returns milliseconds from posting to completion */
  async #transfer(descriptor: MediaDescriptor, localAddress: number, notification: string): Promise<number> {
    const deadline = performance.now() + this.#settings.timeoutMs;
    let lease: RemoteLease | null = null;
    let outcome: "intact" | "broken" = "intact";
    try {
      lease = await this.#remotes.lease(descriptor.nixlMetadata);
      this.#checkOpen();
      const started = performance.now();
      const transfer = this.#post(lease, descriptor, localAddress, notification);
      this.#active.add(transfer);
      try {
        await this.#finish(transfer, deadline);
      } catch (error) {
        outcome = "broken";
        this.#end(transfer, readFailed(error));
        throw error;
      }
      const transferMs = performance.now() - started;
      this.#end(transfer, null);
      return transferMs;
    } catch (error) {
      if (isConnectionFailure(error)) outcome = "broken";
      throw error instanceof UnfinishedTransfer ? error : readFailed(error);
    } finally {
      // After dispose() nothing is known any more that could be forgotten.
      lease?.end(outcome);
    }
  }

  /**
   * Posts the read. A transfer that is refused before it is posted says nothing about the connection: most likely the
   * address is not registered. But libnixl may have dropped what it knew of the remote; loading the text again is harmless
   * to transfers that run, and settles it.
   */
  #post(lease: RemoteLease, descriptor: MediaDescriptor, localAddress: number, notification: string): NativeTransfer {
    const { addr, size } = descriptor.nixlDescriptor;
    const post = () => this.#agent.read(lease.name, localAddress, addr, size, Buffer.from(notification));
    try {
      return post();
    } catch (error) {
      if (isConnectionFailure(error)) throw error;
      this.#remotes.reload(descriptor.nixlMetadata);
      return post();
    }
  }

  /** @throws MediaError nixl_failed when the transfer fails; read_failed at the deadline; closed */
  async #finish(transfer: NativeTransfer, deadline: number): Promise<void> {
    const eagerUntil = performance.now() + EAGER_POLL_MS;
    while (!this.#agent.poll(transfer)) {
      const now = performance.now();
      if (now > deadline) {
        throw new MediaError("read_failed", `The read did not finish within ${this.#settings.timeoutMs} ms`);
      }
      await (now < eagerUntil ? new Promise((resolve) => setImmediate(resolve)) : Bun.sleep(POLL_INTERVAL_MS));
      this.#checkOpen();
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

/**
 * Whether the connection is at fault, and with it all that runs over it: NIXL refused to post a transfer that it had
 * accepted, or to take a remote's metadata text once more.
 */
function isConnectionFailure(error: unknown): boolean {
  const status = error instanceof MediaError ? error.cause : null;
  return status instanceof NativeStatus && /^(post_xfer_req|load_remote_md)/.test(status.attempted);
}

function readFailed(error: unknown): MediaError {
  if (error instanceof MediaError && error.code !== "nixl_failed") return error;
  return new MediaError("read_failed", "The tensor could not be read: its owner is gone or refuses", {
    cause: error instanceof MediaError ? error.cause : error,
  });
}
