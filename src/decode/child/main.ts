/**
 * The decoder child's program: takes one job at a time, decodes it into the room that the parent gives, and hashes it
 * there. Hostile bytes meet native decoders here and nowhere else; whatever happens to this process costs one job.
 */
import { writeFileSync } from "node:fs";
import { closeOnExec } from "../../../ffi/memory.ts";
import { dieWithParent, limitMemoryGrowth, privateMemory } from "../../../ffi/process.ts";
import { asMediaError, MediaError } from "../../errors.ts";
import { decodeAudio } from "../audio/decode.ts";
import type { AudioSettings } from "../audio/options.ts";
import type { DecodeContext, DecodedTensor, DecodeRoom, DecodeTimings, NativeDecoders } from "../contract.ts";
import { decodeImage } from "../image/decode.ts";
import type { ImageOptions } from "../image/options.ts";
import { CHANNEL_DESCRIPTOR, type ChildMessage, childCode, type ParentMessage } from "../protocol.ts";
import { decodeVideo, type VideoSettings } from "../video/index.ts";
import { ChildMemory } from "./memory.ts";

type Start = Extract<ParentMessage, { type: "start" }>;
type Job = Extract<ParentMessage, { type: "job" }>;
type RoomAnswer = Extract<ParentMessage, { type: "room" | "refused" }>;

/** When memory runs out, the kernel takes a decoder before the server. */
const OUT_OF_MEMORY_SCORE = "1000";

let memory: ChildMemory | undefined;
let native: NativeDecoders = { ffmpegPath: null, turboJpegPath: null, webpPath: null };
let roomAsked: ((answer: RoomAnswer) => void) | null = null;

function say(message: ChildMessage): void {
  process.send?.(message);
}

function start(message: Start): void {
  memory = new ChildMemory(message.poolBytes);
  limitMemoryGrowth(message.memoryLimitBytes);
  native = message.native;
  say({ type: "ready" });
}

async function roomFor({ id, room: given }: Job, payloadBytes: number, headerBytes: number): Promise<DecodeRoom> {
  if (given?.payloadBytes === payloadBytes && given.headerBytes >= headerBytes) return started().room(given);
  const { promise, resolve } = Promise.withResolvers<RoomAnswer>();
  roomAsked = resolve;
  say({ type: "need", id, payloadBytes, headerBytes });
  const answer = await promise;
  if (answer.type === "refused") throw new MediaError(answer.code, answer.message);
  return started().room(answer.room);
}

/** How soon after a job the child says what memory it holds, ms; one timer for all jobs in that time. */
const MEMORY_REPORT_DELAY_MS = 100;
let isMemoryReportDue = false;

function reportMemory(): void {
  if (isMemoryReportDue) return;
  isMemoryReportDue = true;
  setTimeout(() => {
    isMemoryReportDue = false;
    say({ type: "memory", privateBytes: privateMemory() });
  }, MEMORY_REPORT_DELAY_MS);
}

/** Tells time spent waiting for rooms and hashing from time spent decoding. */
class JobClock {
  readonly #started = performance.now();
  #waitedMs = 0;
  #room: DecodeRoom | null = null;

  async room(asked: () => Promise<DecodeRoom>): Promise<DecodeRoom> {
    const before = performance.now();
    this.#room = await asked();
    this.#waitedMs += performance.now() - before;
    return this.#room;
  }

  get timings(): DecodeTimings {
    const hashMs = this.#room?.hashMs ?? 0;
    return { decodeMs: Math.max(0, performance.now() - this.#started - this.#waitedMs - hashMs), hashMs };
  }
}

async function run(job: Job): Promise<void> {
  try {
    using encoded = started().encoded(job.source, job.byteLength);
    say({ type: "taken", id: job.id });
    const clock = new JobClock();
    const context: DecodeContext = {
      room: (payloadBytes, headerBytes = 1) => clock.room(() => roomFor(job, payloadBytes, headerBytes)),
      ...native,
      threads: job.threads,
    };
    const { shape, dtype, metadata, byteLength, contentHash } = await decode(job, encoded.bytes, context);
    const tensor = { shape: [...shape], dtype, metadata, byteLength, contentHash };
    say({ type: "done", id: job.id, tensor, timings: clock.timings });
  } catch (error) {
    const known = asMediaError(error, "decoder_failed", "The decoder failed in a way that it should not");
    const cause = known.cause instanceof Error ? String(known.cause).slice(0, 1000) : null;
    say({ type: "failed", id: job.id, code: childCode(known.code), message: known.message.slice(0, 500), cause });
  }
  reportMemory();
}

function decode(job: Job, encoded: Uint8Array, context: DecodeContext): Promise<DecodedTensor> {
  const { kind, settings, hashVideo } = job.request;
  // The parent checked the settings against the same schemas.
  if (kind === "image") return decodeImage(encoded, settings as ImageOptions, context);
  if (kind === "audio") return decodeAudio(encoded, settings as AudioSettings, context);
  return decodeVideo(encoded, { settings: settings as VideoSettings, hashVideo }, context);
}

function started(): ChildMemory {
  if (!memory) throw new MediaError("decoder_failed", "the decoder child was given work before it was started");
  return memory;
}

function receive(message: ParentMessage): void {
  switch (message.type) {
    case "start":
      start(message);
      return;
    case "slab":
      started().addSlab(message);
      return;
    case "room":
    case "refused":
      roomAsked?.(message);
      return;
    case "job":
      void run(message);
  }
}

dieWithParent(Number(process.argv[2]));
closeOnExec(CHANNEL_DESCRIPTOR);
try {
  writeFileSync("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
} catch {
  // A container may forbid it; decoding works without.
}
process.on("message", receive);
process.on("disconnect", () => process.exit(0));
