/** Fetches the URL of its first argument under the policy of its second, and prints what came of it. */
import { MediaError } from "../../src/errors.ts";
import { MediaFetcher } from "../../src/fetch/index.ts";

using fetcher = new MediaFetcher(JSON.parse(process.argv[3] ?? "{}"));
try {
  const { encoded } = await fetcher.fetch(process.argv[2] ?? "");
  console.log(`${encoded.byteLength} bytes`);
} catch (error) {
  console.log(error instanceof MediaError ? error.code : error);
}
