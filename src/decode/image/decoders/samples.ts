/** Rounds a 16-bit sample to 8 bits in integers, as the `image` crate's own conversion does. */
export function roundTo8Bits(sample: number): number {
  return Math.floor((sample * 255 + 32767) / 65535);
}
