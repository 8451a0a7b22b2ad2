/** A name server as small as it can be (RFC 1035): A and AAAA records, each name with its answers in turn. */
import dgram, { type Socket } from "node:dgram";
import ipaddr from "ipaddr.js";

const TYPE_A = 1;
const TYPE_AAAA = 28;

/** What a name has: for each time that it is asked for, its addresses; the last ones for good. */
export type Zone = Readonly<Record<string, readonly (readonly string[])[]>>;

export interface NameServer extends Disposable {
  /** How often each name was asked for its IPv4 addresses. */
  readonly asked: ReadonlyMap<string, number>;
}

/** Answers on port 53 of an address. Names that it does not have do not exist; those that begin with "silent" get no answer. */
export async function startNameServer(address: string, zone: Zone): Promise<NameServer> {
  const asked = new Map<string, number>();
  const timesOf = new Map<string, number>();
  const socket: Socket = dgram.createSocket("udp4");
  socket.on("message", (query, from) => {
    const { name, type, end } = questionOf(query);
    if (name.startsWith("silent")) return;
    const key = `${name} ${type}`;
    const times = timesOf.get(key) ?? 0;
    timesOf.set(key, times + 1);
    if (type === TYPE_A) asked.set(name, times + 1);
    const answers = zone[name];
    const addresses = answers?.[Math.min(times, answers.length - 1)] ?? [];
    const records = addresses
      .map((text) => ipaddr.parse(text).toByteArray())
      .filter((bytes) => bytes.length === (type === TYPE_A ? 4 : 16));
    const isOther = type !== TYPE_A && type !== TYPE_AAAA;
    socket.send(
      reply(query.subarray(0, end), type, isOther ? [] : records, answers !== undefined),
      from.port,
      from.address,
    );
  });
  await new Promise<void>((resolve) => socket.bind(53, address, resolve));
  return { asked, [Symbol.dispose]: () => socket.close() };
}

/** The one question of a query, whose name is not compressed. */
function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length).toLowerCase());
    at += 1 + length;
  }
  return { name: labels.join("."), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function reply(query: Buffer, type: number, records: number[][], exists: boolean): Buffer {
  const header = Buffer.from(query);
  header.writeUInt16BE(exists ? 0x8580 : 0x8583, 2); // an answer with authority; NXDOMAIN
  header.writeUInt16BE(records.length, 6);
  header.writeUInt32BE(0, 8);
  // The name of the question, class IN, and nothing to be kept.
  const answers = records.map((bytes) => Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.length, ...bytes]));
  return Buffer.concat([header, ...answers]);
}
