/** Pictures with three or four channels, whatever the file has. */
import type { Pixels } from "../decoders/libvips.ts";
import type { ChannelCount } from "../image_header.ts";
import type { Colour } from "../options.ts";

/** How many channels come out of `channels`. */
export function channelsFor(wanted: "keep" | "rgb" | "rgba", channels: ChannelCount): ChannelCount {
  if (wanted === "keep") return channels;
  return wanted === "rgb" ? 3 : 4;
}

/**
 * RGB: transparent pixels are laid over the background, rounded to the nearest level as Pillow's `Image.paste` with a mask
 * does. Colours under fully transparent pixels therefore never show. Without alpha, grey becomes three equal levels.
 */
export function toRgb({ width, height, channels, bytes }: Pixels, background: Colour): Pixels {
  if (channels === 3) return { width, height, channels, bytes };
  const rgb = new Uint8Array(width * height * 3);
  const isGrey = channels < 3;
  const hasAlpha = channels % 2 === 0;
  for (let from = 0, to = 0; to < rgb.length; from += channels, to += 3) {
    const alpha = hasAlpha ? (bytes[from + channels - 1] ?? 0) : 255;
    for (let channel = 0; channel < 3; channel++) {
      const level = bytes[from + (isGrey ? 0 : channel)] ?? 0;
      rgb[to + channel] = mixed(level, background[channel] ?? 0, alpha);
    }
  }
  return { width, height, channels: 3, bytes: rgb };
}

/** (level × alpha + under × (255 − alpha)) / 255, rounded to the nearest. */
function mixed(level: number, under: number, alpha: number): number {
  return Math.floor((level * alpha + under * (255 - alpha) + 127) / 255);
}

/** RGBA: levels and alpha as they are; opaque where there is no alpha. */
export function toRgba({ width, height, channels, bytes }: Pixels): Pixels {
  if (channels === 4) return { width, height, channels, bytes };
  const rgba = new Uint8Array(width * height * 4);
  const isGrey = channels < 3;
  for (let from = 0, to = 0; to < rgba.length; from += channels, to += 4) {
    rgba[to] = bytes[from] ?? 0;
    rgba[to + 1] = bytes[isGrey ? from : from + 1] ?? 0;
    rgba[to + 2] = bytes[isGrey ? from : from + 2] ?? 0;
    rgba[to + 3] = channels === 2 ? (bytes[from + 1] ?? 0) : 255;
  }
  return { width, height, channels: 4, bytes: rgba };
}
