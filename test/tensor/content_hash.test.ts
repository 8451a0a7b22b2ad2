import { describe, expect, test } from "bun:test";
import {
  audioHashHeader,
  canonicalContentHash,
  contentHashForStorage,
  elementCount,
  FLOAT32,
  hashContiguous,
  hashVideoContent,
  imageHashHeader,
  isContentHash,
  type MediaMetadata,
  type TensorInfo,
  UINT8,
  videoHashHeader,
  videoMetadataSchema,
} from "../../src/tensor/index.ts";
import hashes from "../vectors/hashes.json" with { type: "json" };
import { expectCode, indexBytes, mixBytes, randomNumbers } from "./support.ts";

const CLIP = { source_fps: 24, source_duration: 10, sampled_timestamps: [0, 5] };
const VIDEO: MediaMetadata = { Video: CLIP };
const IMAGE: MediaMetadata = { Image: { format: "Png", color_type: "Rgb8", layout: "HWC" } };
const CLIP_SHAPE = [2, 1, 2, 3];
const CLIP_HASH = "7e4b54c46acd410c";

function bytesOf(kind: string, shape: readonly number[]): Uint8Array {
  return kind === "mix" ? mixBytes(elementCount(shape)) : indexBytes(elementCount(shape));
}

function joined(header: Uint8Array, payload: Uint8Array): Uint8Array {
  return new Uint8Array([...header, ...payload]);
}

describe("content hashes of the reference", () => {
  for (const entry of hashes) {
    const bytes = bytesOf(entry.bytes, entry.shape);
    if ("metadata_json" in entry) {
      const Video = videoMetadataSchema.parse(JSON.parse(entry.metadata_json));
      test(`clip [${entry.shape}] ${entry.metadata_json}`, () => {
        expect(hashVideoContent(entry.shape, UINT8, { Video }, bytes)).toBe(entry.hash);
        const header = videoHashHeader(entry.shape, UINT8, Video, bytes.byteLength);
        expect(hashContiguous(joined(header, bytes))).toBe(entry.hash);
      });
    } else {
      test(`image [${entry.shape}] ${entry.bytes}`, () => {
        expect(canonicalContentHash(entry.shape, UINT8, bytes)).toBe(entry.hash);
        expect(hashContiguous(joined(imageHashHeader(entry.shape, UINT8), bytes))).toBe(entry.hash);
      });
    }
  }

  test("shape [1,2,3] with bytes 0 to 5", () => {
    expect(canonicalContentHash([1, 2, 3], "UINT8", indexBytes(6))).toBe("7a9bbcb11a898630");
  });
});

describe("hash headers", () => {
  test("of an image are rank, dimensions and element type, little-endian", () => {
    const header = imageHashHeader([1, 0x0102030405, 3], "FLOAT32");
    const expected = [
      ...[3, 0, 0, 0, 0, 0, 0, 0],
      ...[1, 0, 0, 0, 0, 0, 0, 0],
      ...[5, 4, 3, 2, 1, 0, 0, 0],
      ...[3, 0, 0, 0, 0, 0, 0, 0],
      1,
    ];
    expect([...header]).toEqual(expected);
  });

  test("of a clip are tag, tensor, metadata and length, each length in front", () => {
    const header = videoHashHeader(CLIP_SHAPE, "UINT8", CLIP, 12);
    const json = '{"source_fps":24.0,"source_duration":10.0,"sampled_timestamps":[0.0,5.0]}';
    const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
    const text = (offset: number, length: number) => new TextDecoder().decode(header.subarray(offset, offset + length));
    expect(view.getBigUint64(0, true)).toBe(5n);
    expect(text(8, 5)).toBe("video");
    expect([0, 1, 2, 3, 4].map((index) => Number(view.getBigUint64(13 + 8 * index, true)))).toEqual([4, 2, 1, 2, 3]);
    expect(header[53]).toBe(0);
    expect(Number(view.getBigUint64(54, true))).toBe(json.length);
    expect(text(62, json.length)).toBe(json);
    expect(Number(view.getBigUint64(62 + json.length, true))).toBe(12);
    expect(header.byteLength).toBe(62 + json.length + 8);
  });

  test("in front of a payload in one buffer hash like the whole, at any offset", () => {
    const random = randomNumbers(7);
    for (let round = 0; round < 200; round += 1) {
      const shape = [1 + (random() % 40), 1 + (random() % 40), 1 + (random() % 4)];
      const payload = mixBytes(elementCount(shape)).map((byte) => byte ^ (round & 0xff));
      const header = imageHashHeader(shape, UINT8);
      const offset = random() % 100;
      const page = new Uint8Array(offset + header.byteLength + payload.byteLength + 9).fill(0xee);
      page.set(header, offset);
      page.set(payload, offset + header.byteLength);
      const span = page.subarray(offset, offset + header.byteLength + payload.byteLength);
      expect(hashContiguous(span)).toBe(canonicalContentHash(shape, UINT8, payload));
    }
  });
});

