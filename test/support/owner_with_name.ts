/** Owns a tensor under the agent name that is given, prints its descriptor, and ends with stdin. */
import { DecodedMedia, getNixlAgent, intoRdmaDescriptor, SlabPool } from "../../src/index.ts";

const [, , name = ""] = process.argv;
using agent = getNixlAgent({ name });
using pool = new SlabPool({ slabBytes: 2 ** 20, budgetBytes: 2 ** 20 });
pool.register(agent);
using descriptor = intoRdmaDescriptor(DecodedMedia.fromTypedArray(new Uint8Array(300).fill(7), [300]), pool);
console.log(descriptor.toWire());
for await (const _ of Bun.stdin.stream()) {
  // only the end matters
}
