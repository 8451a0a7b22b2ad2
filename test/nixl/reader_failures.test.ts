import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { MediaReader } from "../../src/index.ts";
import { linesOf, startCli } from "../support/cli.ts";
import { mediaPath } from "../support/media.ts";

let reader: MediaReader;
const started: { kill: (signal: "SIGKILL") => void }[] = [];

beforeAll(async () => {
  reader = await MediaReader.open({ timeoutMs: 5000 });
});

afterEach(() => {
  for (const process of started.splice(0)) process.kill("SIGKILL");
});

afterAll(() => reader.dispose());

/** A process that holds a picture, and its descriptor. */
async function hold() {
  const process = startCli(["describe", mediaPath("odd.jpg")]);
  started.push(process);
  const line = String((await linesOf(process.stdout).next()).value);
  return { process, line };
}

test("an owner that is gone before it was ever reached is a coded error, and the reader goes on", async () => {
  const gone = await hold();
  gone.process.kill("SIGKILL");
  await gone.process.exited;
  await expect(reader.read(gone.line)).rejects.toMatchObject({ code: "read_failed", status: 500, retryable: true });
  const alive = await hold();
  using read = await reader.read(alive.line);
  expect(read.verified).toBe(true);
});

test("an owner that is killed between two reads is a coded error, again and again, and others stay readable", async () => {
  const [killed, alive] = [await hold(), await hold()];
  for (const { line } of [killed, alive]) (await reader.read(line)).dispose();
  killed.process.kill("SIGKILL");
  await killed.process.exited;
  for (let i = 0; i < 3; i++) {
    await expect(reader.read(killed.line)).rejects.toMatchObject({ code: "read_failed" });
    using read = await reader.read(alive.line);
    expect(read.verified).toBe(true);
  }
});

test("descriptors that name unregistered memory fail alone: reads from the same owner that run meanwhile are whole", async () => {
  const program = join(import.meta.dir, "../support/reads_over_tcp.ts");
  const child = Bun.spawn([process.execPath, program], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, UCX_TLS: "tcp" },
  });
  const outcomes = JSON.parse(await child.stdout.text());
  expect(outcomes).toEqual(["read", "read_failed", "read_failed", "read", "read_failed", "read"]);
  expect(await child.exited).toBe(0);
});

test("an owner that was started again under its old name is read at once, and the dead one is an error", async () => {
  const name = `restarted-${crypto.randomUUID()}`;
  const start = async () => {
    const owner = Bun.spawn([process.execPath, join(import.meta.dir, "../support/owner_with_name.ts"), name], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    started.push(owner);
    return { owner, line: String((await linesOf(owner.stdout).next()).value) };
  };
  const dead = await start();
  (await reader.read(dead.line)).dispose();
  dead.owner.kill("SIGKILL");
  await dead.owner.exited;
  const alive = await start();
  for (let i = 0; i < 2; i++) {
    using read = await reader.read(alive.line);
    expect(read.bytes.every((byte) => byte === 7)).toBe(true);
    await expect(reader.read(dead.line)).rejects.toMatchObject({ code: "read_failed" });
  }
});

test("readers that are killed in the middle of their reads do not disturb the owner", async () => {
  const { process, line } = await hold();
  for (let i = 0; i < 5; i++) {
    const victim = startCli(["read"]);
    victim.stdin.write(`${line}\n`.repeat(2000));
    Promise.resolve(victim.stdin.flush()).catch(() => {}); // cut off when the victim is killed
    await linesOf(victim.stdout).next(); // it is reading now
    victim.kill("SIGKILL");
    await victim.exited;
  }
  expect(process.exitCode).toBeNull();
  using read = await reader.read(line);
  expect(read.verified).toBe(true);
  await process.stdin.end();
  expect(await process.exited).toBe(0);
});
