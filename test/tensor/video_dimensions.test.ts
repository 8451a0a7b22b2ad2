import { describe, expect, test } from "bun:test";
import type { ErrorCode } from "../../src/errors.ts";
import { type DataType, videoDimensions } from "../../src/tensor/index.ts";
import { expectCode } from "./support.ts";

const U32 = 2 ** 32;

describe("videoDimensions", () => {
  test("gives frames, width and height of a contiguous clip", () => {
    expect(videoDimensions({ shape: [4, 120, 160, 3], dtype: "UINT8" }, 230_400)).toEqual({
      frames: 4,
      width: 160,
      height: 120,
    });
  });

  test("takes the largest width and height that fit 32 bits", () => {
    const wide = videoDimensions({ shape: [1, 1, U32 - 1, 3], dtype: "UINT8" }, (U32 - 1) * 3);
    expect(wide.width).toBe(U32 - 1);
    const high = videoDimensions({ shape: [1, U32 - 1, 1, 3], dtype: "UINT8" }, (U32 - 1) * 3);
    expect(high.height).toBe(U32 - 1);
  });

  // Each clip has the named fault and every fault that is checked later, as far as they can occur together.
  const faults: [ErrorCode, number[], DataType, number][] = [
    ["video_rank_invalid", [], "FLOAT32", 1],
    ["video_rank_invalid", [0, 0, 3], "FLOAT32", 1],
    ["video_rank_invalid", [0, 0, 0, 4, 1], "FLOAT32", 1],
    ["video_frames_zero", [0, 0, 0, 4], "FLOAT32", 1],
    ["video_height_zero", [1, 0, 0, 4], "FLOAT32", 1],
    ["video_width_zero", [1, 1, 0, 4], "FLOAT32", 1],
    ["video_channels_invalid", [1, U32, U32, 4], "FLOAT32", 1],
    ["video_channels_invalid", [1, U32, U32, 1], "FLOAT32", 1],
    ["video_dtype_invalid", [1, U32, U32, 3], "FLOAT32", 1],
    ["video_frame_size_overflow", [1, U32, U32, 3], "UINT8", 1],
    ["video_payload_size_overflow", [2 ** 30, 1, U32, 3], "UINT8", 1],
    ["video_byte_length_mismatch", [1, 1, U32, 3], "UINT8", 1],
    ["video_byte_length_mismatch", [1, 1, 2, 3], "UINT8", 7],
    ["video_byte_length_mismatch", [1, 1, 2, 3], "UINT8", 0],
    ["video_width_overflow", [1, 1, U32, 3], "UINT8", U32 * 3],
    ["video_height_overflow", [1, U32, 1, 3], "UINT8", U32 * 3],
  ];
  test.each(faults)("%s: shape %j, %s, %j bytes", (code, shape, dtype, byteLength) => {
    expectCode(() => videoDimensions({ shape, dtype }, byteLength), code);
  });

  test("says something different for every fault", () => {
    const messages = new Map(
      faults.map(([code, shape, dtype, byteLength]) => [
        code,
        expectCode(() => videoDimensions({ shape, dtype }, byteLength), code).message,
      ]),
    );
    expect(new Set(messages.values()).size).toBe(messages.size);
  });
});
