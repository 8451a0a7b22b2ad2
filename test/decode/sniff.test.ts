import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { sniffMedia } from "../../src/decode/sniff.ts";
import { media } from "../support/images.ts";

const latin1 = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0));
const ftyp = (major: string, ...compatible: string[]) =>
  latin1(`\0\0\0${String.fromCharCode(16 + 4 * compatible.length)}ftyp${major}\0\0\0\0${compatible.join("")}`);
const name = (bytes: Uint8Array) => {
  const sniffed = sniffMedia(bytes);
  return sniffed.kind === "image" ? sniffed.format : sniffed.kind === "container" ? sniffed.demuxer : sniffed.name;
};

describe("images", () => {
  test.each([
    ["rgb.png", "Png"],
    ["jpg420.jpg", "Jpeg"],
    ["jpg_cmyk.jpg", "Jpeg"],
    ["static.gif", "Gif"],
    ["lossy.webp", "WebP"],
    ["lossless.webp", "WebP"],
    ["gray.pgm", "Pnm"],
    ["rgb.ppm", "Pnm"],
    ["rgb.tiff", "Tiff"],
    ["big.tiff", "Tiff"],
    ["rgb.bmp", "Bmp"],
    ["icon.ico", "Ico"],
    ["rgb.avif", "Avif"],
    ["sequence.avif", "Avif"],
    ["rgb.qoi", "Qoi"],
  ] as const)("%s is %s", async (file, format) => {
    expect(sniffMedia(await media(file))).toEqual({ kind: "image", format });
  });

  test.each([
    ["DDS |\0\0\0", "Dds"],
    ["#?RADIANCE\n", "Hdr"],
    ["\x76\x2f\x31\x01\x02\0\0\0", "OpenExr"],
    ["farbfeld\0\0\0\x01", "Farbfeld"],
    ["MM\0*\0\0\0\x08", "Tiff"],
    ["P7\nWIDTH 1\n", "Pnm"],
    ["P4\n# a comment\n1 1\n", "Pnm"],
  ] as const)("a signature decides: %j", (text, format) => {
    expect(sniffMedia(latin1(text))).toEqual({ kind: "image", format });
  });

  test("the name does not matter: a GIF called .jpg is a GIF", async () => {
    expect(name(await media("gif_named.jpg"))).toBe("Gif");
  });

  test("TGA has no signature: its header gives a name to the refusal, no more", async () => {
    expect(sniffMedia(await media("rgb.tga"))).toEqual({ kind: "refused", name: "TGA" });
  });
});

describe("containers", () => {
  test.each([
    ["h264.mp4", "mov"],
    ["av_faststart.mov", "mov"],
    ["no_duration.webm", "matroska"],
    ["h264.ts", "mpegts"],
    ["resolution_change.ivf", "ivf"],
    ["tone.ogg", "ogg"],
    ["bad_audio.wav", "wav"],
    ["tone16k.flac", "flac"],
    ["tone44k_mono.mp3", "mp3"],
  ] as const)("%s takes the demuxer %s", async (file, demuxer) => {
    expect(sniffMedia(await media(file))).toMatchObject({ kind: "container", demuxer });
  });

  test.each([
    ["RIFF\x10\0\0\0AVI LIST", "avi"],
    ["RF64\xff\xff\xff\xffWAVEds64", "wav"],
    ["FLV\x01\x05", "flv"],
    ["\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9", "asf"],
    ["\xff\xfb\x90\x64\0", "mp3"],
    ["ID3\x04\0\0\0\0\0\x02..fLaC", "flac"],
  ] as const)("%j takes the demuxer %s", (text, demuxer) => {
    expect(sniffMedia(latin1(text))).toMatchObject({ kind: "container", demuxer });
  });

  test.each(["moov", "mdat", "free", "wide", "skip"])("a file that begins with the box %s is QuickTime", (type) => {
    expect(name(latin1(`\0\0\0\x08${type}\0\0\0\x08`))).toBe("mov");
  });

  test("MP3 may come behind zeros, which alone are nothing, and so is one frame's header", async () => {
    const mp3 = await media("tone44k_mono.mp3");
    const behindZeros = (bytes: Uint8Array) => Uint8Array.from([...new Uint8Array(512), ...bytes]);
    expect(name(behindZeros(mp3))).toBe("mp3");
    const frames = mp3.subarray(45);
    expect(name(behindZeros(frames))).toBe("mp3");
    expect(name(behindZeros(frames.subarray(0, 100)))).toBe("unknown data");
    expect(name(new Uint8Array(512))).toBe("unknown data");
  });

  test("packets of 192 bytes with a time code in front are a transport stream", () => {
    const packets = new Uint8Array(192 * 3);
    for (const at of [4, 196, 388]) packets[at] = 0x47;
    expect(name(packets)).toBe("mpegts");
  });
});

