/**
 * What some bytes are, by their signature alone: never by a name or a MIME type. Pure, and reads only inside the array.
 *
 * Everything that a decoder here may see is on one of two short lists, images and containers. All else is refused, with
 * a name where the bytes have one, so that the refusal can say "SVG" and not only "unknown".
 */
import type { ImageFormat } from "../tensor/index.ts";
import { ByteReader, latin1 } from "./byte_reader.ts";
import { afterId3, readMp3Frame } from "./mp3_header.ts";
import { gzipKind, textKind, wideTextKind } from "./sniff_text.ts";

/** Image formats that carry a signature. TGA has none and is therefore never recognised. */
export type SniffedImageFormat = Exclude<ImageFormat, "Tga">;

/** Short names of ffmpeg's demuxers, as its `-f` option takes them. */
export const DEMUXERS = [
  ...(["mov", "matroska", "mpegts", "avi", "ivf", "ogg", "flv", "asf", "gif", "mpeg"] as const),
  ...(["wav", "flac", "mp3", "aac", "aiff", "caf", "amr"] as const),
] as const;
export type Demuxer = (typeof DEMUXERS)[number];

export type SniffResult =
  | { readonly kind: "image"; readonly format: SniffedImageFormat }
  /** A container of video or audio. `name` is for messages; `holds` is what it is for, as far as its beginning tells. */
  | {
      readonly kind: "container";
      readonly demuxer: Demuxer;
      readonly name: string;
      readonly holds: "video" | "audio";
    }
  /** Anything else. `name` is for messages ("SVG", "text", "unknown data"); it never repeats the bytes. */
  | { readonly kind: "refused"; readonly name: string };

interface Signature {
  readonly at: number;
  /** One character per byte (Latin-1). */
  readonly bytes: string;
  readonly result: SniffResult;
}

const image = (format: SniffedImageFormat): SniffResult => ({ kind: "image", format });
const container = (demuxer: Demuxer, name: string): SniffResult => ({
  ...{ kind: "container", demuxer, name },
  holds: "video",
});
const sound = (demuxer: Demuxer, name: string): SniffResult => ({
  ...{ kind: "container", demuxer, name },
  holds: "audio",
});
const refused = (name: string): SniffResult => ({ kind: "refused", name });
const refusedIf = (name: string | null): SniffResult | null => (name === null ? null : refused(name));

const MP4 = container("mov", "MP4/QuickTime");

