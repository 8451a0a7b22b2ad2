/** What this module makes of a file, and what that takes. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { MediaError } from "../../src/errors.ts";
import type { MediaDecoder } from "../../src/loader/index.ts";
import { metadataJson } from "../../src/tensor/index.ts";
import { peakMemory } from "../support/processes.ts";

/** How often the memory of programs that a decoder starts is looked at, ms: they may be gone soon. */
const SAMPLE_MS = 4;

/** A tensor, or the code of a refusal. */
export type OurOutcome =
  | { readonly shape: readonly number[]; readonly metadata: string; readonly hash: string | null }
  | { readonly code: string };

export interface Measured {
  readonly outcome: OurOutcome;
  readonly ms: number;
  /** Most resident bytes of a decoder process, or of a program that it started, while it had the file. */
  readonly peakBytes: number;
}

/** @param video settings of clips, for this file */
export async function measure(decoder: MediaDecoder, path: string, video: object): Promise<Measured> {
  const peak = new PeakMemory(decoder.childPids);
  const encoded = await Bun.file(path).bytes();
  const start = performance.now();
  const outcome = await outcomeOf(decoder, encoded, video);
  const ms = performance.now() - start;
  return { outcome, ms, peakBytes: peak.end() };
}

async function outcomeOf(decoder: MediaDecoder, encoded: Uint8Array, video: object): Promise<OurOutcome> {
  try {
    using lease = await decoder.decode(encoded, { hashVideo: true, mediaIoKwargs: { video: { ...video } } });
    const { info, contentHash } = lease.media;
    return { shape: info.shape, metadata: metadataJson(info.metadata), hash: contentHash };
  } catch (error) {
    if (error instanceof MediaError) return { code: error.code };
    throw error;
  }
}

class PeakMemory {
  readonly #pids: readonly number[];
  readonly #timer: ReturnType<typeof setInterval>;
  #most = 0;

  constructor(pids: readonly number[]) {
    this.#pids = pids;
    // "5" sets the mark of the most resident memory back (proc(5), clear_refs).
    for (const pid of pids) if (existsSync(`/proc/${pid}`)) writeFileSync(`/proc/${pid}/clear_refs`, "5");
    this.#timer = setInterval(() => this.#look(), SAMPLE_MS);
  }

  end(): number {
    clearInterval(this.#timer);
    this.#look();
    return this.#most;
  }

  #look(): void {
    for (const pid of this.#pids.flatMap((child) => [child, ...startedBy(child)])) {
      try {
        const bytes = peakMemory(pid);
        if (bytes > this.#most) this.#most = bytes;
      } catch {
        // it is gone
      }
    }
  }
}

/** Processes that any thread of a process started. */
function startedBy(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return []; // it is gone
  }
}
