/** Headers of PBM, PGM, PPM and PAM files. */
import { type ImageHeader, isChannelCount } from "../image_header.ts";
import { corruptImage, unsupportedImage } from "../refusals.ts";

/** Comments make the header's length open; one that is longer than this is refused. */
const MAX_HEADER_LENGTH = 65536;

/**
 * PBM, PGM, PPM (netpbm: magic, width, height, maximum) and PAM (P7: lines of a name and a value). Odd headers are read
 * as the decoder reads them, so that it is not another size which is judged.
 */
export function readPnmHeader(bytes: Uint8Array): ImageHeader {
  const head = new TextDecoder("latin1").decode(bytes.subarray(0, MAX_HEADER_LENGTH));
  const kind = Number(head[1]);
  if (kind === 7) return readPamHeader(head);
  // To the decoder a comment is nothing, its line's end included: what stands before and behind it is one number.
  const text = head.slice(2).replace(/#[^\r\n]*[\r\n]?/g, "");
  const isBitmap = kind === 1 || kind === 4;
  const numbers = (isBitmap ? /^\s+(\d{1,10})\s+(\d{1,10})\s/ : /^\s+(\d{1,10})\s+(\d{1,10})\s+(\d{1,10})\s/).exec(
    text,
  );
  if (!numbers) throw corruptImage("Pnm", "its header is not complete");
  return makeHeader(Number(numbers[1]), Number(numbers[2]), kind === 3 || kind === 6 ? 3 : 1, Number(numbers[3] ?? 1));
}

function readPamHeader(head: string): ImageHeader {
  const fields = new Map<string, number>();
  for (const line of head.split("\n").slice(1)) {
    const [name = "", value = ""] = line.trim().split(/\s+/);
    if (name === "ENDHDR") break;
    if (line.startsWith("#") || !/^\d{1,10}$/.test(value)) continue;
    if (fields.has(name)) throw corruptImage("Pnm", "a field occurs twice in its header");
    fields.set(name, Number(value));
  }
  const field = (name: string) => {
    const value = fields.get(name);
    if (value === undefined) throw corruptImage("Pnm", "its header is not complete");
    return value;
  };
  return makeHeader(field("WIDTH"), field("HEIGHT"), field("DEPTH"), field("MAXVAL"));
}

function makeHeader(width: number, height: number, channels: number, maximum: number): ImageHeader {
  if (!isChannelCount(channels)) throw unsupportedImage("Pnm", `${channels} channels are not decoded`);
  return { width, height, channels, bytesPerPixel: maximum > 255 ? 2 * channels : channels };
}
