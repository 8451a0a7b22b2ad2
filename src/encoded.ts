/** Encoded media on their way from where they are read to where they are decoded. */

/** Larger media are files: local ones stay on disk, fetched ones are collected in a file of memory. */
export const MOST_BYTES_IN_MEMORY = 16 * 1024 * 1024;
/** What of a file is kept at hand, bytes: enough to tell what it is, and to name it when decoding fails. */
export const FILE_START_BYTES = 64 * 1024;

/** A file that is read where it is decoded: large ones need not pass through this process's memory. */
export interface EncodedFile extends Disposable {
  /** Open for reading. */
  readonly fd: number;
  readonly byteLength: number;
  /** Its first bytes, which tell what it is. */
  readonly start: Uint8Array;
  /** Closes it. */
  dispose(): void;
}

/** A whole medium in memory, or a file. */
export type EncodedMedium = Uint8Array | EncodedFile;

export function isEncodedFile(encoded: EncodedMedium): encoded is EncodedFile {
  return !(encoded instanceof Uint8Array);
}

/** The beginning of a medium: all of it when it is in memory. */
export function startOf(encoded: EncodedMedium): Uint8Array {
  return isEncodedFile(encoded) ? encoded.start : encoded;
}

/** A medium for several who dispose of it each: a file is closed by the last of them. */
export function sharedBy(count: number, encoded: EncodedMedium): EncodedMedium[] {
  if (!isEncodedFile(encoded)) return Array.from({ length: count }, () => encoded);
  const { fd, byteLength, start } = encoded;
  let users = count;
  return Array.from({ length: count }, () => {
    let isOpen = true;
    const dispose = (): void => {
      if (!isOpen) return;
      isOpen = false;
      users -= 1;
      if (users === 0) encoded.dispose();
    };
    return { fd, byteLength, start, dispose, [Symbol.dispose]: dispose };
  });
}
