/**
 * How late the event loop of the loader's process is while a large chat request is taken in whose media come inside it, as data
 * URLs: what a server's other requests would feel.
 *
 *   npm run bench:intake -- [FILE] [--requests N] [--pictures N] [--megabytes N]
 *
 * {"requests","pictures","text_bytes","request_ms","cpu_ms","parse_ms","idle":{"p50_ms","p99_ms","max_ms"},"busy":{…}}: by how much timers
 * of 1 ms are late without and with the requests, one after the other and each with other pictures. `request_ms` is the median
 * from `loadMessages` until all of a request's pictures are described, `cpu_ms` that of the processor time that this process takes
 * for it, which other programs on the machine do not lengthen. `parse_ms` is the median of what `JSON.parse` takes for
 * such a request: it is in one piece, the server's business, and not among what is measured while the requests are taken in.
 */
import { MediaLoader } from "../src/index.ts";
import { benchArguments, countOption } from "./support/arguments.ts";
import { latenesses, latenessesFor, latenessOf } from "./support/lateness.ts";
import { benchMedia } from "./support/media.ts";
import { report } from "./support/report.ts";
import { median, rounded } from "./support/statistics.ts";

const USAGE = "bench/intake.ts [FILE] [--requests N] [--pictures N] [--megabytes N]";
const MEGABYTE = 1_000_000;

const { files, options } = benchArguments(USAGE, ["requests", "pictures", "megabytes"], 1);
const requests = countOption(USAGE, options.requests, 20);
const pictures = countOption(USAGE, options.pictures, 4);
const megabytes = countOption(USAGE, options.megabytes, 20);
const photo = await Bun.file(files[0] ?? (await benchMedia()).get("12mp.jpg") ?? "").bytes();

await using loader = await MediaLoader.create({ pool: { prefault: true } });
await Bun.sleep(500); // what start-up left behind
const idle = await latenessesFor(3000);

const [parseMs, requestMs, cpuMs, busy]: [number[], number[], number[], number[]] = [[], [], [], []];
let textBytes = 0;
for (let index = 0; index < requests; index += 1) {
  const text = requestText(index);
  textBytes = text.length;
  const parsing = performance.now();
  const request: unknown = JSON.parse(text);
  parseMs.push(performance.now() - parsing);
  Bun.gc(true); // the garbage of making the request is not the request's
  await Bun.sleep(20);
  busy.push(...(await take(request)));
}
report({
  requests,
  pictures,
  text_bytes: textBytes,
  request_ms: rounded(median(requestMs)),
  cpu_ms: rounded(median(cpuMs)),
  parse_ms: rounded(median(parseMs)),
  idle: latenessOf(idle),
  busy: latenessOf(busy),
});

/** Takes one request in. @returns by how much timers were late meanwhile, ms */
async function take(request: unknown): Promise<number[]> {
  let isOver = false;
  const late = latenesses(() => isOver);
  const [started, used] = [performance.now(), process.cpuUsage()];
  try {
    using media = await loader.loadMessages(request);
    if (media.descriptors.length !== pictures) throw new Error("not all pictures were loaded");
    requestMs.push(performance.now() - started);
    const { user, system } = process.cpuUsage(used);
    cpuMs.push((user + system) / 1000);
  } finally {
    isOver = true;
  }
  return late;
}

/** A chat request, as text of the wanted size. Behind a photo's end there may be anything: that makes it as large as it has to be. */
function requestText(index: number): string {
  const bytesEach = Math.max(photo.length, Math.floor((megabytes * MEGABYTE * 3) / 4 / pictures));
  const content = Array.from({ length: pictures }, (_, picture) => {
    const encoded = Buffer.alloc(bytesEach, `request ${index}, picture ${picture}. `);
    encoded.set(photo);
    return { type: "image_url", image_url: { url: `data:image/jpeg;base64,${encoded.toString("base64")}` } };
  });
  return JSON.stringify({ model: "any", messages: [{ role: "user", content }] });
}
