/** Animated WebP as clips, through libvips: ffmpeg 5.1 decodes only pictures that stand still. */
import sharp from "sharp";
import { MediaError } from "../../errors.ts";
import { configureLibvips } from "../image/decoders/libvips.ts";
import type { ClipSource, WantedFrames } from "./clip_source.ts";
import { CHANNELS } from "./command.ts";
import { NOT_TURNED } from "./display_matrix.ts";
import type { ClipFacts } from "./facts.ts";
import { framesTaken } from "./frame_walk.ts";
import { lastPacketEnd, type Picture, packetRate } from "./packets.ts";
import { reduced } from "./rational.ts";

const TIME_BASE = reduced(1, 1000);
/** Browsers show a frame for so long, ms, when it says 10 ms or less. */
const DEFAULT_DELAY_MS = 100;
const LEAST_DELAY_MS = 10;
/** Under what is transparent: what ffmpeg puts under transparent pixels of a GIF. */
const BACKGROUND = "#ffffff";
/** Pictures of one run, bytes. Each run begins with the first picture, since every one is drawn over those before it. */
const RUN_BYTES = 64 * 1024 * 1024;
/**
 * Pixels of all pictures that are drawn for one clip, those over which others are drawn included: up to a minute of work. Few
 * wanted pictures of many are drawn by many runs, each from the first picture on.
 */
const MOST_DRAWN_PIXELS = 2 ** 32;
/** How libvips, and libwebp behind it, say that they cannot have memory. */
const OUT_OF_MEMORY = /out of memory|unable to allocate|memory allocation/i;
/** Alpha included. */
const SOURCE_CHANNELS = 4;

/** @throws MediaError media_corrupt */
export async function openWebpClip(encoded: Uint8Array): Promise<ClipSource> {
  if (isCut(encoded)) throw new MediaError("media_corrupt", "the file is shorter than its header says");
  configureLibvips();
  const {
    width = 0,
    height = 0,
    pageHeight = height,
    pages = 1,
    delay = [],
  } = await readable(sharp(encoded, { pages: -1, limitInputPixels: false }).metadata());
  const packets: Picture[] = [];
  for (let page = 0, pts = 0; page < pages; page += 1) {
    const stated = delay[page] ?? 0;
    const duration = stated > LEAST_DELAY_MS ? stated : DEFAULT_DELAY_MS;
    packets.push({ pts, duration, isKey: true });
    pts += duration;
  }
  const facts: ClipFacts = {
    ...{ width, height: pageHeight, timeBase: TIME_BASE, turn: NOT_TURNED },
    durationTicks: lastPacketEnd(packets, TIME_BASE),
    frameRate: packetRate(packets, TIME_BASE) ?? { num: 0, den: 1 },
    ...{ frameCount: pages, packetCount: pages },
  };
  const timestamps = packets.map(({ pts }) => pts);
  return {
    facts,
    pictures: async () => packets,
    decode: (wanted, _, into) => decodePages(encoded, timestamps, wanted, into),
    [Symbol.dispose]: () => {},
  };
}

async function decodePages(
  encoded: Uint8Array,
  timestamps: readonly number[],
  wanted: WantedFrames,
  into: Uint8Array,
): Promise<readonly number[]> {
  const pages = framesTaken(timestamps, wanted);
  if (pages.length === 0)
    throw new MediaError("no_frames", "Failed to decode any frames, none is where they are wanted");
  if (wanted.strict && pages.length < wanted.wanted) {
    throw new MediaError("media_corrupt", `${pages.length} of ${wanted.wanted} frames could be decoded`);
  }
  const { width, height } = wanted.output;
  const frameBytes = width * height * CHANNELS;
  const runs = runsOf(pages, wanted.width * wanted.height * SOURCE_CHANNELS);
  checkWork(runs, wanted.width * wanted.height);
  let frame = 0;
  for (const run of runs) {
    const [first = 0] = run;
    const pictures = await drawn(encoded, first, (run.at(-1) ?? first) - first + 1, wanted);
    for (const page of run) {
      into.set(pictures.subarray((page - first) * frameBytes, (page - first + 1) * frameBytes), frame * frameBytes);
      frame += 1;
    }
  }
  return pages.map((page) => timestamps[page] ?? 0);
}

/** @throws MediaError limit_exceeded */
function checkWork(runs: readonly (readonly number[])[], pagePixels: number): void {
  const pages = runs.reduce((sum, run) => sum + (run.at(-1) ?? 0) + 1, 0);
  if (pages * pagePixels <= MOST_DRAWN_PIXELS) return;
  throw new MediaError(
    "limit_exceeded",
    `the frames wanted take ${pages} pictures of ${pagePixels} pixels to draw, over the limit of ${MOST_DRAWN_PIXELS} pixels`,
  );
}

/** Pages one behind the other, RGB, scaled to the output. */
async function drawn(encoded: Uint8Array, page: number, pages: number, wanted: WantedFrames): Promise<Uint8Array> {
  const { width, height } = wanted.output;
  const isScaled = width !== wanted.width || height !== wanted.height;
  const image = sharp(encoded, { page, pages, failOn: "warning", ignoreIcc: true, limitInputPixels: false });
  const flat = image.toColourspace("srgb").flatten({ background: BACKGROUND });
  const sized = isScaled ? flat.resize(width, height, { fit: "fill" }) : flat;
  const { data, info } = await readable(sized.raw().toBuffer({ resolveWithObject: true }));
  if (info.width !== width || info.channels !== CHANNELS || data.byteLength !== pages * width * height * CHANNELS) {
    throw new MediaError("media_corrupt", "the pictures are not as large as the header says");
  }
  return data;
}

/** Pages that are drawn together: no more than fit into {@link RUN_BYTES}, with those in between. */
function runsOf(pages: readonly number[], pageBytes: number): number[][] {
  const most = Math.max(1, Math.floor(RUN_BYTES / pageBytes));
  const runs: number[][] = [];
  for (const page of pages) {
    const run = runs.at(-1);
    if (run && page - (run[0] ?? 0) < most) run.push(page);
    else runs.push([page]);
  }
  return runs;
}

/** What libvips says of a file is the file's fault, unless there is no memory. */
async function readable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    if (OUT_OF_MEMORY.test(String(cause))) {
      throw new MediaError("system_failed", "The system has no memory for the animation", { cause });
    }
    throw new MediaError("media_corrupt", "the animation cannot be decoded", { cause });
  }
}

/** Whether the RIFF header promises more than there is (RFC 9649, section 2.4). */
function isCut(encoded: Uint8Array): boolean {
  const view = new DataView(encoded.buffer, encoded.byteOffset, encoded.byteLength);
  return encoded.byteLength < 12 || view.getUint32(4, true) + 8 > encoded.byteLength;
}
