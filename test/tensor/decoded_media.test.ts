import { describe, expect, test } from "bun:test";
import { DecodedMedia, type MediaMetadata } from "../../src/tensor/index.ts";
import { expectCode, indexBytes } from "./support.ts";

const IMAGE: MediaMetadata = { Image: { format: "Png", color_type: "Rgb8", layout: "HWC" } };

describe("DecodedMedia.fromTypedArray", () => {
  test("makes a UINT8 tensor of bytes", () => {
    for (const array of [indexBytes(6), new Uint8ClampedArray(6), Buffer.from(indexBytes(6))]) {
      const media = DecodedMedia.fromTypedArray(array, [1, 2, 3]);
      expect(media.info).toEqual({ shape: [1, 2, 3], dtype: "UINT8", metadata: null });
      expect(media.contentHash).toBeNull();
      expect(media.bytes.byteLength).toBe(6);
      expect(Object.getPrototypeOf(media.bytes)).toBe(Uint8Array.prototype);
    }
  });

  test("makes a FLOAT32 tensor of floats, counted in elements", () => {
    const media = DecodedMedia.fromTypedArray(new Float32Array([0.5, -1]), [2, 1]);
    expect(media.info.dtype).toBe("FLOAT32");
    expect([...media.bytes]).toEqual([0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf]);
  });

  test("sees the array's own memory, at the array's offset", () => {
    const memory = indexBytes(64);
    const middle = new Float32Array(memory.buffer, 16, 3);
    const media = DecodedMedia.fromTypedArray(middle, [3]);
    expect(media.bytes.buffer).toBe(memory.buffer);
    expect(media.bytes.byteOffset).toBe(16);
    expect([...media.bytes]).toEqual([...memory.subarray(16, 28)]);
    memory[16] = 200;
    expect(media.bytes[0]).toBe(200);

    const slice = DecodedMedia.fromTypedArray(memory.subarray(5, 8), [1, 1, 3]);
    expect([...slice.bytes]).toEqual([5, 6, 7]);
  });

  test("takes shared memory", () => {
    const shared = new Uint8Array(new SharedArrayBuffer(8), 2, 3);
    expect(DecodedMedia.fromTypedArray(shared, [3]).bytes.byteOffset).toBe(2);
  });

  test("keeps metadata and hash, and a shape of its own", () => {
    const shape = [1, 2, 3];
    const media = DecodedMedia.fromTypedArray(indexBytes(6), shape, {
      metadata: IMAGE,
      contentHash: "7a9bbcb11a898630",
    });
    shape[0] = 9;
    expect(media.info).toEqual({ shape: [1, 2, 3], dtype: "UINT8", metadata: IMAGE });
    expect(media.contentHash).toBe("7a9bbcb11a898630");
  });

  test("takes an empty tensor", () => {
    expect(DecodedMedia.fromTypedArray(new Uint8Array(0), [0, 0, 3]).bytes.byteLength).toBe(0);
  });

  test.each([
    [new Uint16Array(6)],
    [new Float64Array(6)],
    [new Int8Array(6)],
    [new DataView(new ArrayBuffer(6))],
    [new ArrayBuffer(6)],
    [[0, 1, 2, 3, 4, 5]],
    [null],
  ])("refuses %p", (array) => {
    expectCode(() => DecodedMedia.fromTypedArray(array as unknown as Uint8Array, [1, 2, 3]), "invalid_argument");
  });

  test("refuses a length that is not the product of the shape", () => {
    expectCode(() => DecodedMedia.fromTypedArray(indexBytes(5), [1, 2, 3]), "shape_mismatch");
    expectCode(() => DecodedMedia.fromTypedArray(new Float32Array(6), [24]), "shape_mismatch");
    expectCode(() => DecodedMedia.fromTypedArray(indexBytes(6), [2, -3]), "invalid_argument");
  });

  test.each([{ contenthash: null }, { contentHash: "7A9BBCB11A898630" }, { metadata: { Audio: {} } }])(
    "refuses the options %j",
    (options) => {
      expectCode(
        () =>
          DecodedMedia.fromTypedArray(indexBytes(6), [6], options as Parameters<typeof DecodedMedia.fromTypedArray>[2]),
        "invalid_options",
      );
    },
  );
});
