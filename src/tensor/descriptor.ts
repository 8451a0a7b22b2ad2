/** The descriptor: what travels as JSON in place of pixels, and on the side that decoded them keeps their memory. */
import { MediaError } from "../errors.ts";
import { describeIssues } from "../options.ts";
import type { DataType } from "./data_type.ts";
import { descriptorSchema, type NixlDescriptor, type WireDescriptor } from "./descriptor_schema.ts";
import { type DescriptorMetadata, metadataJson, requireVideoMetadata, type VideoMetadata } from "./metadata.ts";
import { type VideoDimensions, videoDimensions } from "./video_dimensions.ts";

/** Registered memory that is kept for one tensor until it is given back. */
export interface PayloadLease {
  /** The tensor's bytes. Not to be touched after the lease was given back: the memory then belongs to another tensor. */
  readonly bytes: Uint8Array;
  /** Whether the memory was given back, by `dispose()` or by whoever gave it out. */
  readonly released: boolean;
  /** Gives the memory back. */
  dispose(): void;
  /** Where the memory is kept for a limited time: the whole time again. @returns false when it was given back */
  renew?(): boolean;
}

/** What a descriptor is made of: its wire form, in which the content hash may also be null. */
export type MediaDescriptorParts = Omit<WireDescriptor, "content_hash" | "release_key"> & {
  readonly content_hash?: string | null | undefined;
  readonly release_key?: string | undefined;
};

/**
 * The descriptor of one decoded medium.
 *
 * One that was made where the medium was decoded holds a lease and so keeps the registered memory until `dispose()`. The
 * memory itself is never serialized: a parsed descriptor has no local payload, only what is needed to read it. A descriptor
 * that was disposed still prints, but what it names may be another tensor by then.
 *
 * `nixlMetadata` is a secret: whoever has it can read the memory of the process that wrote it. {@link toWire} and
 * `JSON.stringify` carry it, since that is what they are for; `String(descriptor)` and inspection, which end in logs, do not.
 */
export class MediaDescriptor {
  readonly #wire: WireDescriptor;
  #lease: PayloadLease | null;

  /**
   * Makes a descriptor of memory that is already registered.
   * @param parts the wire form; checked and copied
   * @param lease the registered memory, which the descriptor then owns; null on the side that only reads
   * @throws MediaError descriptor_invalid naming the fields that are wrong
   */
  constructor(parts: MediaDescriptorParts, lease: PayloadLease | null = null) {
    const result = descriptorSchema.safeParse(parts);
    if (!result.success) {
      // The zod error is not kept as the cause: what it was given holds the secret.
      throw new MediaError("descriptor_invalid", `not a media descriptor: ${describeIssues(result.error)}`);
    }
    this.#wire = result.data;
    this.#lease = lease;
  }

  /**
   * Reads a descriptor from its JSON text or from what `JSON.parse` made of it. Keys that are not known are ignored and
   * metadata of an unknown kind are kept; a malformed content hash counts as none.
   * @throws MediaError descriptor_invalid naming the fields that are wrong
   */
  static parse(value: unknown): MediaDescriptor {
    // The constructor checks every field, so what is here is only said to have the type.
    return new MediaDescriptor((typeof value === "string" ? parseJson(value) : value) as MediaDescriptorParts);
  }

  /** Metadata of the agent that registered the memory, as text. A secret. */
  get nixlMetadata(): string {
    return this.#wire.nixl_metadata;
  }

  /** Where the tensor lies. */
  get nixlDescriptor(): NixlDescriptor {
    return this.#wire.nixl_descriptor;
  }

  /** Dimensions, outermost first: `[H,W,C]` for an image, `[T,H,W,3]` for a clip. */
  get shape(): readonly number[] {
    return this.#wire.shape;
  }

  /** Element type. */
  get dtype(): DataType {
    return this.#wire.dtype;
  }

  /** Metadata of any kind, externally tagged; null when there are none. */
  get metadata(): DescriptorMetadata | null {
    return this.#wire.metadata;
  }

  /** Bytes of the tensor. */
  get byteLength(): number {
    return this.#wire.nixl_descriptor.size;
  }

