/** The codec of an MP4 file's track, where it is one of those that planning knows. */
import type { Box, BoxReader } from "../iso_boxes.ts";
import type { ClipCodec } from "./codec_pictures.ts";
import { AV1, MOTION_JPEG, PRORES, VP9 } from "./frame_codecs.ts";
import { h264Codec } from "./h264.ts";
import { hevcCodec } from "./hevc.ts";
import type { SampleIndex } from "./sample_index.ts";

/** Fields of a VisualSampleEntry in front of its boxes (ISO/IEC 14496-12, 12.1.3). */
const VISUAL_ENTRY_BYTES = 78;

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
  jpeg: MOTION_JPEG,
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
  if (!withRecord) return Object.hasOwn(BY_TYPE, sampleEntry.type) ? (BY_TYPE[sampleEntry.type] ?? null) : null;
  const record = soleBox(file, sampleEntry, withRecord.box);
  return record && withRecord.codec(encoded.subarray(record.start, record.end));
}

function soleBox(file: BoxReader, entry: Box, type: string): Box | null {
  const [box, other] = file.boxes(entry.start + VISUAL_ENTRY_BYTES, entry.end).filter((one) => one.type === type);
  return box && !other && !box.isCut ? box : null;
}
