/**
 * A JPEG decoded by two threads: this one makes the upper rows, a Worker the lower ones, straight into the same memory. The
 * Worker has to read what is above its rows, which is why its share is the smaller one and a quarter of the time is saved, not half.
 */
import { addressOf } from "../../../../ffi/native.ts";
import type { TurboJpeg, TurboJpegHeader } from "../../../../ffi/turbojpeg.ts";
import { warn } from "../../child/warning.ts";

/** Smaller pictures are done before the other thread is awake. */
const LEAST_PIXELS = 1_000_000;
/** Of the rows, this thread's share: reading takes some 62 % of the time of reading and making (measured at quality 88). */
const OWN_SHARE = 0.72;
/** Bands begin at a block's edge, whatever the subsampling. */
const BAND_ROWS = 32;

/** Where the two threads meet: what the Worker is to do or has done, as 32-bit words in shared memory. */
export const STATE = { starting: 0, idle: 1, asked: 2, done: 3, refused: 4 } as const;
/** The job, as doubles behind the state: address and bytes of the JPEG, address of the pixels, width, height, channels, first row. */
const JOB_FIELDS = 7;
export const STATE_BYTES = 8;

/** What the Worker is started with. */
export interface BandWorkerStart {
  readonly path: string;
  readonly shared: SharedArrayBuffer;
}

/** A thread that decodes bands. It is started at the first picture that would have used it, and lives as long as the process. */
class BandWorker {
  readonly #state: Int32Array;
  readonly #job: Float64Array;

  constructor(path: string) {
    const shared = new SharedArrayBuffer(STATE_BYTES + JOB_FIELDS * Float64Array.BYTES_PER_ELEMENT);
    this.#state = new Int32Array(shared, 0, 1);
    this.#job = new Float64Array(shared, STATE_BYTES);
    const worker = new Worker(new URL("./jpeg_band_worker.ts", import.meta.url).href);
    worker.unref();
    worker.onerror = (event) => {
      event.preventDefault(); // it stays "starting": pictures are decoded by one thread
      warn(`JPEG is decoded by one thread: ${event.message}`);
    };
    worker.postMessage({ path, shared } satisfies BandWorkerStart);
  }

  get isReady(): boolean {
    return Atomics.load(this.#state, 0) === STATE.idle;
  }

  /** Begins; {@link finish} must follow, before the memory is used for anything else. */
  begin(encoded: Uint8Array, { width, height, channels }: TurboJpegHeader, pixels: Uint8Array, firstRow: number): void {
    const { byteLength } = encoded;
    this.#job.set([addressOf(encoded), byteLength, addressOf(pixels), width, height, channels, firstRow]);
    Atomics.store(this.#state, 0, STATE.asked);
    Atomics.notify(this.#state, 0);
  }

  /** Waits. @returns whether the band was decoded */
  finish(): boolean {
    while (Atomics.load(this.#state, 0) === STATE.asked) Atomics.wait(this.#state, 0, STATE.asked);
    return Atomics.exchange(this.#state, 0, STATE.idle) === STATE.done;
  }
}

/** Undefined before it is first wanted, null when it could not be started. One library is used in a process. */
let worker: BandWorker | null | undefined;

function startedWorker(path: string): BandWorker | null {
  try {
    return new BandWorker(path);
  } catch (error) {
    warn(`JPEG is decoded by one thread: ${error}`);
    return null;
  }
}

/**
 * Decodes with two threads.
 * @param path of the library, which the Worker opens too
 * @param pixels as for {@link TurboJpeg.decodeInto}
 * @returns null when this picture or this moment is not for two threads; else whether it was decoded
 */
export function decodeInBands(
  library: TurboJpeg,
  path: string,
  encoded: Uint8Array,
  header: TurboJpegHeader,
  pixels: Uint8Array,
): boolean | null {
  const { bands } = library;
  if (!bands || header.width * header.height < LEAST_PIXELS || !bands.suits(encoded)) return null;
  if (worker === undefined) worker = startedWorker(path);
  const count = Math.round((header.height * OWN_SHARE) / BAND_ROWS) * BAND_ROWS;
  if (!worker?.isReady || count === 0 || count >= header.height) return null;
  worker.begin(encoded, header, pixels, count);
  let isOwnDone = false;
  try {
    isOwnDone = bands.decodeRows(encoded, header, pixels, { first: 0, count }) === null;
  } finally {
    isOwnDone = worker.finish() && isOwnDone;
  }
  return isOwnDone;
}
