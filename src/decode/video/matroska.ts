/**
 * Facts of Matroska and WebM files, by mediabunny.
 *
 * A stream has no duration, no frame count and no rate there, so all three come from its packets. Rates that are standard
 * come out exactly although the timestamps are rounded to milliseconds.
 */
import { MediaError } from "../../errors.ts";
import { checkPacketCount, lastPacketEnd, type Packet, packetRate } from "./packets.ts";
import { type Rational, reduced } from "./rational.ts";

/** The default video track of a Matroska file; times in the track's time base. */
export interface MatroskaTrack {
  readonly width: number;
  readonly height: number;
  readonly timeBase: Rational;
  /** What the segment says, or where the last packet ends. */
  readonly durationTicks: number;
  readonly frameRate: Rational;
  readonly packetCount: number;
}

const NANOSECONDS = 1_000_000_000;
const SEGMENT_ID = 0x18538067;

/**
 * Reads all packets' times.
 * @returns null when mediabunny cannot read the file, which does not mean that ffmpeg cannot
 * @throws MediaError media_corrupt when the file is shorter than its segment says, no_video_stream, limit_exceeded
 */
export async function readMatroskaTrack(bytes: Uint8Array): Promise<MatroskaTrack | null> {
  if (segmentEnd(bytes) > bytes.byteLength) {
    throw new MediaError("media_corrupt", "the file is shorter than its segment says");
  }
  // Loaded when it is needed: most clips are MP4.
  const { BufferSource, EncodedPacketSink, Input, MATROSKA, WEBM } = await import("mediabunny");
  using input = new Input({ source: new BufferSource(bytes), formats: [MATROSKA, WEBM] });
  try {
    const track = await input.getPrimaryVideoTrack();
    if (!track) throw new MediaError("no_video_stream", "the container holds no video");
    const resolution = await track.getTimeResolution();
    const timeBase = reduced(Math.round(NANOSECONDS / resolution), NANOSECONDS);
    const toTicks = (seconds: number): number => Math.round((seconds * timeBase.den) / timeBase.num);
    const packets: Packet[] = [];
    for await (const packet of new EncodedPacketSink(track).packets(undefined, undefined, { metadataOnly: true })) {
      packets.push({ pts: toTicks(packet.timestamp), duration: toTicks(packet.duration) });
      checkPacketCount(packets.length);
    }
    // Of a recording that was cut off, mediabunny reads nothing; ffmpeg reads what is there.
    if (packets.length === 0) return null;
    const declared = await track.getDurationFromMetadata();
    return {
      width: await track.getCodedWidth(),
      height: await track.getCodedHeight(),
      timeBase,
      durationTicks: declared === null ? lastPacketEnd(packets, timeBase) : toTicks(declared),
      frameRate: packetRate(packets, timeBase) ?? { num: 0, den: 1 },
      packetCount: packets.length,
    };
  } catch (error) {
    if (error instanceof MediaError) throw error;
    return null;
  }
}

/** Where the segment ends by its own size; 0 when it does not say (a live recording) or there is none at its place. */
function segmentEnd(bytes: Uint8Array): number {
  const header = readElement(bytes, 0);
  const segment = header && readElement(bytes, header.end);
  return segment?.id === SEGMENT_ID && Number.isFinite(segment.end) ? segment.end : 0;
}

/** Identifier and end of an EBML element (RFC 8794, sections 4 to 6); the end is infinite when its size is not known. */
function readElement(bytes: Uint8Array, at: number): { id: number; end: number } | null {
  const id = readVariableInteger(bytes, at, true);
  const size = id && readVariableInteger(bytes, at + id.byteLength, false);
  return size ? { id: id.value, end: at + id.byteLength + size.byteLength + size.value } : null;
}

function readVariableInteger(
  bytes: Uint8Array,
  at: number,
  keepMarker: boolean,
): { value: number; byteLength: number } | null {
  const first = bytes[at] ?? 0;
  const byteLength = Math.clz32(first) - 23;
  if (first === 0 || at + byteLength > bytes.byteLength) return null;
  const marker = 1 << (8 - byteLength);
  let value = keepMarker ? first : first - marker;
  for (let i = 1; i < byteLength; i += 1) value = value * 256 + (bytes[at + i] ?? 0);
  const isUnknown = !keepMarker && value >= 2 ** (7 * byteLength) - 1;
  return { value: isUnknown ? Number.POSITIVE_INFINITY : value, byteLength };
}
