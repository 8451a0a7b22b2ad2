/**
 * Sizes of 32 bits from here on stand for none: programs that write to a pipe put 0xffffffff, 0x7fffffff, 0x7ffff000 (SoX, WAV),
 * 0x7f000000 (SoX, AIFF) there, or something less, so that it is a multiple of a sample's size.
 */
export const UNKNOWN_SIZE = 0x7e000000;
