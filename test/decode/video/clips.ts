/** Clips for tests: decoding into ordinary memory with the ffmpeg of this machine, and clips made on the spot. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { locateFfmpeg } from "../../../ffi/locate.ts";
import type { DecodedTensor } from "../../../src/decode/contract.ts";
import { decodeVideo, type VideoOptions, videoOptionsSchema } from "../../../src/decode/video/index.ts";
import { MediaError } from "../../../src/errors.ts";
import { roomContext } from "../../support/rooms.ts";

/** Path of the program that the product would use. A machine without one cannot run these tests. */
export const ffmpegPath: string = (() => {
  const found = locateFfmpeg();
  if (found.path === null) throw new Error(found.remedy);
  return found.path;
})();

/** Major version of ffmpeg, 0 for a build that does not say. */
export const ffmpegMajor: number = (() => {
  const said = Bun.spawnSync([ffmpegPath, "-version"]).stdout.toString();
  return Number(/^ffmpeg version n?(\d+)\./.exec(said)?.[1] ?? 0);
})();

/** A clip decoded and hashed; `pixels` are the tensor's bytes, `roomBytes` what was asked for to hold them. */
export async function decode(
  encoded: Uint8Array,
  options: VideoOptions = {},
  program: string | null = ffmpegPath,
): Promise<{ tensor: DecodedTensor; pixels: Uint8Array; roomBytes: number }> {
  const { context, rooms } = roomContext();
  const settings = videoOptionsSchema.parse(options);
  const tensor = await decodeVideo(encoded, { settings, hashVideo: true }, { ...context, ffmpegPath: program });
  const room = rooms.at(-1);
  if (!room) throw new Error("decoded without asking for a room");
  if (tensor.contentHash === null) throw new Error("decoded without a content hash");
  return { tensor, pixels: room.payload.subarray(0, tensor.byteLength), roomBytes: room.payload.byteLength };
}

/** The coded error that decoding ends with; anything else fails the test. */
export async function decodeError(...args: Parameters<typeof decode>): Promise<MediaError> {
  try {
    await decode(...args);
  } catch (error) {
    if (error instanceof MediaError) return error;
    throw error;
  }
  throw new Error("decoded, though an error was expected");
}

/** A clip that ffmpeg makes: its arguments up to the name of the output, which ends in `.extension`. */
export async function madeClip(extension: string, args: readonly string[]): Promise<Uint8Array> {
  const folder = mkdtempSync(join(tmpdir(), "nixl-media-clip-"));
  try {
    const output = join(folder, `clip.${extension}`);
    const { exitCode, stderr } = Bun.spawnSync([ffmpegPath, "-v", "error", "-nostdin", ...args, output]);
    if (exitCode !== 0) throw new Error(`the clip could not be made: ${stderr}`);
    return await Bun.file(output).bytes();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A clip in a file of its own, which is removed with the object. */
export function writtenClip(extension: string, bytes: Uint8Array): Disposable & { readonly path: string } {
  const folder = mkdtempSync(join(tmpdir(), "nixl-media-clip-"));
  const path = join(folder, `clip.${extension}`);
  writeFileSync(path, bytes);
  return { path, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
}

/** Where a text stands in bytes; it must be there. */
export function indexOfText(bytes: Uint8Array, text: string): number {
  const index = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).indexOf(text);
  if (index < 0) throw new Error(`no "${text}" in the bytes`);
  return index;
}

/** Boxes from the file's own level down to the sample table, the way to {@link replaceBox}'s in it. */
export const SAMPLE_TABLE: readonly string[] = ["moov", "trak", "mdia", "minf", "stbl"];

/**
 * An MP4 file of one track and with its header at the end, in which other bytes stand for a box.
 * @param path types of the boxes around it and its own
 * @param change gets the box with its header of 8 bytes
 */
export function replaceBox(
  clip: Uint8Array,
  path: readonly string[],
  change: (box: Buffer) => readonly Uint8Array[],
): Buffer {
  const starts: number[] = [];
  let from = 0;
  for (const type of path) {
    const at = indexOfText(clip.subarray(from), type) + from;
    starts.push(at - 4);
    from = at + 4;
  }
  const start = starts.pop() ?? 0;
  const end = start + new DataView(clip.buffer, clip.byteOffset).getUint32(start);
  const replacement = Buffer.concat(change(Buffer.from(clip.subarray(start, end))));
  const changed = Buffer.concat([clip.subarray(0, start), replacement, clip.subarray(end)]);
  for (const around of starts) {
    changed.writeUInt32BE(changed.readUInt32BE(around) + replacement.byteLength - (end - start), around);
  }
  return changed;
}

/** A box of numbers of 32 bits. */
export function boxOf(type: string, numbers: readonly number[]): Buffer {
  const box = Buffer.alloc(8 + numbers.length * 4);
  box.writeUInt32BE(box.byteLength);
  box.write(type, 4, "latin1");
  numbers.forEach((number, index) => {
    box.writeUInt32BE(number, 8 + index * 4);
  });
  return box;
}
