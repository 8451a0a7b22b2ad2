/** The codec of an MP4 file's track, where it is one of those that planning knows. */
import type { ClipCodec } from "./codec_pictures.ts";
import { AV1, PRORES, VP9 } from "./frame_codecs.ts";
import { h264Codec } from "./h264.ts";
import { hevcCodec } from "./hevc.ts";
import type { SampleIndex } from "./sample_index.ts";

/** Fields of a VisualSampleEntry in front of its boxes (ISO/IEC 14496-12, 12.1.3). */
const VISUAL_ENTRY_BYTES = 78;

/**
 * Boxes of a sample entry that say how pictures are shown, or once more what a sample's own headers say. Any other may hold
 * another configuration, of which libavformat takes one.
 */
const DESCRIPTIVE: ReadonlySet<string> = new Set([
  ...["amve", "btrt", "cclv", "ccst", "chrm", "clap", "clli", "colr", "fiel", "gama", "mdcv", "pasp"],
  ...["CoLL", "SmDm", "av1C", "vpcC"],
]);
/** Codecs by the type of their sample entry. */
const BY_RECORD: Readonly<Record<string, { box: string; codec: (record: Uint8Array) => ClipCodec | null }>> = {
  avc1: { box: "avcC", codec: h264Codec },
  avc3: { box: "avcC", codec: h264Codec },
  hvc1: { box: "hvcC", codec: hevcCodec },
  hev1: { box: "hvcC", codec: hevcCodec },
};
const BY_TYPE: Readonly<Record<string, ClipCodec>> = {
  vp09: VP9,
  av01: AV1,
  apch: PRORES,
  apcn: PRORES,
  apcs: PRORES,
  apco: PRORES,
  ap4h: PRORES,
  ap4x: PRORES,
};

/**
 * @param encoded the file
 * @returns null for codecs and configurations that are decoded linearly
 */
export function clipCodec(encoded: Uint8Array, { boxes: { file, sampleEntry } }: SampleIndex): ClipCodec | null {
  const withRecord = Object.hasOwn(BY_RECORD, sampleEntry.type) ? BY_RECORD[sampleEntry.type] : undefined;
  const boxes = file.boxes(sampleEntry.start + VISUAL_ENTRY_BYTES, sampleEntry.end);
  const [record, ...others] = boxes.filter((box) => !DESCRIPTIVE.has(box.type));
  if (others.length > 0) return null;
  if (withRecord) {
    const isSound = record?.type === withRecord.box && !record.isCut;
    return isSound ? withRecord.codec(encoded.subarray(record.start, record.end)) : null;
  }
  return !record && Object.hasOwn(BY_TYPE, sampleEntry.type) ? (BY_TYPE[sampleEntry.type] ?? null) : null;
}
