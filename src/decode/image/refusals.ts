/** The two refusals that every part of image decoding may end with. */
import { MediaError } from "../../errors.ts";

/** The one wording for bytes that break their format's rules. `detail` is ours or cleaned of quoted input. */
export function corruptImage(format: string, detail: string, cause?: unknown): MediaError {
  return new MediaError("media_corrupt", `${format} image is damaged or cut short: ${detail}`, { cause });
}

/** The one wording for sound bytes that use a feature which is not decoded. */
export function unsupportedImage(format: string, detail: string, cause?: unknown): MediaError {
  return new MediaError("media_unsupported", `${format} image: ${detail}`, { cause });
}
