/**
 * Describes the files named on the command line, one after another, and keeps each tensor for ten seconds, which is what a
 * frontend does until its worker has read.
 *
 *   npx bun examples/serve_a_photo.ts photo.jpg clip.mp4
 */
import { MediaError, MediaLoader } from "../src/index.ts";

const HOLD_MS = 10_000;

await using loader = await MediaLoader.create({ video: { num_frames: 8 } });

for (const path of process.argv.slice(2)) {
  try {
    using descriptor = await loader.load({ path });
    console.log(descriptor.toWire());
    await Bun.sleep(HOLD_MS);
  } catch (error) {
    if (!(error instanceof MediaError)) throw error;
    console.error(`${path}: ${error.message} (answer with HTTP ${error.status})`);
  }
}
