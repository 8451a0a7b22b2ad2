/** The Worker in which mediabunny reads one Matroska or WebM file. Started by matroska.ts. */
import { BufferSource, EncodedPacketSink, Input, MATROSKA, WEBM } from "mediabunny";
import { MediaError } from "../../errors.ts";
import type { MatroskaAnswer, MatroskaTrack } from "./matroska.ts";
import { checkPacketCount, lastPacketEnd, type Packet, packetRate } from "./packets.ts";
import { reduced } from "./rational.ts";

declare const self: Worker;

const NANOSECONDS = 1_000_000_000;

self.onmessage = async (event: MessageEvent<Uint8Array<ArrayBuffer>>) => {
  self.postMessage(await answer(event.data));
};

async function answer(bytes: Uint8Array<ArrayBuffer>): Promise<MatroskaAnswer> {
  try {
    return { track: await readTrack(bytes) };
  } catch (error) {
    if (!(error instanceof MediaError)) return { track: null };
    return { refused: { code: error.code, message: error.message } };
  }
}

async function readTrack(bytes: Uint8Array<ArrayBuffer>): Promise<MatroskaTrack | null> {
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
    const number = (await input.getVideoTracks()).indexOf(track);
    return {
      number: Math.max(0, number),
      width: await track.getCodedWidth(),
      height: await track.getCodedHeight(),
      timeBase,
      durationTicks: declared === null ? lastPacketEnd(packets, timeBase) : toTicks(declared),
      frameRate: packetRate(packets, timeBase) ?? { num: 0, den: 1 },
      packetCount: packets.length,
    };
  } catch (error) {
    if (error instanceof MediaError) throw error;
    return null; // whatever mediabunny says of a file that it cannot read
  }
}
