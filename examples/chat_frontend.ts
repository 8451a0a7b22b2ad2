/**
 * A frontend: takes chat completion requests, loads their media, and has them read as a worker elsewhere would.
 *
 *   npx bun examples/chat_frontend.ts &
 *   curl localhost:8080/v1/chat/completions -d '{"messages":[{"role":"user","content":[
 *     {"type":"text","text":"What is this?"},
 *     {"type":"image_url","image_url":{"url":"https://upload.wikimedia.org/wikipedia/commons/4/47/PNG_transparency_demonstration_1.png"}}]}]}'
 */
import { MediaError, MediaLoader, MediaReader } from "../src/index.ts";

await using loader = await MediaLoader.create({
  cache: { bytes: 256 * 2 ** 20, freshness: "http" },
  tenants: { maxBytes: 128 * 2 ** 20, maxLoads: 16 },
  video: { num_frames: 8 },
});
using worker = await MediaReader.open();

const server = Bun.serve({
  port: Number(process.env.PORT ?? 8080),
  maxRequestBodySize: 64 * 2 ** 20,
  async fetch(request) {
    if (request.method !== "POST") return Response.json({ error: "POST a chat completion request" }, { status: 405 });
    const tenant = request.headers.get("x-tenant") ?? "anonymous";
    try {
      const chat = await request.json().catch(() => null);
      // The memory is given back when this function ends: when the worker has answered.
      using media = await loader.loadMessages(chat, { tenant, signal: request.signal });
      const tensors = [];
      for (const descriptor of media.descriptors) {
        using read = await worker.read(descriptor.toWire()); // a worker is sent media.toWire(), over a channel that it shares with nobody
        tensors.push({ shape: read.shape, content_hash: read.contentHash, verified: read.verified });
      }
      return Response.json({ tensors });
    } catch (error) {
      if (!(error instanceof MediaError)) throw error;
      const headers = error.retryAfter === null ? {} : { "retry-after": String(error.retryAfter) };
      return Response.json({ error: { code: error.code, message: error.message } }, { status: error.status, headers });
    }
  },
});
console.log(`listening on port ${server.port}`);
await new Promise((resolve) => process.once("SIGINT", resolve).once("SIGTERM", resolve));
await server.stop(true);
