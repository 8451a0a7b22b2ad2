/** Decoding in child processes. What runs in a child is in child/, image/, video/ and audio/, of which nothing but options is here. */
export { audioOptionsSchema } from "./audio/options.ts";
export type { DecodedTensor } from "./contract.ts";
export { imageOptionsSchema } from "./image/options.ts";
export type { Decoded } from "./jobs.ts";
export { type DecoderPoolOptions, decoderPoolOptionsSchema } from "./options.ts";
export { DecoderPool } from "./pool.ts";
export type { DecodeRequest } from "./protocol.ts";
export type { RoomMemory, RoomSource, SlabGrant } from "./rooms.ts";
export { sniffMedia } from "./sniff.ts";
export { videoOptionsSchema } from "./video/options.ts";