describe("hashContiguous", () => {
  test("gives xxh3-64 with seed 0: the published hash of no bytes", () => {
    expect(hashContiguous(new Uint8Array(0))).toBe("2d06800538d394c2");
  });

  test("pads with zeros to 16 digits", () => {
    const names = Array.from({ length: 400 }, (_, length) => hashContiguous(indexBytes(length)));
    expect(names.filter((name) => name.startsWith("0")).length).toBeGreaterThan(0);
    expect(names.filter((name) => !isContentHash(name))).toEqual([]);
  });
});

describe("canonicalContentHash", () => {
  test("tells apart shapes, element types and bytes", () => {
    const bytes = indexBytes(24);
    const names = new Set([
      canonicalContentHash([24], "UINT8", bytes),
      canonicalContentHash([2, 12], "UINT8", bytes),
      canonicalContentHash([12, 2], "UINT8", bytes),
      canonicalContentHash([1, 24], "UINT8", bytes),
      canonicalContentHash([6], "FLOAT32", bytes),
      canonicalContentHash([24], "UINT8", mixBytes(24)),
    ]);
    expect(names.size).toBe(6);
  });

  test("refuses bytes that the shape does not account for", () => {
    expectCode(() => canonicalContentHash([1, 2, 3], "UINT8", indexBytes(7)), "shape_mismatch");
    expectCode(() => canonicalContentHash([1, 2, 3], "FLOAT32", indexBytes(6)), "shape_mismatch");
    expectCode(() => canonicalContentHash([], "UINT8", indexBytes(0)), "shape_mismatch");
  });

  test("refuses a shape that is none", () => {
    expectCode(() => canonicalContentHash([-1, 3], "UINT8", indexBytes(0)), "invalid_argument");
    expectCode(() => imageHashHeader([0.5], "UINT8"), "invalid_argument");
  });
});

describe("hashVideoContent", () => {
  const bytes = indexBytes(12);

  test("names a clip by its timestamps and its rate too", () => {
    const names = [
      CLIP,
      { ...CLIP, sampled_timestamps: [0, 5.1] },
      { ...CLIP, source_fps: 25 },
      { ...CLIP, source_duration: 11 },
    ].map((Video) => hashVideoContent(CLIP_SHAPE, "UINT8", { Video }, bytes));
    expect(new Set(names).size).toBe(4);
    expect(names[0]).toBe(CLIP_HASH);
  });

  test("gives a clip another name than an image of the same shape and bytes", () => {
    expect(canonicalContentHash(CLIP_SHAPE, "UINT8", bytes)).not.toBe(CLIP_HASH);
  });

  test("refuses a clip without bytes, before anything else", () => {
    expectCode(() => hashVideoContent([0, 1, 2, 3], "UINT8", null, new Uint8Array(0)), "payload_empty");
    expectCode(() => videoHashHeader([0, 1, 2, 3], "UINT8", CLIP, 0), "payload_empty");
  });

  test("refuses missing metadata and metadata of another kind with different codes", () => {
    expectCode(() => hashVideoContent(CLIP_SHAPE, "UINT8", null, bytes), "metadata_missing");
    expectCode(() => hashVideoContent(CLIP_SHAPE, "UINT8", IMAGE, bytes), "metadata_kind_mismatch");
    expectCode(() => hashVideoContent(CLIP_SHAPE, "UINT8", { Audio: {} }, bytes), "metadata_kind_mismatch");
  });

  test("refuses bytes that the shape does not account for, and times that are no numbers", () => {
    expectCode(() => hashVideoContent([2, 2, 2, 3], "UINT8", VIDEO, bytes), "shape_mismatch");
    const Video = { ...CLIP, source_fps: Number.NaN };
    expectCode(() => hashVideoContent(CLIP_SHAPE, "UINT8", { Video }, bytes), "invalid_argument");
  });
});