  /** Content hash as 16 lower-case hex digits, or null when there is none. */
  get contentHash(): string | null {
    return this.#wire.content_hash ?? null;
  }

  /** Content hash as an unsigned 64-bit number, or null when there is none. */
  get contentHash64(): bigint | null {
    return this.contentHash === null ? null : BigInt(`0x${this.contentHash}`);
  }

  /** What a reader that is done may tell the owner, so that the memory is given back; null when it is not to. */
  get releaseKey(): string | null {
    return this.#wire.release_key ?? null;
  }

  /**
   * The clip's metadata.
   * @throws MediaError metadata_missing when there are none; metadata_kind_mismatch when they are of another kind
   */
  get videoMetadata(): VideoMetadata {
    return requireVideoMetadata(this.#wire.metadata);
  }

  /**
   * The clip's content hash, 16 lower-case hex digits.
   * @throws MediaError as {@link videoMetadata}; then content_hash_missing when there is none
   */
  get videoContentHash(): string {
    requireVideoMetadata(this.#wire.metadata);
    if (this.contentHash === null) throw new MediaError("content_hash_missing", "the clip has no content hash");
    return this.contentHash;
  }

  /** The tensor's bytes in this process; null for a parsed descriptor, or when the memory was given back. */
  get localPayload(): Uint8Array | null {
    return this.#lease === null || this.#lease.released ? null : this.#lease.bytes;
  }

  /**
   * Size of the clip, after its payload has been checked to be one.
   * @throws MediaError local_payload_missing when the memory is not here; then as {@link videoDimensions}
   */
  videoDimensions(): VideoDimensions {
    const payload = this.localPayload;
    if (payload === null) throw new MediaError("local_payload_missing", "the clip's payload is not in this process");
    return videoDimensions(this.#wire, payload.byteLength);
  }

  /**
   * Asks for the memory to be kept for the whole of the holder's time again, from now.
   * @returns whether it is: false for a parsed descriptor, and when the memory was given back
   */
  renew(): boolean {
    return this.#lease !== null && !this.#lease.released && (this.#lease.renew?.() ?? true);
  }

  /** Gives the registered memory back; an error of the lease passes through, once. Does nothing the second time, or on a parsed descriptor. */
  dispose(): void {
    const lease = this.#lease;
    this.#lease = null;
    lease?.dispose();
  }

  /** The same as {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** The wire form as an object, keys in wire order, secret included: what `JSON.stringify` prints. */
  toJSON(): WireDescriptor {
    const { nixl_metadata, nixl_descriptor, shape, dtype, metadata, content_hash, release_key } = this.#wire;
    const { addr, size, mem_type, device_id } = nixl_descriptor;
    return {
      nixl_metadata,
      nixl_descriptor: { addr, size, mem_type, device_id },
      shape,
      dtype,
      metadata,
      ...(content_hash !== undefined && { content_hash }),
      ...(release_key !== undefined && { release_key }),
    };
  }

  /**
   * The wire form as one line of JSON, secret included. Differs from `JSON.stringify` in the numbers of a clip's metadata,
   * which are floats and print as such (`24.0`): character for character what a Rust writer prints.
   */
  toWire(): string {
    const { metadata, content_hash, release_key, ...front } = this.toJSON();
    const hash = content_hash === undefined ? "" : `,"content_hash":"${content_hash}"`;
    const key = release_key === undefined ? "" : `,"release_key":"${release_key}"`;
    return `${JSON.stringify(front).slice(0, -1)},"metadata":${metadataJson(metadata)}${hash}${key}}`;
  }

  /** For logs: what the tensor is, without the secret. */
  toString(): string {
    const { shape, dtype } = this.#wire;
    return `MediaDescriptor(${dtype} [${shape.join(",")}], content_hash ${this.contentHash ?? "none"})`;
  }

  /** What `util.inspect`, `Bun.inspect` and `console.log` show: as {@link toString}. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // No cause: a parser's message may quote the text, which holds the secret.
    throw new MediaError("descriptor_invalid", "not a media descriptor: the text is not JSON");
  }
}