/** Signatures that settle the matter by themselves; the first that fits wins. */
const SIGNATURES: readonly Signature[] = [
  { at: 0, bytes: "\x89PNG\r\n\x1a\n", result: image("Png") },
  { at: 0, bytes: "\xff\xd8\xff", result: image("Jpeg") },
  { at: 0, bytes: "GIF87a", result: image("Gif") },
  { at: 0, bytes: "GIF89a", result: image("Gif") },
  { at: 0, bytes: "II*\0", result: image("Tiff") },
  { at: 0, bytes: "MM\0*", result: image("Tiff") },
  { at: 0, bytes: "II+\0", result: image("Tiff") },
  { at: 0, bytes: "MM\0+", result: image("Tiff") },
  { at: 0, bytes: "DDS ", result: image("Dds") },
  { at: 0, bytes: "#?RADIANCE", result: image("Hdr") },
  { at: 0, bytes: "#?RGBE", result: image("Hdr") },
  { at: 0, bytes: "\x76\x2f\x31\x01", result: image("OpenExr") },
  { at: 0, bytes: "farbfeld", result: image("Farbfeld") },
  { at: 0, bytes: "qoif", result: image("Qoi") },
  { at: 0, bytes: "\x1a\x45\xdf\xa3", result: container("matroska", "Matroska/WebM") },
  { at: 0, bytes: "DKIF", result: container("ivf", "IVF") },
  { at: 0, bytes: "fLaC", result: sound("flac", "FLAC") },
  { at: 0, bytes: "caff", result: sound("caf", "CAF") },
  { at: 0, bytes: "#!AMR", result: sound("amr", "AMR") },
  { at: 0, bytes: "FLV\x01", result: container("flv", "FLV") },
  { at: 0, bytes: "\x30\x26\xb2\x75\x8e\x66\xcf\x11", result: container("asf", "ASF") },
  { at: 0, bytes: "%PDF-", result: refused("PDF") },
  { at: 0, bytes: "%!PS", result: refused("PostScript") },
  { at: 0, bytes: "PK\x03\x04", result: refused("ZIP") },
  { at: 0, bytes: "\xc5\xd0\xd3\xc6", result: refused("EPS") },
  { at: 0, bytes: "8BPS", result: refused("PSD") },
  { at: 0, bytes: "gimp xcf", result: refused("XCF") },
  { at: 0, bytes: "icns", result: refused("ICNS") },
  { at: 0, bytes: "II\xbc\x01", result: refused("JPEG XR") },
  { at: 0, bytes: "BPG\xfb", result: refused("BPG") },
  { at: 0, bytes: "FLIF", result: refused("FLIF") },
  { at: 0, bytes: "AT&TFORM", result: refused("DjVu") },
  { at: 0, bytes: "SIMPLE  =", result: refused("FITS") },
  { at: 0, bytes: "\xd7\xcd\xc6\x9a", result: refused("WMF") },
  { at: 40, bytes: " EMF", result: refused("EMF") },
  { at: 0, bytes: "\0\0\0\x0cJXL \r\n\x87\n", result: refused("JPEG XL") },
  { at: 0, bytes: "\xff\x0a", result: refused("JPEG XL") },
  { at: 0, bytes: "\0\0\0\x0cjP  \r\n\x87\n", result: refused("JPEG 2000") },
  { at: 0, bytes: "\xff\x4f\xff\x51", result: refused("JPEG 2000") },
  { at: 0, bytes: "\0\0\x01\xba", result: container("mpeg", "MPEG program stream") },
  { at: 0, bytes: "\0\0\x01\xb3", result: refused("MPEG elementary stream") },
];

/** Fields of a TGA file that can be told from noise (Truevision TGA 2.0, "TGA file header"): its types of picture, bits of a pixel. */
const TGA_TYPES = new Set([1, 2, 3, 9, 10, 11]);
const TGA_DEPTHS = new Set([8, 15, 16, 24, 32]);

/** Top-level boxes that an MP4 or QuickTime file without an `ftyp` box may begin with. */
const MOV_FIRST_BOXES = new Set(["moov", "mdat", "free", "wide", "skip", "pnot", "styp", "moof", "sidx"]);

const AVIF_BRANDS = new Set(["avif", "avis"]);
const HEIF_BRANDS = new Set(["heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"]);
/** Brands of the still-image container itself, which say nothing about the codec: the compatible brands do. */
const HEIF_CONTAINER_BRANDS = new Set(["mif1", "mif2", "msf1", "miaf"]);

/** First bytes of sound in Ogg: Opus, Vorbis, FLAC, Speex. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const OGG_SOUND = /^(?:OpusHead|\x01vorbis|\x7fFLAC|Speex {3})/;

/** Brands of MP4 files that hold sound alone. */
const SOUND_BRANDS = new Set(["M4A ", "M4B ", "M4P "]);

/** DIB header sizes that occur in BMP files: OS/2 1 and 2, Windows 3, its V2 to V5. */
const DIB_HEADER_SIZES = new Set([12, 16, 40, 52, 56, 64, 108, 124]);

/** As far as libavformat looks for the first frame of MP3. */
const MOST_ZEROS = 64 * 1024;

/** Packet sizes of MPEG transport streams, with the offset of the first sync byte: plain, with time codes, with FEC. */
const TRANSPORT_PACKETS = [
  { size: 188, sync: 0 },
  { size: 192, sync: 4 },
  { size: 204, sync: 0 },
] as const;

