import { describe, expect, test } from "bun:test";
import {
  descriptorMetadataSchema,
  IMAGE_FORMATS,
  imageMetadataSchema,
  isImageMetadata,
  isVideoMetadata,
  mediaMetadataSchema,
  metadataJson,
  tensorInfoSchema,
  videoMetadataJson,
  videoMetadataSchema,
} from "../../src/tensor/index.ts";
import hashes from "../vectors/hashes.json" with { type: "json" };
import { expectCode } from "./support.ts";

const CLIP = { source_fps: 24, source_duration: 10, sampled_timestamps: [0, 5] };
const CLIP_JSON = '{"source_fps":24.0,"source_duration":10.0,"sampled_timestamps":[0.0,5.0]}';
const IMAGE_JSON = '{"format":"Jpeg","color_type":"Rgb8","layout":"HWC"}';

function permutations<Item>(items: readonly Item[]): Item[][] {
  if (items.length <= 1) return [[...items]];
  return items.flatMap((item, index) =>
    permutations([...items.slice(0, index), ...items.slice(index + 1)]).map((rest) => [item, ...rest]),
  );
}

describe("canonical text of metadata", () => {
  test("of a clip equals the reference's", () => {
    const texts = hashes.flatMap((entry) => ("metadata_json" in entry ? [entry.metadata_json] : []));
    expect(texts.length).toBeGreaterThanOrEqual(5);
    for (const text of texts) {
      expect(videoMetadataJson(videoMetadataSchema.parse(JSON.parse(text)))).toBe(text);
    }
  });

  test("does not depend on the order in which the keys came", () => {
    const clipOrders = permutations(Object.entries(CLIP));
    expect(clipOrders).toHaveLength(6);
    for (const entries of clipOrders) {
      const unordered = Object.fromEntries(entries);
      expect(metadataJson(descriptorMetadataSchema.parse({ Video: unordered }))).toBe(`{"Video":${CLIP_JSON}}`);
      expect(videoMetadataJson(unordered as typeof CLIP)).toBe(CLIP_JSON);
      expect(Object.keys(videoMetadataSchema.parse(unordered))).toEqual(Object.keys(CLIP));
    }
    for (const entries of permutations(Object.entries(JSON.parse(IMAGE_JSON)))) {
      const image = { Image: Object.fromEntries(entries) };
      expect(metadataJson(descriptorMetadataSchema.parse(image))).toBe(`{"Image":${IMAGE_JSON}}`);
    }
  });

  test("of no metadata is null", () => {
    expect(metadataJson(null)).toBe("null");
  });

  test("is refused for a number that JSON cannot hold", () => {
    expectCode(() => videoMetadataJson({ ...CLIP, source_fps: Number.NaN }), "invalid_argument");
    expectCode(() => videoMetadataJson({ ...CLIP, sampled_timestamps: [0, 1 / 0] }), "invalid_argument");
  });
});

describe("metadata schemas", () => {
  test.each(IMAGE_FORMATS.map((format) => [format]))("take an image of format %s", (format) => {
    expect(imageMetadataSchema.parse({ format, color_type: "L8", layout: "HWC" }).format).toBe(format);
  });

  test.each([
    { format: "Svg", color_type: "Rgb8", layout: "HWC" },
    { format: "jpeg", color_type: "Rgb8", layout: "HWC" },
    { format: "Jpeg", color_type: "Rgb16", layout: "HWC" },
    { format: "Jpeg", color_type: "Rgb8", layout: "CHW" },
    { format: "Jpeg", color_type: "Rgb8" },
  ])("refuse %j as an image's", (image) => {
    expect(descriptorMetadataSchema.safeParse({ Image: image }).success).toBe(false);
  });

  test.each([
    { source_fps: "24", source_duration: 1, sampled_timestamps: [] },
    { source_fps: 24, source_duration: 1 / 0, sampled_timestamps: [] },
    { source_fps: 24, source_duration: 1, sampled_timestamps: [null] },
    { source_fps: 24, source_duration: 1 },
  ])("refuse %j as a clip's", (clip) => {
    expect(descriptorMetadataSchema.safeParse({ Video: clip }).success).toBe(false);
  });

  test("drop keys that they do not know, inside and beside the tag", () => {
    const parsed = descriptorMetadataSchema.parse({ note: 1, Video: { codec: "h264", ...CLIP } });
    expect(metadataJson(parsed)).toBe(`{"Video":${CLIP_JSON}}`);
  });

  test("refuse metadata that claim to be of two kinds", () => {
    const both = { Image: JSON.parse(IMAGE_JSON), Video: CLIP };
    expect(descriptorMetadataSchema.safeParse(both).success).toBe(false);
    expect(mediaMetadataSchema.safeParse(both).success).toBe(false);
  });

  test("keep metadata of a kind that is not known as they came", () => {
    const sound = { Audio: { sample_rate: 16000, channels: 1 }, sample_rate: 16000 };
    const parsed = descriptorMetadataSchema.parse(sound);
    expect(parsed).toEqual(sound);
    expect(isImageMetadata(parsed)).toBe(false);
    expect(isVideoMetadata(parsed)).toBe(false);
    expect(metadataJson(parsed)).toBe(JSON.stringify(sound));
  });

  test("keep an inherited name from passing for a kind", () => {
    const parsed = descriptorMetadataSchema.parse(JSON.parse('{"__proto__":{"Video":{}},"Audio":{}}'));
    expect(isVideoMetadata(parsed)).toBe(false);
    expect(isVideoMetadata({})).toBe(false);
  });

  test.each([["Audio"], [7], [[]]])("refuse %j, which is no object", (value) => {
    expect(descriptorMetadataSchema.safeParse(value).success).toBe(false);
  });

  test("of a tensor of our own know only images and clips", () => {
    const info = { shape: [1, 1, 3], dtype: "UINT8" };
    expect(tensorInfoSchema.safeParse({ ...info, metadata: null }).success).toBe(true);
    expect(tensorInfoSchema.safeParse({ ...info, metadata: { Video: CLIP } }).success).toBe(true);
    expect(tensorInfoSchema.safeParse({ ...info, metadata: { Audio: {} } }).success).toBe(false);
  });

  test("give values that cannot be changed afterwards", () => {
    const parsed = videoMetadataSchema.parse(CLIP);
    expect(Object.isFrozen(parsed)).toBe(true);
    expect(Object.isFrozen(parsed.sampled_timestamps)).toBe(true);
    expect(Object.isFrozen(CLIP.sampled_timestamps)).toBe(false);
  });
});
