/** Clips that ffmpeg decodes. */
import { MediaError } from "../../errors.ts";
import { SealedInput } from "../ffmpeg/sealed_input.ts";
import type { Demuxer } from "../sniff.ts";
import { decodeFrames } from "./clip_decoding.ts";
import type { ClipSource } from "./clip_source.ts";
import { type ContainerFacts, readContainerFacts } from "./facts.ts";
import { withShownDelays } from "./gif_delays.ts";
import { inShownOrder, mayLackTimes, type Picture, withReorderedTimes } from "./packets.ts";
import { type Probe, probeContainer } from "./probe.ts";
import { sameRational } from "./rational.ts";
import { readSampleIndex } from "./sample_index.ts";
import { FIRST_VIDEO } from "./stream_selector.ts";

export interface FfmpegClip extends ClipSource {
  readonly facts: ContainerFacts;
}

/**
 * @param program path of ffmpeg
 * @throws MediaError as {@link readContainerFacts} and {@link probeContainer}
 */
export async function openFfmpegClip(encoded: Uint8Array, demuxer: Demuxer, program: string): Promise<FfmpegClip> {
  const input = new SealedInput(demuxer === "gif" ? withShownDelays(encoded) : encoded);
  try {
    let probed: Promise<Probe> | null = null;
    const probe = (): Promise<Probe> => {
      probed ??= probeContainer(program, input.file, demuxer);
      return probed;
    };
    const facts = await readContainerFacts(encoded, demuxer, probe);
    const { stream } = facts;
    return {
      facts,
      pictures: async (withKeys) => {
        if (stream === FIRST_VIDEO) return listedPictures(facts, probe());
        const quick = withKeys ? null : picturesOfTables(input.bytes, facts);
        return quick ?? listedPictures(facts, probeContainer(program, input.file, demuxer, stream));
      },
      decode: (wanted, threads, into) => decodeFrames(program, input, { ...wanted, demuxer, stream }, threads, into),
      [Symbol.dispose]: () => input[Symbol.dispose](),
    };
  } catch (error) {
    input[Symbol.dispose]();
    throw error;
  }
}

async function listedPictures(facts: ContainerFacts, probe: Promise<Probe>): Promise<Picture[]> {
  const { packets, timeBase } = await probe;
  if (!sameRational(timeBase, facts.timeBase)) {
    throw new MediaError("media_corrupt", "the container's time base is not the one it is decoded with");
  }
  const timed = mayLackTimes(facts.demuxer) ? withReorderedTimes(packets) : packets;
  return inShownOrder(timed.filter(({ isShown }) => isShown));
}

/** Of an MP4, without ffmpeg; null where its tables do not tell. Which are key frames, ffmpeg knows better. */
function picturesOfTables(bytes: Uint8Array, { demuxer, stream, timeBase }: ContainerFacts): Picture[] | null {
  if (demuxer !== "mov" || typeof stream !== "number") return null;
  const index = readSampleIndex(bytes, stream, timeBase.den);
  if (!index) return null;
  const { first, firstTime, sync } = index;
  const samples = Array.from(index.pts, (pts, at) => ({ pts, duration: 0, isKey: sync[at] === 1 }));
  return inShownOrder(samples.slice(first).filter(({ pts }) => pts >= firstTime));
}
