/**
 * Every known difference from the reference and from Pillow, with its reason. `npm run docs` writes the list into
 * docs/deviations.md. Whatever differs and is not here fails `npm run bench:parity`, and so does what is here and no longer
 * differs.
 */
import type { Difference } from "./compare.ts";

export interface Deviation {
  /** Names of corpus files. */
  readonly files: readonly string[];
  readonly against: "reference" | "Pillow";
  readonly difference: Exclude<Difference, "same">;
  /** The code with which ours refuses. */
  readonly code?: string;
  /** "other": only with an ffmpeg other than 5.1. */
  readonly ffmpeg?: "other";
  readonly reason: string;
}

const SHORT = "The file is cut short. The reference fills up what is missing; here it is refused.";

export const DEVIATIONS: readonly Deviation[] = [
  {
    files: ["bad_tail128.jpg", "bad_truncated.jpg"],
    against: "reference",
    difference: "ours refuses",
    code: "media_corrupt",
    reason: SHORT,
  },
  {
    files: ["bad_video_truncated.mp4"],
    against: "reference",
    difference: "ours refuses",
    code: "media_corrupt",
    reason: "The file is shorter than its sample table says. The reference decodes what is there; here it is refused.",
  },
  {
    files: ["bad_video_zeroed.mp4"],
    against: "reference",
    difference: "shape",
    reason:
      "Damage inside a complete file. In the reference each damaged packet uses up a wanted frame; the ffmpeg program does not say which packets it passed over, so that more of the wanted frames are found here.",
  },
  {
    files: ["h264_gop12.mkv", "no_duration.webm", "odd_size_420.webm", "vp8.webm", "vp9.webm"],
    against: "reference",
    difference: "ours decodes",
    reason:
      "The reference refuses every Matroska and WebM file, because their streams carry no duration. Here the container's duration counts, or else the packets'.",
  },
  {
    files: ["h264_10bit.mp4", "odd_size_420.mp4"],
    against: "reference",
    difference: "levels",
    ffmpeg: "other",
    reason:
      "Clips are exact with ffmpeg 5.1. Later versions of its scaler round 10-bit samples and the chroma of odd sizes in another way; shape and metadata are the same. (odd_size_420.webm changes likewise, but the reference refuses it.)",
  },
  {
    files: ["rgb.avif", "rgba.avif"],
    against: "reference",
    difference: "ours decodes",
    reason: "The reference is built without AVIF.",
  },
  {
    files: ["rgb.avif"],
    against: "Pillow",
    difference: "levels",
    reason: "Both use libavif, but convert from YUV in other arithmetic: within 9 levels of each other.",
  },
  {
    files: ["animated.gif", "gif_named.jpg", "static.gif"],
    against: "Pillow",
    difference: "shape",
    reason: "A GIF is always RGBA, as in the reference; Pillow gives RGB where nothing is transparent.",
  },
  {
    files: ["gray.bmp"],
    against: "Pillow",
    difference: "shape",
    reason: "A BMP with a palette is RGB, as in the reference; Pillow gives one channel where the palette is grey.",
  },
  {
    files: ["gray16.png"],
    against: "Pillow",
    difference: "levels",
    reason: "16-bit grey is rounded to 8 bits, as in the reference; Pillow keeps 16 bits and has no 8-bit counterpart.",
  },
  {
    files: ["gray_alpha16.png"],
    against: "Pillow",
    difference: "shape",
    reason: "16-bit grey with alpha keeps two channels, as in the reference; Pillow makes RGBA of it.",
  },
  {
    files: ["rgb16.png", "rgba16.png"],
    against: "Pillow",
    difference: "levels",
    reason: "16-bit samples are rounded to 8 bits, as in the reference; Pillow takes their upper byte.",
  },
  {
    files: ["rgb_trns.png"],
    against: "Pillow",
    difference: "shape",
    reason: "A transparent colour (tRNS) gives RGBA, as in the reference; Pillow keeps RGB and sets the colour aside.",
  },
  {
    files: ["jpg_cmyk.jpg"],
    against: "Pillow",
    difference: "levels",
    reason: "CMYK becomes RGB by the reference's arithmetic; Pillow rounds in another way.",
  },
  {
    files: ["bad_bomb_12000.png"],
    against: "Pillow",
    difference: "ours refuses",
    code: "limit_exceeded",
    reason: "Over the default max_alloc of 128 MiB, as in the reference.",
  },
  {
    files: ["rgb.tga"],
    against: "Pillow",
    difference: "ours refuses",
    code: "media_unsupported",
    reason: "TGA has no signature, and formats are told by the bytes alone; the reference refuses it too.",
  },
];
