import { describe, expect, test } from "bun:test";
import { type Matrix, NOT_TURNED, product, turnOfMatrix } from "../../../src/decode/video/display_matrix.ts";
import { mediaBytes } from "../../support/media.ts";
import { decode, ffmpegPath, indexOfText, writtenClip } from "./clips.ts";

const ONE = 0x10000;
const [WIDTH, HEIGHT] = [160, 120];

/** The eight ways to lay a picture, as matrices. */
const MATRICES: [name: string, matrix: Matrix][] = [
  ["upright", [1, 0, 0, 1]],
  ["mirrored", [-1, 0, 0, 1]],
  ["upside down", [-1, 0, 0, -1]],
  ["mirrored upside down", [1, 0, 0, -1]],
  ["a quarter turn clockwise", [0, 1, -1, 0]],
  ["a quarter turn anticlockwise", [0, -1, 1, 0]],
  ["across the main diagonal", [0, 1, 1, 0]],
  ["across the other diagonal", [0, -1, -1, 0]],
];

/** The clip with this matrix in its track header (version 0). */
async function clipWith([a, b, c, d]: Matrix): Promise<Uint8Array> {
  const clip = await mediaBytes("rotated90.mp4");
  const view = new DataView(clip.buffer, clip.byteOffset + indexOfText(clip, "tkhd") + 4 + 40);
  [a, b, 0, c, d].forEach((entry, index) => {
    view.setInt32(index * 4, entry * ONE);
  });
  return clip;
}

/** Pixel (x, y) of a picture goes where the matrix says, moved so that the picture begins at (0, 0). */
function turned(pixels: Uint8Array, [a, b, c, d]: Matrix): Uint8Array {
  const width = Math.abs(a * WIDTH + c * HEIGHT);
  const out = new Uint8Array(pixels.byteLength);
  for (let y = 0; y < HEIGHT; y += 1) {
    for (let x = 0; x < WIDTH; x += 1) {
      const column = a * x + c * y + Math.max(0, -a) * (WIDTH - 1) + Math.max(0, -c) * (HEIGHT - 1);
      const row = b * x + d * y + Math.max(0, -b) * (WIDTH - 1) + Math.max(0, -d) * (HEIGHT - 1);
      out.set(pixels.subarray((y * WIDTH + x) * 3, (y * WIDTH + x) * 3 + 3), (row * width + column) * 3);
    }
  }
  return out;
}

/** The first frame as ffmpeg itself turns it. */
async function firstFrameOfFfmpeg(clip: Uint8Array): Promise<Uint8Array> {
  using file = writtenClip("mp4", clip);
  const args = ["-v", "error", "-nostdin", "-i", file.path, "-frames:v", "1", "-pix_fmt", "rgb24", "-f", "rawvideo"];
  return new Uint8Array(await new Response(Bun.spawn([ffmpegPath, ...args, "-"]).stdout).arrayBuffer());
}

function meanDifference(one: Uint8Array, other: Uint8Array): number {
  return one.reduce((sum, value, index) => sum + Math.abs(value - (other[index] ?? 0)), 0) / one.byteLength;
}

describe("auto_rotate", () => {
  test.each(MATRICES)("%s", async (_name, matrix) => {
    const clip = await clipWith(matrix);
    const plain = await decode(clip, { num_frames: 2 });
    const shown = await decode(clip, { num_frames: 2, auto_rotate: true });
    const isQuarter = matrix[0] === 0;
    expect(plain.tensor.shape).toEqual([2, HEIGHT, WIDTH, 3]);
    expect(shown.tensor.shape).toEqual(isQuarter ? [2, WIDTH, HEIGHT, 3] : [2, HEIGHT, WIDTH, 3]);
    expect(shown.tensor.metadata).toEqual(plain.tensor.metadata);
    const frame = WIDTH * HEIGHT * 3;
    for (const start of [0, frame]) {
      const expected = turned(plain.pixels.subarray(start, start + frame), matrix);
      expect(Buffer.compare(shown.pixels.subarray(start, start + frame), expected)).toBe(0);
    }
    const all = await decode(clip, { auto_rotate: true });
    expect(meanDifference(all.pixels.subarray(0, frame), await firstFrameOfFfmpeg(clip))).toBeLessThan(4);
  });

  test("a clip that is turned and one that is not have different names", async () => {
    const clip = await clipWith([0, 1, -1, 0]);
    const [plain, shown] = [await decode(clip), await decode(clip, { auto_rotate: true })];
    expect(shown.tensor.contentHash).not.toBe(plain.tensor.contentHash);
  });

  test("a container without a matrix is not turned", async () => {
    const { tensor } = await decode(await mediaBytes("vp9.webm"), { num_frames: 1, auto_rotate: true });
    expect(tensor.shape).toEqual([1, 120, 160, 3]);
  });
});

describe("a matrix", () => {
  test("of the track comes before that of the movie", () => {
    const [quarter, mirror]: Matrix[] = [
      [0, 1, -1, 0],
      [-1, 0, 0, 1],
    ];
    if (!quarter || !mirror) throw new Error("two matrices");
    // (1, 0) goes to (0, 1), which a mirror leaves; the other way round it goes to (0, -1).
    expect(product(quarter, mirror).map((entry) => entry + 0)).toEqual([0, 1, 1, 0]);
    expect(product(mirror, quarter).map((entry) => entry + 0)).toEqual([0, -1, -1, 0]);
    expect(product(quarter, null)).toEqual(quarter);
  });

  test("at another angle, or of zeros, turns nothing", () => {
    expect(turnOfMatrix([46341, 46341, -46341, 46341])).toEqual(NOT_TURNED);
    expect(turnOfMatrix([0, 0, 0, 0])).toEqual(NOT_TURNED);
  });
});
