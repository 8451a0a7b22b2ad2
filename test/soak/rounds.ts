/**
 * What strangers do to a loader, over and over: downloads over the cap, loads that are given up at any moment, URLs that are refused,
 * readers that are killed while they read.
 * After each part the loader has to be as it was: no room, no descriptor of the system, no process and no memory more.
 */
import { proportionalMemory } from "../../bench/support/processes.ts";
import { sequence } from "../../bench/support/sequence.ts";
import { MediaError, MediaLoader, type MediaLoaderOptions } from "../../src/index.ts";
import { linesOf, startCli } from "../support/cli.ts";
import { mediaBytes, noisePng } from "../support/media.ts";
import { INSIDE } from "../support/origin.ts";
import { descendantsOf, eventually, openDescriptors } from "../support/processes.ts";

const MEBIBYTE = 2 ** 20;
/** Loads at a time. */
const WORKERS = 8;
/** Aborts come within so many milliseconds: some before anything has begun, some when nearly all is done. */
const LATEST_ABORT_MS = 60;

/** How things stood after so many loads of one part. */
export interface SoakState {
  readonly part: string;
  readonly loads: number;
  readonly descriptors: number;
  readonly processes: number;
  readonly rooms: number;
  readonly quarantined_rooms: number;
  readonly memory_bytes: number;
}

/** Small rooms and caps, so that limits are met. */
const PERMISSIVE: MediaLoaderOptions = {
  fetch: { ...INSIDE, max_image_bytes: MEBIBYTE, max_video_bytes: 20 * MEBIBYTE, max_audio_bytes: MEBIBYTE },
  pool: { slabBytes: 8 * MEBIBYTE, budgetBytes: 32 * MEBIBYTE, quarantineMs: 20 },
  decoders: { children: 2 },
  cache: { bytes: 8 * MEBIBYTE },
};

const REFUSED = [
  "http://127.0.0.1/",
  "http://2130706433/",
  "http://0x7f.1/",
  "http://0177.0.0.1/",
  "http://[::1]/",
  "http://[::ffff:127.0.0.1]/",
  "http://[64:ff9b::7f00:1]/",
  "http://[2002:7f00:1::]/",
  "http://１２７.0.0.1/",
  "http://127。0。0。1/",
  "http://localhost/",
  "http://LOCALHOST./",
  "http://metadata.google.internal/computeMetadata/v1/",
  "http://169.254.169.254/latest/meta-data/",
  "http://user:secret@example.com/",
  "http://example.com:8080/",
  "ftp://example.com/",
  "file:///etc/passwd",
  "javascript:alert(1)",
  "http://",
] as const;

/** Expected ends of loads. Any other is a failure of the soak. */
const ENDS: Readonly<Record<string, readonly string[]>> = {
  over_cap: ["media_too_large"],
  aborted: ["aborted", "loaded", "media_too_large", "no_room"],
  refused: ["url_refused", "url_invalid"],
  killed_readers: ["loaded"],
};
/** Starting a reader takes half a second: there are fewer of them. */
const SHARES: Readonly<Record<string, number>> = { killed_readers: 1 / 10 };

/**
 * Runs all parts.
 * @param port of test/support/hostile_origin.ts
 * @param count loads of each part; a tenth of it where each is a process
 * @param report told how things stand, four times in each part
 * @throws Error when a load ended as it must not, or something was left behind
 */
export async function soak(port: number, count: number, report: (state: SoakState) => void): Promise<void> {
  const origin = `http://127.0.0.1:${port}`;
  await using loader = await MediaLoader.create(PERMISSIVE);
  await using strict = await MediaLoader.create({ decoders: { children: 1 }, pool: { budgetBytes: 64 * MEBIBYTE } });
  const random = sequence(1);
  const pictures = await pictureSources(origin);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const PARTS: Record<string, () => Promise<Disposable>> = {
    over_cap: () => loader.load(pick(overCapParts(origin, random))),
    aborted: () => {
      const signal = AbortSignal.timeout(Math.floor(random() * LATEST_ABORT_MS));
      return loader.load(pick([...pictures, `${origin}/silent`, `${origin}/slow`, `${origin}/picture?${random()}`]), {
        signal,
      });
    },
    refused: () => strict.load(pick(REFUSED)),
    killed_readers: () => killReader(loader),
  };
  for (const [part, load] of Object.entries(PARTS)) {
    const allowed = ENDS[part] ?? [];
    const states: SoakState[] = [];
    const loads = Math.ceil((count * (SHARES[part] ?? 1)) / 4);
    // The first round warms up: caches of the allocator and of libraries are filled once.
    for (let round = 0; round <= 4; round++) {
      await repeat(loads, async () => {
        const end = await endOf(load());
        if (!allowed.includes(end)) throw new Error(`${part}: a load ended with ${end}`);
      });
      const state = await stateOf(part, round * loads, [loader, strict]);
      states.push(state);
      if (round > 0) report(state);
    }
    checkLevel(states);
  }
}

