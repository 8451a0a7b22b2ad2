/**
 * Reads a large tensor over UCX's TCP transport, where a transfer takes many turns of the event loop, and meanwhile from
 * descriptors of the same owner that name memory which is not registered. Prints how each read ended.
 */
import { DecodedMedia, getNixlAgent, intoRdmaDescriptor, MediaReader, SlabPool } from "../../src/index.ts";

const BYTES = 100_000_000;

using agent = getNixlAgent();
using pool = new SlabPool({ slabBytes: 2 ** 27, budgetBytes: 2 ** 27 });
pool.register(agent);
using descriptor = intoRdmaDescriptor(DecodedMedia.fromTypedArray(new Uint8Array(BYTES).fill(7), [BYTES]), pool);
const wire = descriptor.toJSON();
const bogus = { ...wire, nixl_descriptor: { ...wire.nixl_descriptor, addr: 4096 } };
using reader = await MediaReader.open({ landingBytes: 2 ** 29 });

const outcomeOf = (line: unknown) =>
  reader.read(line).then(
    (media) => {
      const isWhole = media.bytes.indexOf(0) < 0;
      media.dispose();
      return isWhole ? "read" : "cut short";
    },
    (error) => error.code,
  );

(await reader.read(wire)).dispose(); // connects
const outcomes = await Promise.all([wire, bogus, bogus, wire].map(outcomeOf));
console.log(JSON.stringify([...outcomes, await outcomeOf(bogus), await outcomeOf(wire)]));
