import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage } from "../refusals.ts";

/** The first frame of a GIF: where it lies, its colours, and where its data begin. */
export interface GifFrame {
  /** Logical screen, pixels: the size of the picture. */
  readonly screenWidth: number;
  readonly screenHeight: number;
  /** The frame on that screen, pixels; may be smaller or reach beyond it. */
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  /** Rows come in four passes: every 8th, then those in between. */
  readonly isInterlaced: boolean;
  /** RGB triples; empty where the file has no colour table. */
  readonly palette: Uint8Array;
  /** The palette entry that stands for transparency; null where there is none. */
  readonly transparentIndex: number | null;
  /** Offset of the byte that says the smallest code size; the data's sub-blocks follow it. */
  readonly dataOffset: number;
}

/** A GIF is always RGBA. Its size counts as the larger of the screen and the first frame, since both are allocated. */
export function readGifHeader(bytes: Uint8Array): ImageHeader {
  const frame = readGifFrame(bytes);
  const isEmpty = frame.screenWidth === 0 || frame.screenHeight === 0;
  const width = isEmpty ? 0 : Math.max(frame.screenWidth, frame.left + frame.width);
  const height = isEmpty ? 0 : Math.max(frame.screenHeight, frame.top + frame.height);
  return { width, height, channels: 4, bytesPerPixel: 4 };
}

/** Reads up to the first image descriptor (GIF89a specification, sections 18 to 23). */
export function readGifFrame(bytes: Uint8Array): GifFrame {
  const reader = new ByteReader(bytes, true);
  const colorTableLength = (flags: number) => ((flags & 0x80) !== 0 ? 3 * 2 ** ((flags & 7) + 1) : 0);
  const screenFlags = reader.uint8(10);
  const globalColors = 13;
  let transparentIndex: number | null = null;
  let at = globalColors + colorTableLength(screenFlags);

  for (;;) {
    const introducer = reader.uint8(at);
    if (introducer === 0x2c) break;
    if (introducer !== 0x21) throw corruptImage("Gif", "it has no frame");
    const isGraphicControl = reader.uint8(at + 1) === 0xf9;
    if (isGraphicControl) transparentIndex = (reader.uint8(at + 3) & 1) !== 0 ? reader.uint8(at + 6) : null;
    at += 2;
    while (reader.uint8(at) !== 0) at += 1 + reader.uint8(at);
    at += 1;
  }

  const frameFlags = reader.uint8(at + 9);
  const localLength = colorTableLength(frameFlags);
  const colors = localLength > 0 ? at + 10 : globalColors;
  const colorsLength = localLength > 0 ? localLength : colorTableLength(screenFlags);
  return {
    screenWidth: reader.uint16(6),
    screenHeight: reader.uint16(8),
    left: reader.uint16(at + 1),
    top: reader.uint16(at + 3),
    width: reader.uint16(at + 5),
    height: reader.uint16(at + 7),
    isInterlaced: (frameFlags & 0x40) !== 0,
    palette: bytes.subarray(colors, colors + colorsLength),
    transparentIndex,
    dataOffset: at + 10 + localLength,
  };
}
