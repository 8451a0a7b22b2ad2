/** The child's side of the shared memory: its slabs at the offsets they have in the pool, its inbox, and media files. */
import { readSync } from "node:fs";
import { AddressRange, closeDescriptor, receiveDescriptor, roundToPages, touchPages } from "../../../ffi/memory.ts";
import { createFile } from "../../../ffi/process.ts";
import { MediaError } from "../../errors.ts";
import type { DecodeRoom } from "../contract.ts";
import {
  CHANNEL_DESCRIPTOR,
  FILE_TAG,
  INBOX_BYTES,
  INBOX_TAG,
  type ParentMessage,
  type RoomPlace,
} from "../protocol.ts";

type Slab = Extract<ParentMessage, { type: "slab" }>;

/** Encoded bytes in shared memory; `dispose()` unmaps those that came in a file of their own. */
export interface EncodedBytes extends Disposable {
  readonly bytes: Uint8Array;
}

/** Mappings of one decoder child; they live as long as the process. */
export class ChildMemory {
  readonly #pool: AddressRange;
  readonly #inbox: AddressRange;

  /** Reserves the pool's addresses and takes the inbox off the descriptor channel. */
  constructor(poolBytes: number) {
    this.#pool = new AddressRange(poolBytes);
    this.#inbox = new AddressRange(INBOX_BYTES);
    mapReceived(this.#inbox, INBOX_TAG, 0, INBOX_BYTES);
  }

  /** Maps the slab whose descriptor waits on the channel. */
  addSlab({ offset, byteLength, prefault }: Slab): void {
    mapReceived(this.#pool, offset + 1, offset, byteLength);
    if (prefault) touchPages(this.#pool.view(offset, byteLength));
  }

  /** The encoded bytes of a job. */
  encoded(source: "inbox" | "file", byteLength: number): EncodedBytes {
    if (source === "inbox") return { bytes: this.#inbox.view(0, byteLength), [Symbol.dispose]: () => {} };
    const fd = receive(FILE_TAG);
    try {
      return mappedFile(fd, byteLength) ?? copiedFile(fd, byteLength);
    } finally {
      closeDescriptor(fd);
    }
  }

  /** A room that the parent gave: `headerBytes` at `offset`, the payload behind. */
  room({ offset, headerBytes, payloadBytes }: RoomPlace): DecodeRoom {
    const all = this.#pool.view(offset, headerBytes + payloadBytes);
    return {
      header: all.subarray(0, headerBytes),
      payload: all.subarray(headerBytes),
      hashMs: 0,
      span: (headerLength, payloadLength) => {
        if (headerLength > headerBytes || payloadLength > payloadBytes) {
          throw new MediaError("decoder_failed", "a decoder asked for more of its room than it was given");
        }
        return all.subarray(headerBytes - headerLength, headerBytes + payloadLength);
      },
    };
  }
}

/** @returns null where the file system has no mappings, as some have that run in user space */
function mappedFile(fd: number, byteLength: number): EncodedBytes | null {
  const range = new AddressRange(roundToPages(byteLength));
  try {
    range.mapFileToRead(fd, 0, range.byteLength);
  } catch {
    range.release();
    return null;
  }
  return { bytes: range.view(0, byteLength), [Symbol.dispose]: () => range.release() };
}

/** @throws MediaError file_unreadable */
function copiedFile(fd: number, byteLength: number): EncodedBytes {
  const copy = createFile("encoded", byteLength);
  try {
    for (let at = 0, got = 1; got > 0 && at < byteLength; at += got) {
      got = readSync(fd, copy.bytes, at, byteLength - at, at);
    }
    return copy;
  } catch (cause) {
    copy.dispose();
    throw new MediaError("file_unreadable", "the file cannot be read", { cause });
  }
}

/** The next descriptor on the channel, to be closed by the caller. */
function receive(expectedTag: number): number {
  const { fd, tag } = receiveDescriptor(CHANNEL_DESCRIPTOR);
  if (tag === expectedTag) return fd;
  closeDescriptor(fd);
  throw new MediaError("decoder_failed", `descriptor ${tag} came where ${expectedTag} was expected`);
}

/** Takes the next descriptor off the channel, maps it and closes it; the mapping keeps the memory. */
function mapReceived(range: AddressRange, expectedTag: number, offset: number, byteLength: number): void {
  const fd = receive(expectedTag);
  try {
    range.mapFile(fd, offset, byteLength);
  } finally {
    closeDescriptor(fd);
  }
}
