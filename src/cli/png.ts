/** Tensors as PNG files, for looking at. */
import { MediaError } from "../errors.ts";
import type { ReadMedia } from "../nixl/index.ts";

/** Longest side of a frame on a contact sheet, pixels. */
const THUMBNAIL_SIDE = 320;
/** Frames that a contact sheet shows at most; of a longer clip it shows every second, every third and so on. */
const MAXIMUM_FRAMES = 36;

/** An image as it is; a clip as a contact sheet, row by row. @throws MediaError invalid_argument for other tensors */
export async function encodePng(media: Pick<ReadMedia, "bytes" | "shape" | "dtype">): Promise<Uint8Array> {
  const { bytes, shape, dtype } = media;
  if (dtype === "UINT8" && shape.length === 3) return encodeImage(bytes, shape);
  if (dtype === "UINT8" && shape.length === 4) return encodeSheet(bytes, shape);
  throw new MediaError("invalid_argument", `a tensor ${dtype} [${shape.join(",")}] is no picture: write it raw`);
}

async function encodeImage(
  bytes: Uint8Array,
  [height = 0, width = 0, channels = 0]: readonly number[],
): Promise<Uint8Array> {
  return (await rawImage(bytes, width, height, channels)).png().toBuffer();
}

async function encodeSheet(bytes: Uint8Array, shape: readonly number[]): Promise<Uint8Array> {
  const [frames = 0, height = 0, width = 0, channels = 0] = shape;
  const step = Math.ceil(frames / MAXIMUM_FRAMES);
  const shown = Math.ceil(frames / step);
  const columns = Math.ceil(Math.sqrt(shown));
  const scale = Math.min(1, THUMBNAIL_SIDE / Math.max(width, height));
  const cell = { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) };
  const frameBytes = height * width * channels;
  const tiles = Array.from({ length: shown }, async (_, index) => {
    const frame = bytes.subarray(index * step * frameBytes, (index * step + 1) * frameBytes);
    const image = (await rawImage(frame, width, height, channels)).resize(cell.width, cell.height, { fit: "fill" });
    return {
      input: await image.png().toBuffer(),
      left: (index % columns) * cell.width,
      top: Math.floor(index / columns) * cell.height,
    };
  });
  const { default: sharp } = await import("sharp");
  const sheet = sharp({
    create: {
      width: columns * cell.width,
      height: Math.ceil(shown / columns) * cell.height,
      channels: 3,
      background: "black",
    },
  });
  return sheet
    .composite(await Promise.all(tiles))
    .png()
    .toBuffer();
}

async function rawImage(bytes: Uint8Array, width: number, height: number, channels: number) {
  if (channels !== 1 && channels !== 2 && channels !== 3 && channels !== 4) {
    throw new MediaError("invalid_argument", `a picture has 1 to 4 channels, not ${channels}`);
  }
  // Loaded here alone: a process that only describes or reads holds no image library.
  const { default: sharp } = await import("sharp");
  return sharp(bytes, { raw: { width, height, channels } });
}
