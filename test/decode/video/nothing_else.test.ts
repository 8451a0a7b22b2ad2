/** Whatever bytes say, ffmpeg opens nothing but them: canaries are a server that counts connections and a pipe that nobody reads. */
import { afterAll, describe, expect, test } from "bun:test";
import { closeSync, constants, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LoadSource, MediaDecoder } from "../../../src/index.ts";
import { startOrigin } from "../../support/origin.ts";
import { refusal } from "../../support/refusal.ts";
import { madeClip, replaceBox, SAMPLE_TABLE } from "./clips.ts";

const folder = mkdtempSync(join(tmpdir(), "canary-"));
/** Opening it for reading takes until somebody writes: a decoder that did would be seen, and would hang. */
const pipe = join(folder, "canary.mp4");
Bun.spawnSync(["mkfifo", pipe]);
afterAll(() => rmSync(folder, { recursive: true }));

/** Whether somebody has the pipe open for reading. */
function isPipeRead(): boolean {
  try {
    closeSync(openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK));
    return true;
  } catch {
    return false; // ENXIO
  }
}

/** Texts that name another medium. */
const SCRIPTS = (target: string): Record<string, string> => ({
  "an HLS playlist": `#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n${target}\n#EXT-X-ENDLIST\n`,
  "a concat script": `ffconcat version 1.0\nfile '${target}'\n`,
  "a DASH manifest": `<?xml version="1.0"?><MPD><Period><BaseURL>${target}</BaseURL></Period></MPD>`,
  "an SDP file": "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 5004 RTP/AVP 96\r\n",
  "a Smooth Streaming manifest": `<?xml version="1.0"?><SmoothStreamingMedia><c url="${target}"/></SmoothStreamingMedia>`,
  "an ffmetadata file": `;FFMETADATA1\ntitle=${target}\n`,
  "an image2 pattern": `${target}%03d.png`,
  "a playlist of another kind": `[playlist]\nFile1=${target}\nNumberOfEntries=1\n`,
});

/** An MP4 whose samples are said to be in another file (ISO/IEC 14496-12, 8.7.2). */
async function clipElsewhere(target: string): Promise<Uint8Array> {
  const clip = await madeClip("mp4", ["-f", "lavfi", "-i", "testsrc=s=64x64:r=25:d=1", "-c:v", "libx264"]);
  const path = [...SAMPLE_TABLE.slice(0, -1), "dinf", "dref"];
  return replaceBox(clip, path, (box) => {
    const location = Buffer.from(`${target}\0`);
    const entry = Buffer.alloc(12 + location.byteLength);
    entry.writeUInt32BE(entry.byteLength);
    entry.write("url ", 4, "latin1");
    location.copy(entry, 12);
    const head = Buffer.from(box.subarray(0, 16));
    head.writeUInt32BE(16 + entry.byteLength);
    return [head, entry];
  });
}

async function loaded(decoder: MediaDecoder, type: "video_url" | "audio_url", bytes: Uint8Array): Promise<unknown> {
  const url = `data:;base64,${Buffer.from(bytes).toString("base64")}`;
  using lease = await decoder.decode({ type, [type]: url } as LoadSource);
  return lease.media.info.shape;
}

describe.each(["video_url", "audio_url"] as const)("sent as %s", (type) => {
  test("texts that name other media are refused, and nothing is opened", async () => {
    await using decoder = await MediaDecoder.open({ decoders: { children: 1 } });
    using canary = await startOrigin((socket) => socket.end());
    for (const target of [canary.url("/x.mp4"), pipe, `file://${pipe}`]) {
      for (const text of Object.values(SCRIPTS(target))) {
        const error = await refusal(loaded(decoder, type, Buffer.from(text)));
        expect(error).toMatchObject({ code: "media_unsupported", status: 400 });
        expect(isPipeRead()).toBe(false);
      }
    }
    expect(canary.connections).toBe(0);
  });
});

test("an MP4 that has its samples elsewhere opens nothing there", async () => {
  await using decoder = await MediaDecoder.open({ decoders: { children: 1 } });
  using canary = await startOrigin((socket) => socket.end());
  for (const target of [canary.url("/x.mp4"), pipe, `file://${pipe}`]) {
    let wasRead = false;
    const watch = setInterval(() => (wasRead ||= isPipeRead()), 1);
    await loaded(decoder, "video_url", await clipElsewhere(target)).catch(() => {});
    clearInterval(watch);
    expect(wasRead).toBe(false);
  }
  expect(canary.connections).toBe(0);
});

test("the canaries would be noticed", async () => {
  using canary = await startOrigin((socket) => socket.end());
  const reader = Bun.spawn(["cat", pipe], { stdout: "ignore" });
  while (!isPipeRead()) await Bun.sleep(1);
  reader.kill();
  await reader.exited;
  await fetch(canary.url("/x.mp4")).catch(() => {});
  expect(canary.connections).toBe(1);
});
