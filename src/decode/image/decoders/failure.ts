/** Turns what a decoder library throws into one short coded error. */
import { MediaError } from "../../../errors.ts";
import { corruptImage, unsupportedImage } from "../refusals.ts";

const MAX_DETAIL_LENGTH = 200;
/** Prefixes by which the libraries introduce their messages. */
const PREAMBLE =
  /^(?:(?:Decode image failed|Format error decoding \w+:|Input buffer has corrupt header:|VipsJpeg:|tiff2vips:)\s*)+/;

/**
 * The first line of the library's message only, without anything it quotes (a quotation may be of the file's content).
 * A message about something that is not supported is `media_unsupported`, one about the library's own memory limit
 * `limit_exceeded`, everything else `media_corrupt`: the bytes passed the sniffer and the header was read.
 */
export function decoderFailure(format: string, error: unknown): MediaError {
  if (error instanceof MediaError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const detail = (message.split("\n", 1)[0] ?? "")
    .replace(PREAMBLE, "")
    .replace(/(["'`]).*?\1/g, "…")
    .slice(0, MAX_DETAIL_LENGTH);
  if (/not support|unsupported|unhandled/i.test(detail)) return unsupportedImage(format, detail, error);
  if (/limit/i.test(detail)) return new MediaError("limit_exceeded", `${format} image: ${detail}`, { cause: error });
  return corruptImage(format, detail, error);
}
