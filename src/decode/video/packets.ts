/** What the packets of a stream tell about it when its container does not. */
import { MediaError } from "../../errors.ts";
import type { Demuxer } from "../sniff.ts";
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

/** A picture that is shown, told from its packet without decoding it. */
export interface Picture extends Packet {
  readonly isKey: boolean;
}

/** A packet, and what its demuxer says of the picture in it. */
export interface ListedPacket extends Picture {
  /** False for what is decoded only because others need it: an edit list cuts it off. */
  readonly isShown: boolean;
  /** Decoding timestamp. */
  readonly dts: number;
  /** Whether `pts` is its own, not the decoding timestamp in its place. */
  readonly hasPts: boolean;
}

/** Whether packets need not have timestamps of their own: those of a program stream. */
export function mayLackTimes(demuxer: Demuxer): boolean {
  return demuxer === "mpeg";
}

/**
 * Packets of a program stream with the presentation timestamps that they lack. Those that do are pictures that others refer to:
 * each is shown when the next one of them is decoded (ISO/IEC 13818-1, 2.7.5), the last one behind all others.
 */
export function withReorderedTimes(packets: readonly ListedPacket[]): ListedPacket[] {
  if (!packets.some(({ hasPts }) => hasPts)) return [...packets];
  let next = latestEnd(packets, 0);
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

/** In the order in which pictures are shown. */
export function inShownOrder<T extends Packet>(pictures: readonly T[]): T[] {
  return pictures.toSorted((one, other) => one.pts - other.pts);
}

/** Where the last packet in presentation order ends; a packet without a duration lasts one frame at the packets' rate. */
export function lastPacketEnd(packets: readonly Packet[], timeBase: Rational): number {
  const rate = packetRate(packets, timeBase);
  return latestEnd(packets, rate === null ? 0 : frameTicks(rate, timeBase));
}

/** @param oneFrame ticks that a packet without a duration lasts */
function latestEnd(packets: readonly Packet[], oneFrame: number): number {
  return packets.reduce((end, { pts, duration }) => Math.max(end, pts + (duration || oneFrame)), 0);
}

/** One frame in whole ticks. */
function frameTicks(rate: Rational, timeBase: Rational): number {
  return Math.floor((rate.den * timeBase.den) / (rate.num * timeBase.num));
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
  const end = latestEnd(packets, rate.num > 0 ? frameTicks(rate, timeBase) : 0);
  return Math.max(0, end - (packets[0]?.pts ?? 0));
}
