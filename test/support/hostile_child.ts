/**
 * A decoder child that was taken over: it keeps the protocol only as far as the scenario in the job's settings says. The
 * parent must neither believe it, nor hang, nor keep anything for it.
 */
import type { ParentMessage } from "../../src/decode/protocol.ts";

type Job = Extract<ParentMessage, { type: "job" }>;

const IMAGE = { Image: { format: "Png", color_type: "Rgb8", layout: "HWC" } };
const TIMINGS = { decodeMs: 1, hashMs: 0 };
const SOUND = { shape: [2, 2, 3], dtype: "UINT8", metadata: IMAGE, byteLength: 12, contentHash: "0123456789abcdef" };
const CLIP = { Video: { source_fps: 1, source_duration: 1, sampled_timestamps: [0] } };

/** Answers that do not fit the job, which is an image, or the room of 12 bytes that is asked for. */
const WRONG_TENSORS: Record<string, object> = {
  "another type": { ...SOUND, shape: [3], dtype: "FLOAT32" },
  "another kind": { ...SOUND, metadata: CLIP },
  "another rank": { ...SOUND, shape: [12] },
  "another number of channels": { ...SOUND, shape: [2, 6, 1] },
  "more than the room": { ...SOUND, shape: [20, 20, 3], byteLength: 1200 },
  "another length than its shape": { ...SOUND, byteLength: 11 },
  "an overflowing shape": { ...SOUND, shape: [2 ** 52, 2 ** 52, 3], byteLength: 12 },
  "a negative shape": { ...SOUND, shape: [-2, -2, 3] },
  "no hash": { ...SOUND, contentHash: null },
  "a hash that is none": { ...SOUND, contentHash: "../../etc/passwd" },
  "more than was asked for": { ...SOUND, nixl_metadata: "b64:" },
};

let waiting: (() => void) | null = null;

function answer(job: Job, scenario: string): void {
  const { id } = job;
  const say = (message: object): void => void process.send?.({ id, ...message });
  const withRoom = (then: () => void): void => {
    waiting = then;
    say({ type: "need", payloadBytes: 12, headerBytes: 1 });
  };
  const fail = (code: string, text: string): void => say({ type: "failed", code, message: text, cause: null });
  const SCENARIOS: Record<string, () => void> = {
    honest: () => withRoom(() => say({ type: "done", tensor: SOUND, timings: TIMINGS })),
    "a refusal that there was not": () => fail("no_room", "there is none"),
    "a code that is the parent's": () => fail("closed", "closed"),
    "a message without end": () => fail("media_corrupt", "x".repeat(100_000)),
    "media not received": () => fail("media_corrupt", "not looked at"),
    "no message": () => say({ hello: "world" }),
    "done without a room": () => say({ type: "done", tensor: SOUND, timings: TIMINGS }),
    "an answer to the next job": () =>
      withRoom(() => {
        say({ type: "done", tensor: SOUND, timings: TIMINGS });
        const next = { id: id + 1, type: "failed", code: "media_corrupt", message: "not looked at", cause: null };
        setInterval(() => process.send?.(next), 0);
      }),
    threads: () => fail("media_corrupt", `${job.threads}`),
    "an exception": () =>
      withRoom(() => {
        throw new Error("inside");
      }),
    silence: () => {},
  };
  say({ type: "taken" });
  const act =
    SCENARIOS[scenario] ??
    (() => withRoom(() => say({ type: "done", tensor: WRONG_TENSORS[scenario], timings: TIMINGS })));
  act();
}

process.on("message", (message: ParentMessage) => {
  if (message.type === "start") process.send?.({ type: "ready" });
  if (message.type === "job") answer(message, (message.request.settings as { scenario: string }).scenario);
  if (message.type === "room" || message.type === "refused") waiting?.();
});
process.on("disconnect", () => process.exit(0));

/** Scenarios of {@link WRONG_TENSORS}, for the test's table. */
export const wrongTensors = Object.keys(WRONG_TENSORS);
