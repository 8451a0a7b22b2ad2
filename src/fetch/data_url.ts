/** Data URLs: the whole medium in the URL itself (RFC 2397), base64 only. */
import { MediaError } from "../errors.ts";

/** Media type and parameters are short; whatever has no comma within so many characters is not a data URL. */
const MAXIMUM_PREFIX_LENGTH = 1024;

/** The standard and the URL-safe alphabet (RFC 4648), padded or not. */
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;

/** Whether a URL's scheme is `data:`, in any case. */
export function isDataUrl(url: string): boolean {
  return /^data:/i.test(url);
}

/**
 * The bytes of a data URL. Any media type and parameters, any case, line breaks, missing padding and the URL-safe alphabet
 * are accepted; the media type is ignored, since formats are told from the bytes.
 * @param maximumBytes judged from the length of the text, before anything is decoded
 * @throws MediaError data_url_invalid, media_too_large; the message never repeats the data
 */
export function decodeDataUrl(url: string, maximumBytes: number): Uint8Array {
  const comma = url.slice(0, MAXIMUM_PREFIX_LENGTH).indexOf(",");
  if (comma < 0) throw new MediaError("data_url_invalid", "The data URL has no comma in front of its data");
  const parameters = url.slice("data:".length, comma).split(";");
  if (parameters.at(-1)?.trim().toLowerCase() !== "base64") {
    throw new MediaError("data_url_invalid", "The data URL is not base64: only data:…;base64,… is decoded");
  }
  // Four characters are three bytes. Percent escapes make three characters of one, and line breaks add some: text that is
  // longer than that cannot hold an allowed medium, and is not even looked at.
  const characters = url.length - comma - 1;
  if (characters > (Math.ceil(maximumBytes / 3) + 1) * 4 * 3) throw tooLarge(maximumBytes);
  const text = stripped(url.slice(comma + 1));
  const unpadded = text.length - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0);
  if (Math.floor((unpadded * 3) / 4) > maximumBytes) throw tooLarge(maximumBytes);
  // A single character left over holds six bits: no byte ends there.
  if (!BASE64.test(text) || unpadded % 4 === 1)
    throw new MediaError("data_url_invalid", "The data URL's base64 is invalid");
  return Buffer.from(text, "base64");
}

/** Base64 text without percent escapes and white space. */
function stripped(text: string): string {
  let plain = text;
  if (plain.includes("%")) {
    try {
      plain = decodeURIComponent(plain);
    } catch (cause) {
      throw new MediaError("data_url_invalid", "The data URL's percent escapes are invalid", { cause });
    }
  }
  return /\s/.test(plain) ? plain.replace(/\s+/g, "") : plain;
}

function tooLarge(maximumBytes: number): MediaError {
  return new MediaError("media_too_large", `The data URL holds more than the limit of ${maximumBytes} bytes`);
}
