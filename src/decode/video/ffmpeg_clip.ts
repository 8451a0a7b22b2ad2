/** Clips that ffmpeg decodes. */
import { MediaError } from "../../errors.ts";
import { SealedInput } from "../ffmpeg/sealed_input.ts";
import type { Demuxer } from "../sniff.ts";
import { decodeFrames } from "./clip_decoding.ts";
import type { ClipSource } from "./clip_source.ts";
import { type ContainerFacts, readContainerFacts } from "./facts.ts";
import { withShownDelays } from "./gif_delays.ts";
import { probeContainer } from "./probe.ts";
import { sameRational } from "./rational.ts";

/**
 * @param program path of ffmpeg
 * @throws MediaError as {@link readContainerFacts} and {@link probeContainer}
 */
export async function openFfmpegClip(encoded: Uint8Array, demuxer: Demuxer, program: string): Promise<ClipSource> {
  const input = new SealedInput(demuxer === "gif" ? withShownDelays(encoded) : encoded);
  try {
    const facts = await readContainerFacts(encoded, demuxer, () => probeContainer(program, input.file, demuxer));
    const { stream } = facts;
    return {
      facts,
      keyTimestamps: () => findKeyFrames(program, input, facts),
      decode: (wanted, threads, into) => decodeFrames(program, input, { ...wanted, demuxer, stream }, threads, into),
      [Symbol.dispose]: () => input[Symbol.dispose](),
    };
  } catch (error) {
    input[Symbol.dispose]();
    throw error;
  }
}

async function findKeyFrames(program: string, input: SealedInput, facts: ContainerFacts): Promise<number[]> {
  const { packets, timeBase } = await probeContainer(program, input.file, facts.demuxer, facts.stream);
  if (!sameRational(timeBase, facts.timeBase)) {
    throw new MediaError("media_corrupt", "the container's time base is not the one it is decoded with");
  }
  return packets
    .filter(({ isKey }) => isKey)
    .map(({ pts }) => pts)
    .toSorted((a, b) => a - b);
}