describe("contentHashForStorage", () => {
  const bytes = indexBytes(12);
  const info = (metadata: TensorInfo["metadata"]): TensorInfo => ({ shape: CLIP_SHAPE, dtype: "UINT8", metadata });

  test("names an image whether clips are hashed or not", () => {
    const expected = canonicalContentHash(CLIP_SHAPE, "UINT8", bytes);
    expect(contentHashForStorage(bytes, info(IMAGE), { hashVideo: false })).toBe(expected);
    expect(contentHashForStorage(bytes, info(IMAGE), { hashVideo: true })).toBe(expected);
  });

  test("names a clip only when asked to", () => {
    expect(contentHashForStorage(bytes, info(VIDEO), { hashVideo: false })).toBeNull();
    expect(contentHashForStorage(bytes, info(VIDEO), { hashVideo: true })).toBe(CLIP_HASH);
  });

  test("names nothing without bytes or without metadata", () => {
    const empty: TensorInfo = { shape: [0, 0, 3], dtype: "UINT8", metadata: IMAGE };
    expect(contentHashForStorage(new Uint8Array(0), empty, { hashVideo: true })).toBeNull();
    expect(contentHashForStorage(new Uint8Array(0), { ...empty, metadata: VIDEO }, { hashVideo: true })).toBeNull();
    expect(contentHashForStorage(bytes, info(null), { hashVideo: true })).toBeNull();
  });

  test("lets a clip that cannot be hashed go on without a name, and says why", () => {
    const seen: unknown[] = [];
    const onDebug = (message: string, cause: unknown) => seen.push(message, cause);
    const wrong: TensorInfo = { shape: [9, 1, 2, 3], dtype: "UINT8", metadata: VIDEO };
    expect(contentHashForStorage(bytes, wrong, { hashVideo: true, onDebug })).toBeNull();
    expect(contentHashForStorage(bytes, wrong, { hashVideo: true })).toBeNull();
    expect(seen).toEqual(["the clip gets no content hash", expect.objectContaining({ code: "shape_mismatch" })]);
  });

  test("does not hide that an image's shape is wrong", () => {
    const wrong: TensorInfo = { shape: [9, 9, 3], dtype: "UINT8", metadata: IMAGE };
    expectCode(() => contentHashForStorage(bytes, wrong, { hashVideo: false }), "shape_mismatch");
  });

  test("refuses misspelt options", () => {
    const misspelt = { hashVideo: true, onDebgu: () => {} };
    const error = expectCode(() => contentHashForStorage(bytes, info(VIDEO), misspelt), "invalid_options");
    expect(error.message).toContain("onDebgu");
  });
});

describe("sound", () => {
  const Audio = {
    ...{ sample_rate: 16_000, channels: 1, source_sample_rate: 44_100, source_channels: 2 },
    source_duration: 3,
  };
  const SOUND: MediaMetadata = { Audio, sample_rate: 16_000 };
  const bytes = new Uint8Array(new Float32Array([0, 0.5, -0.5, 1]).buffer);

  test("is hashed behind its tag, shape, type, metadata and length", () => {
    const text =
      '{"sample_rate":16000,"channels":1,"source_sample_rate":44100,"source_channels":2,"source_duration":3.0}';
    const u64 = (value: number): number[] => [...new Uint8Array(new BigUint64Array([BigInt(value)]).buffer)];
    const utf8 = (value: string): number[] => [...new TextEncoder().encode(value)];
    const expected = [
      ...[...u64(5), ...utf8("audio"), ...u64(2), ...u64(4), ...u64(1), 1],
      ...[...u64(text.length), ...utf8(text), ...u64(16)],
    ];
    expect([...audioHashHeader([4, 1], FLOAT32, Audio, 16)]).toEqual(expected);
    const info: TensorInfo = { shape: [4, 1], dtype: FLOAT32, metadata: SOUND };
    const hash = hashContiguous(Uint8Array.from([...expected, ...bytes]));
    expect(contentHashForStorage(bytes, info, { hashVideo: false })).toBe(hash);
  });

  test("has another name with other metadata, and none without bytes", () => {
    const info: TensorInfo = { shape: [4, 1], dtype: FLOAT32, metadata: SOUND };
    const other = { Audio: { ...Audio, source_duration: 3.5 }, sample_rate: 16_000 };
    expect(contentHashForStorage(bytes, { ...info, metadata: other }, { hashVideo: false })).not.toBe(
      contentHashForStorage(bytes, info, { hashVideo: false }),
    );
    expect(contentHashForStorage(new Uint8Array(), info, { hashVideo: false })).toBeNull();
    expectCode(() => audioHashHeader([0, 1], FLOAT32, Audio, 0), "payload_empty");
    expectCode(() => audioHashHeader([4, 1], FLOAT32, Audio, 12), "shape_mismatch");
  });
});

describe("isContentHash", () => {
  test.each(["7a9bbcb11a898630", "0000000000000000"])("takes %s", (text) => {
    expect(isContentHash(text)).toBe(true);
  });

  test.each([
    "7A9BBCB11A898630",
    "7a9bbcb11a89863",
    "7a9bbcb11a8986300",
    "0x9bbcb11a898630",
    "7a9bbcb11a898630\n",
    "",
    null,
    5,
  ])("refuses %p", (value) => {
    expect(isContentHash(value)).toBe(false);
  });
});
