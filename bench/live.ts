/**
 * What a descriptor costs while many others are live: a room in registered memory, its description, the JSON text; beside it
 * the reference, which registers each tensor and makes the metadata text anew.
 *
 *   npm run bench:live -- [--iters N] [--rounds N] [--peer BIN]
 *
 * For 0, 100 and 1000 live descriptors {"live","ours_ms","metadata_characters","reference_ms","ratio"}: medians.
 */
import { join } from "node:path";
import { MediaDecoder } from "../src/loader/index.ts";
import { describeRoom, HOST_OWNER, NixlAgent } from "../src/nixl/index.ts";
import { benchArguments, countOption } from "./support/arguments.ts";
import { referenceStages } from "./support/reference.ts";
import { report } from "./support/report.ts";
import { median, rounded } from "./support/statistics.ts";

const USAGE = "bench/live.ts [--iters N] [--rounds N] [--peer BIN]";
const FILE = join(import.meta.dir, "../test/media/odd.jpg");

const { options } = benchArguments(USAGE, ["iters", "rounds", "peer"], 0);
const iterations = countOption(USAGE, options.iters, 400);
const rounds = countOption(USAGE, options.rounds, 4);

using agent = new NixlAgent();
// Descriptors are made and given back here faster than any server does: with quarantine it would be a benchmark of a full pool.
await using decoder = await MediaDecoder.open({ pool: { prefault: true, quarantineMs: 0 } });
decoder.pool.register(agent);
const encoded = await Bun.file(FILE).bytes();
const held = [];
const { tensor, room: first } = await decoder.decodeToRoom(encoded);
held.push(first);
for (let i = 0; i < 2000; i += 1) descriptorMs(); // code is compiled

for (const live of [0, 100, 1000]) {
  while (held.length < live) held.push((await decoder.decodeToRoom(encoded)).room);
  const ours: number[] = [];
  const reference: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    for (let i = 0; i < iterations / rounds; i += 1) ours.push(descriptorMs());
    if (options.peer !== undefined) reference.push(await referenceMs(options.peer, live));
  }
  const ours_ms = rounded(median(ours));
  const result = { live, ours_ms, metadata_characters: decoder.pool.metadataText.length };
  const reference_ms = rounded(median(reference));
  report(options.peer === undefined ? result : { ...result, reference_ms, ratio: rounded(ours_ms / reference_ms) });
}
for (const room of held) room.dispose();

function descriptorMs(): number {
  const start = performance.now();
  const room = decoder.pool.take(HOST_OWNER, tensor.byteLength);
  const descriptor = describeRoom(decoder.pool, room, tensor, tensor.contentHash);
  descriptor.toWire();
  const elapsed = performance.now() - start;
  descriptor.dispose();
  return elapsed;
}

async function referenceMs(peer: string, live: number): Promise<number> {
  const each = String(Math.ceil(iterations / rounds));
  const stages = await referenceStages(peer, [FILE, "--iters", each, "--stage", "descriptor", "--live", String(live)]);
  return (stages.get("register+descriptor") ?? Number.NaN) + (stages.get("json") ?? Number.NaN);
}
