/**
 * Media to measure with, the same on every machine: a smooth picture with noise on it, as cameras make them, a screenshot-like
 * one with flat areas, and test clips. Made once into `.bench/` of the project.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { locateFfmpeg } from "../../ffi/locate.ts";
import { sequence } from "./sequence.ts";

const FOLDER = join(import.meta.dir, "../../.bench");
const SIZES = { small: [224, 224], vga: [640, 480], fhd: [1920, 1080], "12mp": [4032, 3024] } as const;
const CLIPS = {
  "h264_720p.mp4": ["testsrc2=size=1280x720:rate=30:duration=10", "-c:v", "libx264"],
  "h264_360p_60s.mp4": ["testsrc2=size=640x360:rate=30:duration=60", "-c:v", "libx264", "-preset", "ultrafast"],
} as const;

/** Paths of the media, by name; clips only where ffmpeg can make them. */
export async function benchMedia(): Promise<ReadonlyMap<string, string>> {
  mkdirSync(FOLDER, { recursive: true });
  const media = new Map<string, string>();
  const make = async (name: string, write: (path: string) => Promise<unknown>): Promise<void> => {
    const path = join(FOLDER, name);
    if (!existsSync(path)) {
      const partial = join(FOLDER, `partial-${process.pid}-${name}`);
      try {
        await write(partial);
        renameSync(partial, path);
      } finally {
        rmSync(partial, { force: true });
      }
    }
    media.set(name, path);
  };
  for (const [name, [width, height]] of Object.entries(SIZES)) {
    await make(`${name}.jpg`, (path) => photo(width, height).jpeg({ quality: 88 }).toFile(path));
  }
  await make("fhd.png", (path) => photo(1920, 1080).png({ compressionLevel: 6 }).toFile(path));
  await make("fhd.webp", (path) => photo(1920, 1080).webp({ quality: 85 }).toFile(path));
  await make("screen.png", (path) => screen(1920, 1080).png({ compressionLevel: 6 }).toFile(path));
  const ffmpeg = locateFfmpeg().path;
  if (ffmpeg !== null)
    for (const [name, args] of Object.entries(CLIPS)) await make(name, (path) => clip(ffmpeg, path, args));
  return media;
}

function photo(width: number, height: number) {
  const random = sequence(1);
  const pixels = Buffer.alloc(width * height * 3);
  for (let y = 0, at = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const noise = (random() + random() + random() - 1.5) * 16;
      pixels[at++] = clamped((Math.sin(x / 37) + Math.cos(y / 53)) * 60 + 128 + noise);
      pixels[at++] = clamped(Math.sin((x + y) / 71) * 80 + 128 + noise);
      pixels[at++] = clamped(Math.cos(x / 19) * Math.sin(y / 23) * 90 + 128 + noise);
    }
  }
  return sharp(pixels, { raw: { width, height, channels: 3 } });
}

function screen(width: number, height: number) {
  const random = sequence(2);
  const pixels = Buffer.alloc(width * height * 3, 250);
  for (let i = 0; i < 800; i += 1) {
    const [left, top] = [Math.floor(random() * width), Math.floor(random() * height)];
    const [wide, high] = i < 40 ? [50 + random() * 350, 20 + random() * 180] : [2 + random() * 60, 1 + random() * 8];
    const color = [random(), random(), random()].map((part) => Math.floor(part * 256));
    for (let y = top; y < Math.min(height, top + high); y += 1) {
      for (let x = left; x < Math.min(width, left + wide); x += 1) pixels.set(color, (y * width + x) * 3);
    }
  }
  return sharp(pixels, { raw: { width, height, channels: 3 } });
}

function clamped(level: number): number {
  return Math.max(0, Math.min(255, Math.round(level)));
}

async function clip(ffmpeg: string, path: string, [source = "", ...encoder]: readonly string[]): Promise<void> {
  const args = ["-v", "error", "-nostdin", "-f", "lavfi", "-i", source, ...encoder, "-pix_fmt", "yuv420p", "-f", "mp4"];
  const run = Bun.spawn([ffmpeg, ...args, path], { stdio: ["ignore", "ignore", "inherit"] });
  if ((await run.exited) !== 0) throw new Error("ffmpeg cannot make the clip");
}
