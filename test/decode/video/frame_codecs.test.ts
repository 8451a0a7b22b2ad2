import { describe, expect, test } from "bun:test";
import { AV1, VP9 } from "../../../src/decode/video/frame_codecs.ts";

/** First bytes of VP9 frames of profile 0 (6.2): a key frame with its sync code, and others that are shown or hidden. */
const VP9_KEY = [0x82, 0x49, 0x83, 0x42, 0x00, 0x07, 0xf0, 0x05, 0xf0, 0x00];
const VP9_SHOWN = [0x86, 0x00, 0x40];
const VP9_HIDDEN = [0x84, 0x00, 0x40];

/** Frames in one sample with an index behind them (Annex B), sizes of one byte. */
function superframe(...frames: readonly (readonly number[])[]): Uint8Array {
  const marker = 0xc0 | (frames.length - 1);
  return Uint8Array.from([...frames.flat(), marker, ...frames.map(({ length }) => length), marker]);
}

describe("a VP9 sample", () => {
  test("of one frame, or of one that is shown and hidden ones, is one picture", () => {
    expect(VP9.look(Uint8Array.from(VP9_KEY))?.access).toBe("closed");
    expect(VP9.look(Uint8Array.from(VP9_SHOWN))?.access).toBeNull();
    expect(VP9.look(superframe(VP9_HIDDEN, VP9_SHOWN))?.access).toBeNull();
    expect(VP9.look(superframe(VP9_KEY, VP9_HIDDEN))?.access).toBe("closed");
  });

  test("that shows two pictures or none is not understood", () => {
    expect(VP9.look(superframe(VP9_SHOWN, VP9_SHOWN))).toBeNull();
    expect(VP9.look(Uint8Array.from(VP9_HIDDEN))).toBeNull();
  });

  test("whose frames' sizes do not add up is not understood", () => {
    const sample = superframe(VP9_SHOWN, VP9_HIDDEN);
    sample[sample.byteLength - 2] = 200;
    expect(VP9.look(sample)).toBeNull();
  });
});

describe("an AV1 sample", () => {
  /** A unit with its size in two bytes (5.3). */
  const unit = (type: number, payload: Uint8Array): number[] => [
    ...[(type << 3) | 2, (payload.byteLength & 127) | 128, payload.byteLength >> 7],
    ...payload,
  ];
  const keyFrame = unit(6, Uint8Array.of(0x10, 0, 0, 0));

  test("with a sequence header and a key frame that is shown is an access point", () => {
    const sample = Uint8Array.from([...unit(1, new Uint8Array(1024)), ...keyFrame]);
    expect(AV1.look(sample)?.access).toBe("closed");
  });

  test("that shows two pictures or none is not understood", () => {
    const sequence = unit(1, new Uint8Array(16));
    const [shown, hidden] = [unit(6, Uint8Array.of(0x30, 0, 0, 0)), unit(6, Uint8Array.of(0x20, 0, 0, 0))];
    expect(AV1.look(Uint8Array.from([...hidden, ...shown]))?.access).toBeNull();
    expect(AV1.look(Uint8Array.from([...sequence, ...keyFrame, ...shown]))).toBeNull();
    expect(AV1.look(Uint8Array.from(hidden))).toBeNull();
  });

  test("with a sequence header beyond reason is not understood", () => {
    const sample = Uint8Array.from([...unit(1, new Uint8Array(1025)), ...keyFrame]);
    expect(AV1.look(sample)).toBeNull();
  });
});
