/** The parent's side of the memory that it shares with one decoder child: the inbox, and descriptors handed over. */
import {
  AddressRange,
  closeDescriptor,
  createDescriptorChannel,
  createMemoryFile,
  sendDescriptor,
} from "../../ffi/memory.ts";
import { createFile } from "../../ffi/process.ts";
import { type EncodedMedium, isEncodedFile } from "../encoded.ts";
import { FILE_TAG, INBOX_BYTES, INBOX_TAG } from "./protocol.ts";
import type { SlabGrant } from "./rooms.ts";

/** Where the child finds the encoded bytes. */
export type Delivery = "inbox" | "file";

/** What is copied before the event loop gets a turn: some 0.1 ms, ten times as much where pages are touched first. */
const AT_ONCE_BYTES = 1024 * 1024;

/** Made before the child is started; `dispose()` once it has been reaped. */
export class ChildChannel implements Disposable {
  readonly #channel: number;
  readonly #inbox: AddressRange;
  /** The child's end, to be given to it and then closed with {@link closeChildEnd}. */
  readonly childEnd: number;

  /** @throws MediaError system_failed */
  constructor() {
    this.#inbox = new AddressRange(INBOX_BYTES);
    try {
      const { ours, theirs } = createDescriptorChannel();
      this.#channel = ours;
      this.childEnd = theirs;
    } catch (error) {
      this.#inbox.release();
      throw error;
    }
    try {
      this.#handOverInbox();
    } catch (error) {
      this.closeChildEnd();
      this.dispose();
      throw error;
    }
  }

  closeChildEnd(): void {
    closeDescriptor(this.childEnd);
  }

  /** Hands over a slab, which the pool keeps. */
  grant(grant: SlabGrant): void {
    sendDescriptor(this.#channel, grant.fd, grant.offset + 1);
  }

  /**
   * Lays an encoded medium where the child can see it: in the inbox, or in a file of its own when it does not fit or is one.
   * Much is copied in pieces, between which the event loop goes on.
   * @param isWanted asked before each piece: once it is not, nothing more is touched
   */
  deliver(encoded: EncodedMedium, isWanted: () => boolean): Delivery | Promise<Delivery> {
    if (isEncodedFile(encoded)) {
      sendDescriptor(this.#channel, encoded.fd, FILE_TAG);
      return "file";
    }
    if (encoded.byteLength <= AT_ONCE_BYTES) {
      this.#inbox.view(0, encoded.byteLength).set(encoded);
      return "inbox";
    }
    return encoded.byteLength <= INBOX_BYTES
      ? this.#deliverToInbox(encoded, isWanted)
      : this.#deliverAsFile(encoded, isWanted);
  }

  async #deliverToInbox(encoded: Uint8Array, isWanted: () => boolean): Promise<Delivery> {
    await copyInPieces(encoded, this.#inbox.view(0, encoded.byteLength), isWanted);
    return "inbox";
  }

  async #deliverAsFile(encoded: Uint8Array, isWanted: () => boolean): Promise<Delivery> {
    using file = createFile("nixl-media-encoded", encoded.byteLength);
    await copyInPieces(encoded, file.bytes, isWanted);
    file.sealReadOnly();
    if (isWanted()) sendDescriptor(this.#channel, file.fd, FILE_TAG);
    return "file";
  }

  dispose(): void {
    closeDescriptor(this.#channel);
    this.#inbox.release();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #handOverInbox(): void {
    const fd = createMemoryFile("nixl-media-inbox", INBOX_BYTES);
    try {
      this.#inbox.mapFile(fd, 0, INBOX_BYTES);
      sendDescriptor(this.#channel, fd, INBOX_TAG);
    } finally {
      closeDescriptor(fd); // mapping and child keep the memory
    }
  }
}

async function copyInPieces(from: Uint8Array, to: Uint8Array, isWanted: () => boolean): Promise<void> {
  for (let at = 0; at < from.byteLength && isWanted(); at += AT_ONCE_BYTES) {
    if (at > 0) await new Promise(setImmediate);
    if (isWanted()) to.set(from.subarray(at, at + AT_ONCE_BYTES), at);
  }
}