describe("brands of ISO base media files", () => {
  test.each([
    [ftyp("isom", "iso2", "avc1"), "mov"],
    [ftyp("qt  "), "mov"],
    [ftyp("isom", "avif"), "mov"],
    [ftyp("avif", "mif1"), "Avif"],
    [ftyp("avis", "msf1"), "Avif"],
    [ftyp("mif1", "miaf", "avif"), "Avif"],
    [ftyp("heic", "mif1"), "HEIC"],
    [ftyp("mif1", "heic"), "HEIC"],
    [ftyp("msf1", "hevc"), "HEIC"],
    [ftyp("mif1", "miaf"), "HEIF of another codec"],
  ])("%#: %s", (bytes, expected) => {
    expect(name(bytes)).toBe(expected);
  });
});

describe("refusals have a name", () => {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>';
  const utf16 = (text: string, order: "LE" | "BE"): Uint8Array => {
    const bytes = Buffer.from(`\ufeff${text}`, "utf16le");
    return new Uint8Array(order === "LE" ? bytes : bytes.swap16());
  };

  test.each([
    ["plain", latin1(svg)],
    ["behind a byte order mark", latin1(`\xef\xbb\xbf${svg}`)],
    ["behind white space", latin1(` \r\n\t${svg}`)],
    [
      "behind a prologue, a comment and a document type",
      latin1(`<?xml version="1.0"?>\n<!-- made by <html> -->\n${svg}`),
    ],
    ["behind a comment", latin1(`<!-- drawn by hand -->${svg}`)],
    ["behind a document type", latin1(`<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x">${svg}`)],
    ["in capitals", latin1(svg.toUpperCase())],
    ["in UTF-16, low byte first", utf16(svg, "LE")],
    ["in UTF-16, high byte first", utf16(svg, "BE")],
  ])("SVG %s", (_, bytes) => {
    expect(sniffMedia(bytes)).toEqual({ kind: "refused", name: "SVG" });
  });

  test("SVG that is compressed, also when it is long or cut short; other gzip data by that name", () => {
    const long = `${svg}${"<!-- -->".repeat(100_000)}`;
    for (const text of [svg, long]) {
      const gzip = new Uint8Array(gzipSync(text));
      expect(name(gzip)).toBe("SVG (gzip)");
      expect(name(gzip.subarray(0, gzip.length - 10))).toBe("SVG (gzip)");
    }
    expect(name(new Uint8Array(gzipSync("text")))).toBe("gzip data");
    expect(name(latin1("\x1f\x8b\x08"))).toBe("gzip data");
  });

  test.each([
    ["%PDF-1.7\n", "PDF"],
    ["%!PS-Adobe-3.0 EPSF-3.0\n", "PostScript"],
    ["\xc5\xd0\xd3\xc6\x20\0\0\0", "EPS"],
    ["8BPS\0\x01", "PSD"],
    ["gimp xcf v011", "XCF"],
    ["icns\0\0\x01\0", "ICNS"],
    ["II\xbc\x01\x08\0", "JPEG XR"],
    ["\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"],
    ["\xff\x0a\0\0", "JPEG XL"],
    ["\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"],
    ["AT&TFORM\0\0\0\0DJVU", "DjVu"],
    ["\xd7\xcd\xc6\x9a\0\0", "WMF"],
    ["<!DOCTYPE html><html>", "HTML"],
    ["\n<html><body><svg></svg></body></html>", "HTML"],
  ])("%j is %s", (text, expected) => {
    expect(sniffMedia(latin1(text))).toEqual({ kind: "refused", name: expected });
  });

  test.each([
    ["bad_vector.svg", "SVG"],
    ["bad_text.jpg", "HTML"],
    ["bad_playlist.mp4", "playlist"],
    ["bad_concat.mp4", "concat script"],
    ["bad_video_text.mp4", "text"],
    ["bad_empty.png", "nothing"],
  ])("%s: %s", async (file, expected) => {
    expect(sniffMedia(await media(file))).toEqual({ kind: "refused", name: expected });
  });

  test.each([
    ['\xef\xbb\xbf  <?xml version="1.0"?>\n<!-- made by hand -->\n<svg width="1">', "SVG"],
    ["<?xml version='1.0'?><MPD>", "DASH manifest"],
    ["<?xml version='1.0'?><note/>", "XML"],
    ["\n<!DOCTYPE HTML><title>x</title>", "HTML"],
    ["%PDF-1.7", "PDF"],
    ["PK\x03\x04", "ZIP"],
    ["\x1f\x8b\x08\0", "gzip data"],
    ["BMW is a car maker", "text"],
    ["P1 is the first", "text"],
    ["RIFF\x04\0\0\0ACON", "RIFF file of another form"],
    ["\0\x01\x02\x03", "unknown data"],
  ])("%j: %s", (text, expected) => {
    expect(sniffMedia(latin1(text))).toEqual({ kind: "refused", name: expected });
  });
});

test("every beginning of a file, down to nothing, is judged without an error", async () => {
  for (const file of ["rgb.avif", "h264.ts", "rgb.bmp", "icon.ico", "lossy.webp", "tone44k_mono.mp3"]) {
    const bytes = await media(file);
    for (let length = 0; length < 600; length++) expect(sniffMedia(bytes.subarray(0, length)).kind).toBeString();
  }
});
