/** A Worker that hashes native memory of the process it lives in. Started by verifier.ts. */
import { viewOf } from "../../ffi/native.ts";
import { hashContiguous } from "../tensor/index.ts";
import type { HashAnswer, HashRequest } from "./verifier.ts";

declare const self: Worker;

self.onmessage = (event: MessageEvent<HashRequest>) => {
  const { id, address, byteLength } = event.data;
  self.postMessage({ id, hash: hashContiguous(viewOf(address, byteLength)) } satisfies HashAnswer);
};
