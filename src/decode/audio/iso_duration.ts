/** How long the sound of an MP4 or QuickTime file is to be heard, by its edit list (ISO/IEC 14496-12, 8.6.6). */
import { type Box, BoxReader } from "../iso_boxes.ts";
import { readEditList, readTimescale } from "../iso_headers.ts";

/**
 * The duration of the only sound track. Encoders of AAC fill their last frame up, by up to a tenth of a second; the edit list says
 * what of it is sound. libavformat heeds that at the beginning only.
 * @returns seconds, rounded up by a tick of the movie; null when the file has no such list, several tracks, or several edits
 */
export function readSoundDuration(bytes: Uint8Array): number | null {
  const file = new BoxReader(bytes);
  const movie = file.boxes().find((box) => box.type === "moov");
  const header = movie && file.find(movie, ["mvhd"]);
  if (!header) return null;
  const sounds = file.boxes(movie.start, movie.end).filter((box) => box.type === "trak" && isSound(file, box));
  const [track] = sounds;
  const list = track && sounds.length === 1 ? file.find(track, ["edts", "elst"]) : undefined;
  if (!list) return null;
  const edits = readEditList(file, list);
  const [edit] = edits.count === 1 ? [edits.at(0)] : [];
  if (!edit || edit.isEmpty || edit.duration === 0) return null;
  const timescale = readTimescale(file, header);
  return timescale > 0 ? (edit.duration + 1) / timescale : null;
}

function isSound(file: BoxReader, track: Box): boolean {
  const handler = file.find(track, ["mdia", "hdlr"]);
  return handler !== undefined && file.text(handler, 8, 4) === "soun";
}