/** What bytes are, for messages. */
export function sniffedName(sniffed: SniffResult): string {
  return sniffed.kind === "image" ? `a ${sniffed.format} image` : sniffed.name;
}

/** Recognises an image format, a media container, or a kind of data that is refused. Never throws. */
export function sniffMedia(bytes: Uint8Array): SniffResult {
  if (bytes.length === 0) return refused("nothing");
  for (const signature of SIGNATURES) {
    if (bytes[signature.at] !== signature.bytes.charCodeAt(0)) continue; // most differ here, which is cheap to tell
    if (latin1(bytes, signature.at, signature.bytes.length) === signature.bytes) return signature.result;
  }
  return (
    sniffRiff(bytes) ??
    sniffOgg(bytes) ??
    sniffIsoBoxes(bytes) ??
    sniffSmallImages(bytes) ??
    sniffTransportStream(bytes) ??
    sniffMp3(bytes) ??
    sniffAdts(bytes) ??
    sniffPaddedMp3(bytes) ??
    refusedIf(textKind(bytes)) ??
    refusedIf(wideTextKind(bytes)) ??
    refusedIf(gzipKind(bytes)) ??
    sniffTga(bytes) ??
    refused("unknown data")
  );
}

/** The first packet, behind a page header with one lacing value, tells the codec (RFC 3533, section 6). */
function sniffOgg(bytes: Uint8Array): SniffResult | null {
  if (latin1(bytes, 0, 4) !== "OggS") return null;
  return OGG_SOUND.test(latin1(bytes, 28, 8)) ? sound("ogg", "Ogg") : container("ogg", "Ogg");
}

function sniffRiff(bytes: Uint8Array): SniffResult | null {
  const id = latin1(bytes, 0, 4);
  if (id === "FORM" && /^AIF[FC]$/.test(latin1(bytes, 8, 4))) return sound("aiff", "AIFF");
  if (id !== "RIFF" && id !== "RF64" && id !== "BW64") return null;
  const form = latin1(bytes, 8, 4);
  if (form === "WEBP") return image("WebP");
  if (form === "AVI ") return container("avi", "AVI");
  if (form === "WAVE") return sound("wav", "WAV");
  return refused("RIFF file of another form");
}

/** ISO base media files: MP4, QuickTime, AVIF, HEIF (ISO/IEC 14496-12, section 4.3; 23008-12, section 10). */
function sniffIsoBoxes(bytes: Uint8Array): SniffResult | null {
  if (bytes.length < 8) return null;
  const type = latin1(bytes, 4, 4);
  const size = new ByteReader(bytes, false).uint32(0);
  // 0: up to the end of the file; 1: a 64-bit size follows the type.
  if (size > 1 && size < 8) return null;
  if (MOV_FIRST_BOXES.has(type)) return MP4;
  if (type !== "ftyp") return null;

  const brands = [latin1(bytes, 8, 4)];
  const end = Math.min(bytes.length, size < 8 ? bytes.length : size, 4096);
  for (let at = 16; at + 4 <= end; at += 4) brands.push(latin1(bytes, at, 4));
  const [major = "", ...compatible] = brands;
  const judged = HEIF_CONTAINER_BRANDS.has(major) ? compatible : [major];
  if (judged.some((brand) => AVIF_BRANDS.has(brand))) return image("Avif");
  if (judged.some((brand) => HEIF_BRANDS.has(brand))) return refused("HEIC");
  if (HEIF_CONTAINER_BRANDS.has(major)) return refused("HEIF of another codec");
  if (major === "crx ") return refused("CR3");
  if (SOUND_BRANDS.has(major)) return sound("mov", "MPEG-4 audio");
  return MP4;
}

