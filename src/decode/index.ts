/** Decoding in child processes. What runs in a child is in child/, image/ and video/, and is never imported from here. */
export type { DecodedTensor } from "./contract.ts";
export type { Decoded } from "./jobs.ts";
export { type DecoderPoolOptions, decoderPoolOptionsSchema } from "./options.ts";
export { DecoderPool } from "./pool.ts";
export type { DecodeRequest } from "./protocol.ts";
export type { RoomMemory, RoomSource, SlabGrant } from "./rooms.ts";
export { sniffMedia } from "./sniff.ts";
