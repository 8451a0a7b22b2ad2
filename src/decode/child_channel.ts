/** The parent's side of the memory that it shares with one decoder child: the inbox, and descriptors handed over. */
import {
  AddressRange,
  closeDescriptor,
  createDescriptorChannel,
  createMemoryFile,
  sendDescriptor,
} from "../../ffi/memory.ts";
import { createFile } from "../../ffi/process.ts";
import { FILE_TAG, INBOX_BYTES, INBOX_TAG } from "./protocol.ts";
import type { SlabGrant } from "./rooms.ts";

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

  /** Lays encoded bytes where the child can see them: small ones in the inbox, others in a file of their own. */
  deliver(encoded: Uint8Array): "inbox" | "file" {
    if (encoded.byteLength <= INBOX_BYTES) {
      this.#inbox.view(0, encoded.byteLength).set(encoded);
      return "inbox";
    }
    using file = createFile("nixl-media-encoded", encoded.byteLength);
    file.bytes.set(encoded);
    sendDescriptor(this.#channel, file.fd, FILE_TAG);
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
