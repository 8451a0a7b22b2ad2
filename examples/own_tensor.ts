/**
 * Puts a tensor of your own into registered memory: no decoding, no child processes.
 *
 *   npx bun examples/own_tensor.ts
 */
import {
  canonicalContentHash,
  DecodedMedia,
  getNixlAgent,
  intoRdmaDescriptor,
  MediaReader,
  SlabPool,
} from "../src/index.ts";

using agent = getNixlAgent();
using pool = new SlabPool({ slabBytes: 2 ** 20, budgetBytes: 2 ** 22 });
pool.register(agent);

const pixels = Uint8Array.from({ length: 64 * 64 * 3 }, (_, index) => index % 251);
const shape = [64, 64, 3];
const media = DecodedMedia.fromTypedArray(pixels, shape, {
  metadata: { Image: { format: "Png", color_type: "Rgb8", layout: "HWC" } },
  contentHash: canonicalContentHash(shape, "UINT8", pixels),
});

using descriptor = intoRdmaDescriptor(media, pool);
using reader = await MediaReader.open();
using read = await reader.read(descriptor.toWire());
console.log(`${descriptor}: verified ${read.verified}`);
