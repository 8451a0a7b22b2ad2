/**
 * A worker: reads the tensors whose descriptor lines come on stdin, straight into arrays of its own.
 *
 *   npx bun examples/serve_a_photo.ts photo.jpg | npx bun examples/read_a_tensor.ts
 */
import { MediaDescriptor, MediaReader } from "../src/index.ts";

using reader = await MediaReader.open();

for await (const line of console) {
  if (line.trim() === "") continue;
  const descriptor = MediaDescriptor.parse(line);
  const into = new Uint8Array(descriptor.byteLength);
  using media = await reader.read(descriptor, { into });
  const mean = into.reduce((sum, value) => sum + value, 0) / into.length;
  console.log(`${descriptor}: verified ${media.verified}, ${media.transferMs.toFixed(2)} ms, mean ${mean.toFixed(1)}`);
}
