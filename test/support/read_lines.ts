/** A reader in a process of its own: reads the descriptors whose lines come on stdin and prints what came of each. */
import { MediaReader } from "../../src/index.ts";

const options = JSON.parse(process.argv[2] ?? "{}");
using reader = await MediaReader.open();
for await (const line of console) {
  if (line === "") continue;
  try {
    using media = await reader.read(line, options);
    console.log(JSON.stringify({ verified: media.verified, contentHash: media.contentHash }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
