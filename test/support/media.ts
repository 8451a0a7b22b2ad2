/** Media of the tests. */
import { join } from "node:path";
import sharp from "sharp";

const FOLDER = join(import.meta.dir, "../media");

/** Path of a file in test/media. */
export function mediaPath(name: string): string {
  return join(FOLDER, name);
}

/** Bytes of a file in test/media. */
export function mediaBytes(name: string): Promise<Uint8Array> {
  return Bun.file(mediaPath(name)).bytes();
}

/** A PNG of noise, which does not compress: width × height × 3 bytes and a little. The same for the same size. */
export async function noisePng(width: number, height: number): Promise<Uint8Array> {
  const pixels = new Uint8Array(width * height * 3);
  let state = width * 31 + height;
  for (let i = 0; i < pixels.length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    pixels[i] = state >>> 16;
  }
  return new Uint8Array(
    await sharp(pixels, { raw: { width, height, channels: 3 } })
      .png({ compressionLevel: 0 })
      .toBuffer(),
  );
}
