/** Asking ffmpeg about a container: the packets of the default video stream, and what its first frame looks like. */
import { createFile, type PrivateFile } from "../../../ffi/process.ts";
import { MediaError } from "../../errors.ts";
import { programFailure, reasonIn } from "../ffmpeg/log.ts";
import { runProgram, writtenText } from "../ffmpeg/process.ts";
import type { Demuxer } from "../sniff.ts";
import { probeArguments } from "./command.ts";
import { type GraphInput, graphInputs } from "./graph_inputs.ts";
import { checkPacketCount, type ListedPacket, MOST_PACKETS } from "./packets.ts";
import { type Rational, sameRational } from "./rational.ts";
import { FIRST_VIDEO, type StreamSelector } from "./stream_selector.ts";

export interface Probe extends GraphInput {
  /** In the order of the file. */
  readonly packets: readonly ListedPacket[];
}

/** A line about a packet takes no more bytes than this, and no more than so many times those of a packet in any container. */
const LINE_BYTES = 160;
const LINE_RATIO = 6;
/** The lines about streams that come first. */
const HEADER_BYTES = 1024 * 1024;
/** AV_PKT_FLAG_KEY and AV_PKT_FLAG_DISCARD. */
const KEY_FLAG = 1;
const DISCARD_FLAG = 4;
const PROBE_MEMORY_BYTES = 4 * 1024 ** 3;

/**
 * Runs ffmpeg once over the file without decoding more than a frame.
 * @param input the file, sealed
 * @throws MediaError no_video_stream, media_unsupported, media_corrupt, limit_exceeded for too many packets,
 *   ffmpeg_unavailable, decoder_failed, decoder_timeout, system_failed
 */
export async function probeContainer(
  program: string,
  input: PrivateFile,
  demuxer: Demuxer,
  stream: StreamSelector = FIRST_VIDEO,
): Promise<Probe> {
  const listBytes = Math.min(LINE_RATIO * input.bytes.byteLength, LINE_BYTES * (MOST_PACKETS + 1));
  using list = createFile("packets", HEADER_BYTES + listBytes);
  const outcome = await runProgram({
    program,
    args: probeArguments(demuxer, MOST_PACKETS + 1, stream),
    files: [input, list],
    memoryLimitBytes: PROBE_MEMORY_BYTES,
  });
  const [first] = graphInputs(outcome.log);
  const packets = parsePackets(writtenText(list));
  if (!first || !packets) {
    const failure = programFailure(outcome, "video", demuxer);
    const reason = reasonIn(outcome.log, "video", demuxer);
    throw failure ?? new MediaError("media_corrupt", `the clip cannot be read (${reason})`);
  }
  if (!sameRational(first.timeBase, packets.timeBase)) {
    throw new MediaError("decoder_failed", "ffmpeg states two time bases for one stream");
  }
  checkPacketCount(packets.packets.length);
  return { ...first, packets: packets.packets };
}

/**
 * The lines of ffmpeg's `framecrc` format: stream, decoding and presentation timestamp, duration, size, checksum, and flags where
 * they are others than "key".
 */
function parsePackets(text: string): { timeBase: Rational; packets: ListedPacket[] } | null {
  const timeBase = /^#tb \d+: (\d+)\/(\d+)$/m.exec(text);
  if (!timeBase) return null;
  const lines = text.matchAll(/^\d+, *(-?\d+), *(-?\d+), *(\d+), *\d+, *0x[0-9a-f]+(?:, *F=0x([0-9A-Fa-f]+))?/gm);
  const packets = Array.from(lines, ([, dts, pts, duration, written]) => {
    const flags = written === undefined ? KEY_FLAG : Number.parseInt(written, 16);
    // What has no timestamp has the smallest number of 64 bits.
    const hasPts = Number(pts) > Number.MIN_SAFE_INTEGER;
    return {
      pts: hasPts ? Number(pts) : Number(dts),
      dts: Number(dts),
      hasPts,
      duration: Number(duration),
      isKey: (flags & KEY_FLAG) !== 0,
      isShown: (flags & DISCARD_FLAG) === 0,
    };
  });
  return { timeBase: { num: Number(timeBase[1]), den: Number(timeBase[2]) }, packets };
}
