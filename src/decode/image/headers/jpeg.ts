import { ByteReader } from "../../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";
import { corruptImage, unsupportedImage } from "../refusals.ts";

/**
 * JPEG (ITU-T T.81, B.1 and B.2.2): the first frame header, wherever it stands in front of the first scan.
 * @param mostReads as for {@link ByteReader}
 */
export function readJpegHeader(bytes: Uint8Array, mostReads?: number): ImageHeader {
  const reader = new ByteReader(bytes, false, mostReads);
  let at = 2;
  for (;;) {
    // Any number of fill bytes (FF) may stand in front of a marker; stray bytes are for the decoder to judge.
    while (reader.uint8(at) !== 0xff) at++;
    while (reader.uint8(at) === 0xff) at++;
    const marker = reader.uint8(at++);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return readJpegFrame(reader, at + 2);
    if (marker === 0xda || marker === 0xd9) throw corruptImage("Jpeg", "no frame header in front of the first scan");
    const isAlone = marker === 0 || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    if (!isAlone) at += Math.max(2, reader.uint16(at));
  }
}

function readJpegFrame(reader: ByteReader, at: number): ImageHeader {
  if (reader.uint8(at) !== 8) throw unsupportedImage("Jpeg", "samples of other than 8 bits are not decoded");
  const height = reader.uint16(at + 1);
  const width = reader.uint16(at + 3);
  const components = reader.uint8(at + 5);
  if (components === 1 || components === 3) return { width, height, channels: components, bytesPerPixel: components };
  if (components === 4) return { width, height, channels: 3, bytesPerPixel: 3, variant: "cmyk" };
  throw unsupportedImage("Jpeg", `${components} components are not decoded`);
}
