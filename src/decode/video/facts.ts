/**
 * What libavformat says of a clip's default video stream, without ffprobe: read from the boxes of an MP4, from the packets
 * of a Matroska file, or, for everything else, asked of the ffmpeg program itself.
 */
import { MediaError } from "../../errors.ts";
import type { Demuxer } from "../sniff.ts";
import { aviFrameCount, isAviCut } from "./avi.ts";
import { NOT_TURNED, type Turn } from "./display_matrix.ts";
import { type IsoVideoTrack, readIsoVideoTrack } from "./iso_track.ts";
import { readMatroskaTrack } from "./matroska.ts";
import { lastPacketEnd, packetRate, packetSpan } from "./packets.ts";
import type { Probe } from "./probe.ts";
import type { Rational } from "./rational.ts";
import type { StreamTiming } from "./sampling.ts";
import { FIRST_VIDEO, type StreamSelector } from "./stream_selector.ts";

/** What is known of a clip before its frames are decoded. */
export interface ClipFacts extends StreamTiming {
  /** Pixels, before any rotation. */
  readonly width: number;
  readonly height: number;
  /** Packets of the stream that the file can hold at most. Each gives one frame at most, whatever the frame count says. */
  readonly packetCount: number;
  /** How the container wants the pictures to be shown. */
  readonly turn: Turn;
}

/** A video stream as its container describes it. */
export interface ContainerFacts extends ClipFacts {
  /** Name of ffmpeg's demuxer. */
  readonly demuxer: Demuxer;
  readonly stream: StreamSelector;
}

/** Containers that may hold video. The others of the sniffer's list are audio. */
const VIDEO_DEMUXERS: ReadonlySet<Demuxer> = new Set<Demuxer>([
  "mov",
  "matroska",
  "mpegts",
  "avi",
  "ivf",
  "ogg",
  "flv",
  "asf",
  "gif",
  "mpeg",
]);

/** Containers whose streams have no duration of their own for libavformat: frames are counted by packets. */
const WITHOUT_DURATION: ReadonlySet<Demuxer> = new Set<Demuxer>(["matroska", "flv", "gif"]);

/**
 * Facts of the default video stream.
 * @param probe asks ffmpeg; called at most once, and not at all for most MP4 and Matroska files
 * @throws MediaError no_video_stream, media_corrupt, media_unsupported, and what the probe throws
 */
export async function readContainerFacts(
  bytes: Uint8Array,
  demuxer: Demuxer,
  probe: () => Promise<Probe>,
): Promise<ContainerFacts> {
  if (!VIDEO_DEMUXERS.has(demuxer)) throw new MediaError("no_video_stream", "the container holds no video");
  if (demuxer === "avi" && isAviCut(bytes)) {
    throw new MediaError("media_corrupt", "the file is shorter than its header says");
  }
  const facts = (await factsOfFile(bytes, demuxer, probe)) ?? factsOfProbe(bytes, demuxer, await probe());
  if (!(facts.width > 0 && facts.height > 0)) throw new MediaError("media_corrupt", "the video has no picture size");
  return facts;
}

/** Facts that need no more of ffmpeg than a frame rate; null where the file is not read here. */
async function factsOfFile(
  bytes: Uint8Array,
  demuxer: Demuxer,
  probe: () => Promise<Probe>,
): Promise<ContainerFacts | null> {
  if (demuxer === "mov") {
    const track = readIsoVideoTrack(bytes);
    return track && factsOfIsoTrack(track, probe);
  }
  if (demuxer === "matroska") {
    const track = await readMatroskaTrack(bytes);
    return track && { ...track, demuxer, stream: `V:${track.number}`, frameCount: track.packetCount, turn: NOT_TURNED };
  }
  return null;
}

async function factsOfIsoTrack(track: IsoVideoTrack, probe: () => Promise<Probe>): Promise<ContainerFacts> {
  const isComplete = track.frameRate !== null && track.width > 0 && track.height > 0;
  const probed = isComplete ? null : await probe();
  return {
    demuxer: "mov",
    stream: track.index,
    width: track.width || (probed?.width ?? 0),
    height: track.height || (probed?.height ?? 0),
    timeBase: { num: 1, den: track.timescale },
    durationTicks: track.durationTicks,
    frameRate: track.frameRate ?? knownRate(probed),
    frameCount: track.sampleCount,
    packetCount: track.storedSamples,
    turn: track.turn,
  };
}

function factsOfProbe(bytes: Uint8Array, demuxer: Demuxer, probe: Probe): ContainerFacts {
  // Versions of libavformat guess differently at how often an animation's pictures change.
  const frameRate = (demuxer === "gif" && packetRate(probe.packets, probe.timeBase)) || knownRate(probe);
  const common = {
    demuxer,
    stream: FIRST_VIDEO,
    width: probe.width,
    height: probe.height,
    timeBase: probe.timeBase,
    frameRate,
    packetCount: probe.packets.length,
    turn: NOT_TURNED,
  };
  if (demuxer === "avi") {
    const frameCount = aviFrameCount(bytes) || probe.packets.length;
    return { ...common, durationTicks: frameCount, frameCount };
  }
  if (WITHOUT_DURATION.has(demuxer)) {
    const durationTicks = lastPacketEnd(probe.packets, probe.timeBase);
    return { ...common, durationTicks, frameCount: probe.packets.length };
  }
  return { ...common, durationTicks: packetSpan(probe.packets, frameRate, probe.timeBase), frameCount: 0 };
}

/** libavformat's guess of the rate, or the packets' average where it has none. */
function knownRate(probe: Probe | null): Rational {
  if (probe && probe.frameRate.num > 0 && probe.frameRate.den > 0) return probe.frameRate;
  return (probe && packetRate(probe.packets, probe.timeBase)) ?? { num: 0, den: 1 };
}
