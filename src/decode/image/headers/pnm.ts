/** Headers of PBM, PGM, PPM and PAM files. */
import { corruptImage } from "../byte_reader.ts";
import type { ImageHeader } from "../image_header.ts";

/** Comments make the header's length open; one that is longer than this is refused. */
const MAX_HEADER_LENGTH = 65536;

/** PBM, PGM, PPM (netpbm: magic, width, height, maximum) and PAM (P7: lines of a name and a value). */
export function readPnmHeader(bytes: Uint8Array): ImageHeader {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, MAX_HEADER_LENGTH));
  const kind = Number(head[1]);
  const text = head.slice(2).replace(/#[^\r\n]*/g, " ");
  if (kind === 7) return readPamHeader(text);
  const isBitmap = kind === 1 || kind === 4;
  const numbers = (isBitmap ? /^\s+(\d{1,10})\s+(\d{1,10})\s/ : /^\s+(\d{1,10})\s+(\d{1,10})\s+(\d{1,10})\s/).exec(
    text,
  );
  if (!numbers) throw corruptImage("Pnm", "its header is not complete");
  return {
    width: Number(numbers[1]),
    height: Number(numbers[2]),
    channels: kind === 3 || kind === 6 ? 3 : 1,
    bytesPerSample: Number(numbers[3] ?? 1) > 255 ? 2 : 1,
  };
}

function readPamHeader(text: string): ImageHeader {
  const end = text.indexOf("ENDHDR");
  if (end < 0) throw corruptImage("Pnm", "its header is not complete");
  const field = (name: string) => {
    const value = new RegExp(`(?:^|[\\r\\n])\\s*${name}\\s+(\\d{1,10})\\s`).exec(text.slice(0, end))?.[1];
    if (value === undefined) throw corruptImage("Pnm", `its header has no ${name}`);
    return Number(value);
  };
  return {
    width: field("WIDTH"),
    height: field("HEIGHT"),
    channels: field("DEPTH"),
    bytesPerSample: field("MAXVAL") > 255 ? 2 : 1,
  };
}
