/** Registered memory: the agent, the slab pool, descriptors of what lies there, and the reader. */
export {
  getNixlAgent,
  getNixlMetadata,
  NixlAgent,
  type NixlAgentOptions,
  nixlAgentOptionsSchema,
} from "./agent.ts";
export { watchForgotten } from "./forgotten.ts";
export { HOST_OWNER, type OwnerId, type SlabGrant } from "./owners.ts";
export type { QuarantineState } from "./quarantine.ts";
export { describeRoom, intoRdmaDescriptor, type ReleasableLease } from "./rdma_descriptor.ts";
export {
  MediaReader,
  type MediaReaderOptions,
  mediaReaderOptionsSchema,
  type ReadMedia,
  type ReadOptions,
  readOptionsSchema,
} from "./reader.ts";
export type { Room, SpareRoom } from "./room.ts";
export { SlabPool } from "./slab_pool.ts";
export { type SlabPoolOptions, slabPoolOptionsSchema } from "./slab_pool_options.ts";
