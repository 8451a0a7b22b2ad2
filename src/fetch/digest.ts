/** SHA-256 of encoded bytes, without holding up the event loop. */
import { createHash, type Hash } from "node:crypto";

/** Most bytes that are hashed without letting others have their turn: about 0.2 ms. */
const PIECE_BYTES = 256 * 1024;

/** @returns 64 hex digits @throws the signal's reason */
export async function sha256Of(bytes: Uint8Array, signal?: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  await updateInPieces(hash, bytes, signal);
  return hash.digest("hex");
}

/** Adds bytes to a hash, at most 256 KiB at a time. @throws the signal's reason */
export async function updateInPieces(hash: Hash, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<void> {
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) {
    if (at > 0) await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
    hash.update(bytes.subarray(at, at + PIECE_BYTES));
  }
}
