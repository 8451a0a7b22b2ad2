/** What the packets of a stream tell about it when its container does not. */
import { MediaError } from "../../errors.ts";
import { type Rational, reduced } from "./rational.ts";

/** More packets than this are no clip: nine hours at 30 frames a second. All of them are held while they are counted. */
export const MOST_PACKETS = 2 ** 20;

/** @throws MediaError limit_exceeded when there are more packets than are read */
export function checkPacketCount(count: number): void {
  if (count <= MOST_PACKETS) return;
  throw new MediaError("limit_exceeded", `a clip of more than ${MOST_PACKETS} packets is over the limit`);
}

/** A packet as its container times it, in the stream's time base. */
export interface Packet {
  /** Presentation timestamp, or the decoding timestamp where there is no other. */
  readonly pts: number;
  /** 0 when not known. */
  readonly duration: number;
}

/** A packet, and what its demuxer says of the picture in it. */
export interface ListedPacket extends Packet {
  readonly isKey: boolean;
  /** False for what is decoded only because others need it: an edit list cuts it off. */
  readonly isShown: boolean;
  /** Decoding timestamp. */
  readonly dts: number;
  /** Whether `pts` is its own, not the decoding timestamp in its place. */
  readonly hasPts: boolean;
}

/**
 * Packets of a program stream with the presentation timestamps that they lack. Those that do are pictures that others refer to:
 * each is shown when the next one of them is decoded (ISO/IEC 13818-1, 2.7.5), the last one behind all others.
 */
export function withReorderedTimes(packets: readonly ListedPacket[]): ListedPacket[] {
  if (!packets.some(({ hasPts }) => hasPts)) return [...packets];
  let next = packets.reduce((end, { pts, duration }) => Math.max(end, pts + duration), 0);
  return packets
    .toReversed()
    .map((packet) => {
      const isReference = !packet.hasPts || packet.pts > packet.dts;
      const shown = packet.hasPts ? packet : { ...packet, pts: next };
      if (isReference) next = packet.dts;
      return shown;
    })
    .reverse();
}

/** Pictures that are shown, in the order in which they are. */
export function shownPictures(packets: readonly ListedPacket[]): ListedPacket[] {
  return packets.filter(({ isShown }) => isShown).toSorted((one, other) => one.pts - other.pts);
}

/** Where the last packet in presentation order ends; a packet without a duration lasts one frame at the packets' rate. */
export function lastPacketEnd(packets: readonly Packet[], timeBase: Rational): number {
  const rate = packetRate(packets, timeBase);
  const oneFrame = rate === null ? 0 : Math.floor((rate.den * timeBase.den) / (rate.num * timeBase.num));
  return packets.reduce((end, packet) => Math.max(end, packet.pts + (packet.duration || oneFrame)), 0);
}

/**
 * Frames per second by the packets' presentation timestamps: a whole number, or one times 1000/1001, when that fits the
 * first and last timestamp to a tick; else the average. Null when there is no telling.
 */
export function packetRate(packets: readonly Packet[], timeBase: Rational): Rational | null {
  const first = packets.reduce((least, packet) => Math.min(least, packet.pts), Number.POSITIVE_INFINITY);
  const last = packets.reduce((most, packet) => Math.max(most, packet.pts), Number.NEGATIVE_INFINITY);
  const intervals = packets.length - 1;
  const ticks = last - first;
  if (!(ticks > 0)) {
    const duration = packets[0]?.duration ?? 0;
    return duration > 0 ? reduced(timeBase.den, duration * timeBase.num) : null;
  }
  const average = (intervals * timeBase.den) / (ticks * timeBase.num);
  const candidates = [
    { num: Math.round(average), den: 1 },
    { num: Math.round(average * 1.001) * 1000, den: 1001 },
  ];
  const fits = ({ num, den }: Rational): boolean =>
    num > 0 && Math.abs((intervals * den * timeBase.den) / (num * timeBase.num) - ticks) <= 1;
  return candidates.find(fits) ?? reduced(intervals * timeBase.den, ticks * timeBase.num);
}

/**
 * From the first packet's timestamp to the end of the latest one: how libavformat finds the duration of a stream that does
 * not state it. A packet without a duration lasts one frame, in whole ticks.
 */
export function packetSpan(packets: readonly Packet[], rate: Rational, timeBase: Rational): number {
  const oneFrame = rate.num > 0 ? Math.floor((rate.den * timeBase.den) / (rate.num * timeBase.num)) : 0;
  const end = packets.reduce((latest, { pts, duration }) => Math.max(latest, pts + (duration || oneFrame)), 0);
  return Math.max(0, end - (packets[0]?.pts ?? 0));
}
