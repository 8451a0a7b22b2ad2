/** Native memory: address ranges, memfds mapped into them, and descriptors passed between processes. */
import { MediaError } from "../src/errors.ts";
import { check, cString, numberOf, shim, viewOf } from "./native.ts";

/** Bytes of a memory page; rooms, slabs and mappings are multiples of it. */
export const PAGE_BYTES = 4096;

/** Writes a zero to each page of memory that holds nothing yet, so that the page is there when it is needed. */
export function touchPages(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength; at += PAGE_BYTES) bytes[at] = 0;
}

/** The smallest multiple of the page size that is not below `byteLength`. */
export function roundToPages(byteLength: number): number {
  return Math.ceil(byteLength / PAGE_BYTES) * PAGE_BYTES;
}

/**
 * A range of addresses, into which memfds are mapped.
 *
 * `abandon()` gives the memory back and keeps the addresses reading as zeros for the life of the process: for ranges that
 * an agent registered, and wherever a view may still be held. `release()` gives the addresses back too.
 */
export class AddressRange {
  readonly address: number;
  readonly byteLength: number;

  /** @param byteLength a multiple of the page size @throws MediaError system_failed */
  constructor(byteLength: number) {
    const out = new BigUint64Array(1);
    check(shim().memory_reserve(byteLength, out));
    this.address = numberOf(out[0]);
    this.byteLength = byteLength;
  }

  /** Maps a memfd, readable and writable, over a part of the range. @throws MediaError system_failed, invalid_argument */
  mapFile(fd: number, offset: number, byteLength: number): void {
    this.#checkInside(offset, byteLength);
    check(shim().memory_map_file(fd, this.address + offset, byteLength));
  }

  /**
   * Maps a file to be read. Writing to it ends the process, and so does reading what was cut off from the file since.
   * @throws MediaError system_failed, invalid_argument
   */
  mapFileToRead(fd: number, offset: number, byteLength: number): void {
    this.#checkInside(offset, byteLength);
    check(shim().memory_map_file_to_read(fd, this.address + offset, byteLength));
  }

  /** A view on mapped bytes. Touching a part that is not mapped ends the process, so map first. */
  view(offset: number, byteLength: number): Uint8Array {
    this.#checkInside(offset, byteLength);
    return viewOf(this.address + offset, byteLength);
  }

  abandon(offset = 0, byteLength = this.byteLength): void {
    this.#checkInside(offset, byteLength);
    check(shim().memory_abandon(this.address + offset, byteLength));
  }

  release(): void {
    check(shim().memory_release(this.address, this.byteLength));
  }

  #checkInside(offset: number, byteLength: number): void {
    if (!(offset >= 0 && byteLength >= 0 && offset + byteLength <= this.byteLength)) {
      throw new MediaError(
        "invalid_argument",
        `${byteLength} bytes at ${offset} are not inside ${this.byteLength} bytes`,
      );
    }
  }
}

/**
 * A new memfd of exactly `byteLength` bytes, close-on-exec, that can neither grow nor shrink. The caller closes it.
 * @param options.sealable whether {@link sealReadOnly} is to follow; otherwise nobody can seal it any further
 */
export function createMemoryFile(name: string, byteLength: number, options: { sealable?: boolean } = {}): number {
  const out = new Int32Array(1);
  check(shim().file_create(cString(name), byteLength, options.sealable ? 1 : 0, out));
  return out[0] ?? -1;
}

/**
 * The first stretch of a memfd that has pages, from an offset on; the rest reads as zeros and takes no memory.
 * @returns bytes `start` up to but not including `end`; null when there is none
 */
export function nextData(fd: number, offset: number): { readonly start: number; readonly end: number } | null {
  const start = new BigUint64Array(1);
  const end = new BigUint64Array(1);
  check(shim().file_next_data(fd, offset, start, end));
  return start[0] === end[0] ? null : { start: numberOf(start[0]), end: numberOf(end[0]) };
}

/** From now on the memfd can be written through existing mappings only. */
export function sealReadOnly(fd: number): void {
  check(shim().file_seal_read_only(fd));
}

export function closeDescriptor(fd: number): void {
  check(shim().descriptor_close(fd));
}

/** A second descriptor of the same open file; the caller closes it. */
export function duplicateDescriptor(fd: number): number {
  const out = new Int32Array(1);
  check(shim().descriptor_duplicate(fd, out));
  return out[0] ?? -1;
}

/** Makes descriptor `to` refer to the open file of `from`. */
export function replaceDescriptor(from: number, to: number): void {
  check(shim().descriptor_replace(from, to));
}

/** Keeps a descriptor from the programs that this process starts. */
export function closeOnExec(fd: number): void {
  check(shim().descriptor_close_on_exec(fd));
}

/** A pair of sockets over which memfds are handed to a child; the caller closes both. */
export function createDescriptorChannel(): { ours: number; theirs: number } {
  const pair = new Int32Array(2);
  check(shim().channel_create(pair));
  return { ours: pair[0] ?? -1, theirs: pair[1] ?? -1 };
}

/** Hands a descriptor to the process at the other end, with a number that tells it what it is for. */
export function sendDescriptor(channel: number, fd: number, tag: number): void {
  check(shim().channel_send(channel, fd, tag));
}

/** Waits for a descriptor; the caller closes it. @throws MediaError system_failed when the other end is gone */
export function receiveDescriptor(channel: number): { fd: number; tag: number } {
  const fd = new Int32Array(1);
  const tag = new BigUint64Array(1);
  check(shim().channel_receive(channel, fd, tag));
  return { fd: fd[0] ?? -1, tag: numberOf(tag[0]) };
}