/** Loads what a process then reads again and again, until it is killed. @returns what was loaded */
async function killReader(loader: MediaLoader): Promise<Disposable> {
  const descriptor = await loader.load(await mediaBytes("rgb.png"));
  const victim = startCli(["read"]);
  victim.stdin.write(`${descriptor.toWire()}\n`.repeat(2000));
  Promise.resolve(victim.stdin.flush()).catch(() => {}); // cut off when it is killed
  const { value = "" } = await linesOf(victim.stdout).next(); // it is reading now
  victim.kill("SIGKILL");
  await victim.exited;
  if (!value.includes('"verified":true')) throw new Error(`a reader got something else: ${value}`);
  return descriptor;
}

/** By how much memory may rise from one half of a part to the other, bytes: pools of the allocator come and go. */
export const MOST_GROWTH_BYTES = 32 * MEBIBYTE;

/** @throws Error naming what grew */
export function checkLevel(states: readonly SoakState[]): void {
  const [warm] = states;
  const last = states.at(-1);
  const middle = states[Math.floor(states.length / 2)];
  if (!warm || !last || !middle) throw new Error("nothing was measured");
  for (const key of ["rooms", "quarantined_rooms", "descriptors", "processes"] as const) {
    if (last[key] > warm[key]) throw new Error(`${last.part}: ${key} rose from ${warm[key]} to ${last[key]}`);
  }
  const growth = last.memory_bytes - middle.memory_bytes;
  if (growth > MOST_GROWTH_BYTES) throw new Error(`${last.part}: memory rose by ${growth} bytes in its second half`);
}

function overCapParts(origin: string, random: () => number) {
  const paths = ["endless", "gzip", "redirect", "lying"].map((path) => `${origin}/${path}?${random()}`);
  return paths.flatMap((url) => [
    { type: "image_url", image_url: { url } } as const,
    { type: "video_url", video_url: { url } } as const,
  ]);
}

async function pictureSources(origin: string) {
  const large = await noisePng(1500, 1300);
  const names = ["rgb.png", "h264.mp4", "lossy.webp"];
  const files = await Promise.all(names.map(mediaBytes));
  const inline = `data:image/png;base64,${Buffer.from(large).toString("base64")}`;
  return [...files, large, inline, `${origin}/picture`] as const;
}

async function endOf(loading: Promise<Disposable>): Promise<string> {
  try {
    using _ = await loading;
    return "loaded";
  } catch (error) {
    if (error instanceof MediaError) return error.code;
    throw error;
  }
}

async function repeat(count: number, work: () => Promise<void>): Promise<void> {
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await work();
  };
  await Promise.all(Array.from({ length: WORKERS }, worker));
}

/** Once everything has come to rest: what an abort ended may take a moment to be gone. */
async function stateOf(part: string, loads: number, loaders: readonly MediaLoader[]): Promise<SoakState> {
  const isAtRest = ({ stats, childPids }: MediaLoader, children: number): boolean =>
    stats.fetches.active + stats.fetches.waiting + stats.waiting.forDecoder + stats.waiting.forRoom === 0 &&
    stats.pool.rooms === stats.cache.entries &&
    stats.pool.quarantinedRooms === 0 &&
    childPids.length === children;
  await eventually("all is at rest", () => loaders.every((loader, index) => isAtRest(loader, 2 - index)), 20_000);
  await eventually("ended decoders are replaced", async () => descendantsOf(process.pid).length >= 3, 20_000);
  for (let pass = 0; pass < 3; pass++) {
    Bun.gc(true);
    await Bun.sleep(50);
  }
  const pids = [process.pid, ...loaders.flatMap(({ childPids }) => childPids)];
  const [loader, strict] = loaders;
  return {
    part,
    loads,
    descriptors: openDescriptors(),
    processes: descendantsOf(process.pid).length,
    // What the cache keeps is no leak.
    rooms: (loader?.stats.pool.rooms ?? 0) - (loader?.stats.cache.entries ?? 0) + (strict?.stats.pool.rooms ?? 0),
    quarantined_rooms: loaders.reduce((sum, { stats }) => sum + stats.pool.quarantinedRooms, 0),
    memory_bytes: pids.reduce((sum, pid) => sum + proportionalMemory(pid), 0),
  };
}
