import { ByteReader, corruptImage } from "../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";

/** WebP (RFC 9649, 2.4 to 2.7). Also refuses a file that is shorter than its chunks say: the lossy decoder would not. */
export function readWebpHeader(bytes: Uint8Array): ImageHeader {
  const reader = new ByteReader(bytes, true);
  // One byte of slack: writers leave out the padding byte behind a last chunk of odd length.
  const end = 8 + reader.uint32(4);
  if (end > reader.length + 1) throw corruptImage("WebP", "it is shorter than it says");
  for (let at = 12; at + 8 <= Math.min(end, reader.length); ) {
    const size = reader.uint32(at + 4);
    if (at + 8 + size > reader.length) throw corruptImage("WebP", "a chunk is cut off");
    at += 8 + size + (size % 2);
  }
  const channels = (hasAlpha: boolean) => (hasAlpha ? 4 : 3);
  switch (reader.text(12, 4)) {
    case "VP8X": {
      const uint24 = (at: number) => reader.uint16(at) + reader.uint8(at + 2) * 0x10000;
      const hasAlpha = (reader.uint8(20) & 0x10) !== 0;
      return { width: 1 + uint24(24), height: 1 + uint24(27), channels: channels(hasAlpha), bytesPerSample: 1 };
    }
    case "VP8L": {
      const packed = reader.uint32(21);
      const [width, height] = [1 + (packed & 0x3fff), 1 + ((packed >>> 14) & 0x3fff)];
      return { width, height, channels: channels(((packed >>> 28) & 1) !== 0), bytesPerSample: 1 };
    }
    case "VP8 ":
      // RFC 6386, 9.1: a frame tag of three bytes, a start code of three, then 14 bits each.
      return { width: reader.uint16(26) & 0x3fff, height: reader.uint16(28) & 0x3fff, channels: 3, bytesPerSample: 1 };
    default:
      throw corruptImage("WebP", "it does not begin with a picture");
  }
}