/** Formats whose signature is two or four common bytes, so that the fields behind it are looked at too. */
function sniffSmallImages(bytes: Uint8Array): SniffResult | null {
  const reader = new ByteReader(bytes, true);
  if (latin1(bytes, 0, 2) === "BM") {
    if (bytes.length < 18 || DIB_HEADER_SIZES.has(reader.uint32(14))) return image("Bmp");
  }
  if (latin1(bytes, 0, 4) === "\0\0\x01\0" && bytes.length >= 6 && reader.uint16(4) > 0) return image("Ico");
  // P1 to P7, then white space, then a number, a comment or (P7) a field's name.
  if (/^P(?:[1-6][ \t\r\n]+[0-9#]|7[ \t\r\n]+[A-Z#])/.test(latin1(bytes, 0, 16))) return image("Pnm");
  return null;
}

function sniffTransportStream(bytes: Uint8Array): SniffResult | null {
  for (const { size, sync } of TRANSPORT_PACKETS) {
    const packets = Math.min(5, Math.floor(bytes.length / size));
    if (packets < 2) continue;
    const synchronised = Array.from({ length: packets }, (_, index) => bytes[index * size + sync] === 0x47);
    if (synchronised.every(Boolean)) return container("mpegts", "MPEG-TS");
  }
  return null;
}

/** An ID3v2 tag in front of MP3 (or FLAC, or AAC), or an MPEG audio frame header of layer III. */
function sniffMp3(bytes: Uint8Array): SniffResult | null {
  if (latin1(bytes, 0, 3) === "ID3" && bytes.length >= 10) {
    const start = afterId3(bytes);
    if (latin1(bytes, start, 4) === "fLaC") return sound("flac", "FLAC");
    return sniffAdts(bytes.subarray(start)) ?? sound("mp3", "MP3");
  }
  return readMp3Frame(bytes, 0) ? sound("mp3", "MP3") : null;
}

/** MP3 behind zeros, which some programs leave in front of it. Since anything may begin with zeros, two frames must follow. */
function sniffPaddedMp3(bytes: Uint8Array): SniffResult | null {
  if (bytes[0] !== 0) return null;
  const zeros = bytes.subarray(0, MOST_ZEROS).findIndex((byte) => byte !== 0);
  const start = afterId3(bytes, Math.max(zeros, 0));
  const frame = readMp3Frame(bytes, start);
  const next = frame && readMp3Frame(bytes, start + frame.byteLength);
  return next && next.constants === frame?.constants ? sound("mp3", "MP3") : null;
}

/** AAC in ADTS frames: a header, and another one where its frame ends (ISO/IEC 13818-7, section 6.2). */
function sniffAdts(bytes: Uint8Array): SniffResult | null {
  const isHeader = (at: number): boolean =>
    bytes[at] === 0xff && ((bytes[at + 1] ?? 0) & 0xf6) === 0xf0 && (((bytes[at + 2] ?? 0) >> 2) & 15) < 13;
  if (!isHeader(0)) return null;
  const [, , , fourth = 0, fifth = 0, sixth = 0] = bytes;
  const frameBytes = ((fourth & 3) << 11) | (fifth << 3) | (sixth >> 5);
  return frameBytes >= 7 && isHeader(frameBytes) ? sound("aac", "AAC") : null;
}

/** TGA has no signature, so this only names what is refused anyway: a header whose fields are all possible. */
function sniffTga(bytes: Uint8Array): SniffResult | null {
  if (bytes.length < 18) return null;
  const reader = new ByteReader(bytes, true);
  const isPossible =
    reader.uint8(1) <= 1 &&
    TGA_TYPES.has(reader.uint8(2)) &&
    TGA_DEPTHS.has(reader.uint8(16)) &&
    reader.uint16(12) > 0 &&
    reader.uint16(14) > 0 &&
    (reader.uint8(17) & 0xc0) === 0;
  return isPossible ? refused("TGA") : null;
}
