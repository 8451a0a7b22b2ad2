/** What a reader's agent knows of others, and when it forgets them. Transfers here are real. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { randomUUID } from "node:crypto";
import { NativeAgent, type NativeTransfer } from "../../ffi/agent.ts";
import { DecodedMedia, getNixlAgent, intoRdmaDescriptor, SlabPool } from "../../src/index.ts";
import { type LandingBuffer, LandingBuffers } from "../../src/nixl/landing.ts";
import { RemoteAgents, type RemoteLease } from "../../src/nixl/remotes.ts";
import { eventually } from "../support/processes.ts";

const MEBIBYTE = 1024 * 1024;
const BYTES = 1000;
const disposables: Disposable[] = [];
let agent: NativeAgent;
let landing: LandingBuffer;

beforeEach(() => {
  agent = NativeAgent.create({ name: randomUUID(), backend: "UCX", progressDelayMicroseconds: 1000 });
  const buffers = new LandingBuffers(agent, MEBIBYTE);
  landing = buffers.take(0, BYTES);
  disposables.push(agent, buffers);
});

afterEach(() => {
  for (const disposable of disposables.splice(0).toReversed()) disposable[Symbol.dispose]();
});

/** Somebody else's tensor. */
function owner() {
  const other = getNixlAgent();
  const pool = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: MEBIBYTE });
  pool.register(other);
  const media = DecodedMedia.fromTypedArray(new Uint8Array(BYTES).fill(9), [BYTES]);
  const descriptor = intoRdmaDescriptor(media, pool);
  disposables.push(other, pool, descriptor);
  return { text: descriptor.nixlMetadata, address: descriptor.nixlDescriptor.addr };
}

/** Reads over a lease, which must be as good as new for that. */
async function readOver(lease: RemoteLease, address: number): Promise<void> {
  const transfer: NativeTransfer = agent.read(lease.name, landing.range.address, address, BYTES, Buffer.from("done"));
  try {
    await eventually("the transfer is done", () => agent.poll(transfer));
  } finally {
    agent.release(transfer);
  }
}

test("an agent is loaded once for a text, however often it is leased", async () => {
  const remotes = new RemoteAgents(agent);
  const { text, address } = owner();
  const leases = [await remotes.lease(text), await remotes.lease(text)];
  expect(new Set(leases.map(({ name }) => name)).size).toBe(1);
  expect(remotes.size).toBe(1);
  for (const lease of leases) {
    await readOver(lease, address);
    lease.end("intact");
  }
  expect(remotes.size).toBe(1);
  remotes.forgetAll();
});

test("an agent whose text is pushed out stays known until its last lease ends", async () => {
  const remotes = new RemoteAgents(agent, 1);
  const [old, recent] = [owner(), owner()];
  const lease = await remotes.lease(old.text);
  (await remotes.lease(recent.text)).end("intact");
  expect(remotes.size).toBe(2);
  await readOver(lease, old.address);
  lease.end("intact");
  lease.end("intact"); // counts once
  expect(remotes.size).toBe(1);
  const again = await remotes.lease(old.text);
  await readOver(again, old.address);
  again.end("intact");
  remotes.forgetAll();
});

test("a broken connection is given up only when the last transfer over it has ended; who comes meanwhile gets a new one", async () => {
  const remotes = new RemoteAgents(agent);
  const { text, address } = owner();
  const [running, failed] = [await remotes.lease(text), await remotes.lease(text)];
  failed.end("broken");
  let leased = false;
  const next = remotes.lease(text).finally(() => {
    leased = true;
  });
  await readOver(running, address);
  expect([leased, remotes.size]).toEqual([false, 1]);
  running.end("intact");
  const anew = await next;
  await readOver(anew, address);
  anew.end("intact");
  remotes.forgetAll();
});

test("a broken agent that nobody uses is forgotten at once", async () => {
  const remotes = new RemoteAgents(agent);
  const { text } = owner();
  (await remotes.lease(text)).end("broken");
  expect(remotes.size).toBe(0);
});

test("one that waits for a connection is not left waiting when all is forgotten", async () => {
  const remotes = new RemoteAgents(agent);
  const { text } = owner();
  const [, failed] = [await remotes.lease(text), await remotes.lease(text)];
  failed.end("broken");
  const next = remotes.lease(text);
  remotes.forgetAll();
  (await next).end("intact"); // connected anew
  remotes.forgetAll();
  expect(remotes.size).toBe(0);
});
