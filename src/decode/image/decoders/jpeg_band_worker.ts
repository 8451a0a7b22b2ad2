/** The Worker that decodes lower bands of JPEGs. Started by jpeg_bands.ts; it waits in native code, never in an event loop. */
import { viewOf } from "../../../../ffi/native.ts";
import { openTurboJpeg, type TurboJpegBands } from "../../../../ffi/turbojpeg.ts";
import { type BandWorkerStart, STATE, STATE_BYTES } from "./jpeg_bands.ts";

declare const self: Worker;

self.onmessage = ({ data: { path, shared } }: MessageEvent<BandWorkerStart>) => {
  const { bands } = openTurboJpeg(path);
  if (!bands) throw new Error("the library cannot decode bands");
  const state = new Int32Array(shared, 0, 1);
  const job = new Float64Array(shared, STATE_BYTES);
  for (let result: number = STATE.idle; ; result = decodeBand(bands, job)) {
    Atomics.store(state, 0, result);
    Atomics.notify(state, 0);
    for (let seen = result; seen !== STATE.asked; seen = Atomics.load(state, 0)) Atomics.wait(state, 0, seen);
  }
};

function decodeBand(bands: TurboJpegBands, job: Float64Array): number {
  const [encoded = 0, encodedBytes = 0, pixels = 0, width = 0, height = 0, channels = 0, first = 0] = job;
  const header = { width, height, channels: channels === 1 ? 1 : 3 } as const;
  try {
    const refusal = bands.decodeRows(viewOf(encoded, encodedBytes), header, viewOf(pixels, width * height * channels), {
      first,
      count: height - first,
    });
    return refusal === null ? STATE.done : STATE.refused;
  } catch {
    return STATE.refused;
  }
}
