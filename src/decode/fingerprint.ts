/** Names for encoded media in error messages: enough to find the file again, nothing of what is in it. */
import xxhash from "xxhash-wasm";
import { type EncodedMedium, startOf } from "../encoded.ts";

/** Only the beginning is hashed: a failing medium may be huge, and this runs on the event loop. */
const HASHED_BYTES = 1024 * 1024;

const hasher = xxhash();

/** `N bytes, xxh64 HEX`: the medium's length, and XXH64 (seed 0) of its first MiB, or of what was read of a file. */
export async function fingerprint(encoded: EncodedMedium): Promise<string> {
  const { h64Raw } = await hasher;
  const hash = h64Raw(startOf(encoded).subarray(0, HASHED_BYTES)).toString(16).padStart(16, "0");
  return `${encoded.byteLength} bytes, xxh64 ${hash}`;
}
