import { describe, expect, test } from "bun:test";
import { inspect } from "node:util";
import { z } from "zod";
import type { ErrorCode } from "../../src/errors.ts";
import {
  descriptorSchema,
  MEMORY_TYPES,
  MediaDescriptor,
  type MediaMetadata,
  type WireDescriptor,
} from "../../src/tensor/index.ts";
import media from "../vectors/media.json" with { type: "json" };
import { CountingLease, expectCode, indexBytes } from "./support.ts";

const SECRET = "b64:eJxLTEpOBgAEwAFj";
const IMAGE: MediaMetadata = { Image: { format: "Jpeg", color_type: "Rgb8", layout: "HWC" } };
const VIDEO: MediaMetadata = { Video: { source_fps: 24, source_duration: 10, sampled_timestamps: [0, 5] } };

const IMAGE_TEXT =
  `{"nixl_metadata":"${SECRET}","nixl_descriptor":{"addr":140737488355328,"size":6220800,"mem_type":"Dram","device_id":0},` +
  `"shape":[1080,1920,3],"dtype":"UINT8","metadata":{"Image":{"format":"Jpeg","color_type":"Rgb8","layout":"HWC"}},` +
  `"content_hash":"7a9bbcb11a898630"}`;
const VIDEO_TEXT =
  `{"nixl_metadata":"${SECRET}","nixl_descriptor":{"addr":4096,"size":12,"mem_type":"Dram","device_id":0},` +
  `"shape":[2,1,2,3],"dtype":"UINT8","metadata":{"Video":{"source_fps":24.0,"source_duration":10.0,` +
  `"sampled_timestamps":[0.0,5.0]}},"content_hash":"7e4b54c46acd410c"}`;

const clip = (changes: Partial<WireDescriptor> = {}): WireDescriptor => ({
  nixl_metadata: SECRET,
  nixl_descriptor: { addr: 4096, size: 12, mem_type: "Dram", device_id: 0 },
  shape: [2, 1, 2, 3],
  dtype: "UINT8",
  metadata: VIDEO,
  content_hash: "7e4b54c46acd410c",
  ...changes,
});

/** The clip's object with fields replaced by anything at all, as a stranger may send it. */
const strange = (changes: Record<string, unknown>) => ({ ...clip(), ...changes });

describe("wire form", () => {
  test("prints what was parsed, character for character", () => {
    for (const text of [IMAGE_TEXT, VIDEO_TEXT]) {
      expect(MediaDescriptor.parse(text).toWire()).toBe(text);
      expect(MediaDescriptor.parse(JSON.parse(text)).toWire()).toBe(text);
    }
  });

  test("prints floats as floats; JSON.stringify may drop their fraction but means the same", () => {
    const descriptor = new MediaDescriptor(clip());
    expect(descriptor.toWire()).toContain('"source_fps":24.0');
    expect(JSON.stringify(descriptor)).toBe(VIDEO_TEXT.replace(/(\d)\.0/g, "$1"));
    expect(JSON.parse(descriptor.toWire())).toEqual(JSON.parse(JSON.stringify(descriptor)));
  });

  test("leaves out a hash that is not there, and prints missing metadata as null", () => {
    const expected =
      `{"nixl_metadata":"${SECRET}","nixl_descriptor":{"addr":4096,"size":12,"mem_type":"Dram","device_id":0},` +
      `"shape":[2,1,2,3],"dtype":"UINT8","metadata":null}`;
    for (const content_hash of [null, undefined]) {
      const descriptor = new MediaDescriptor({ ...clip({ metadata: null }), content_hash });
      expect(descriptor.toWire()).toBe(expected);
      expect(JSON.stringify(descriptor)).toBe(expected);
    }
  });

  test("does not depend on the order of keys in the input", () => {
    const backwards = (value: unknown): unknown =>
      typeof value === "object" && value !== null && !Array.isArray(value)
        ? Object.fromEntries(
            Object.entries(value)
              .reverse()
              .map(([key, item]) => [key, backwards(item)]),
          )
        : value;
    for (const text of [IMAGE_TEXT, VIDEO_TEXT]) {
      const reversed = backwards(JSON.parse(text));
      expect(JSON.stringify(reversed)).not.toBe(JSON.stringify(JSON.parse(text)));
      expect(MediaDescriptor.parse(reversed).toWire()).toBe(text);
    }
  });

  test("holds the metadata of every clip and image of the reference unchanged", () => {
    const results = Object.values(media)
      .flatMap(({ kind, reference }) => (kind === "image" ? [reference] : Object.values(reference)))
      .filter(
        (result): result is { shape: number[]; metadata: MediaMetadata; content_hash: string } => "shape" in result,
      );
    expect(results.length).toBeGreaterThan(100);
    for (const { shape, metadata, content_hash } of results) {
      const size = shape.reduce((product, dimension) => product * dimension, 1);
      const nixl_descriptor = { addr: 4096, size, mem_type: "Dram", device_id: 0 } as const;
      const descriptor = new MediaDescriptor({ ...clip({ shape, metadata, content_hash, nixl_descriptor }) });
      const again = MediaDescriptor.parse(descriptor.toWire());
      expect(again.metadata).toEqual(metadata);
      expect(again.contentHash).toBe(content_hash);
      expect(again.toWire()).toBe(descriptor.toWire());
    }
  });

  test("cannot be changed through what the accessors give", () => {
    const shape = [2, 1, 2, 3];
    const descriptor = new MediaDescriptor(clip({ shape }));
    shape[0] = 7;
    const { nixl_descriptor } = descriptor.toJSON();
    (nixl_descriptor as { addr: number }).addr = 1;
    expect(() => (descriptor.shape as number[]).push(1)).toThrow(TypeError);
    expect(() => {
      (descriptor.nixlDescriptor as { addr: number }).addr = 1;
    }).toThrow(TypeError);
    expect(descriptor.toWire()).toBe(VIDEO_TEXT);
  });
});

describe("parsing", () => {
  test("ignores keys that it does not know", () => {
    const text = VIDEO_TEXT.replace("{", '{"release_key":"x",').replace('"addr"', '"rail":3,"addr"');
    expect(MediaDescriptor.parse(text).toWire()).toBe(VIDEO_TEXT);
  });

  test("reads a descriptor without the key metadata as one that has none", () => {
    const { metadata: _, ...rest } = clip();
    expect(MediaDescriptor.parse(rest).metadata).toBeNull();
  });

  const unreadable = [
    "7E4B54C46ACD410C",
    "7e4b54c46acd410",
    "7e4b54c46acd410c0",
    "",
    "xyz",
    null,
    17,
    ["7e4b54c46acd410c"],
  ];
  test.each(unreadable.map((content_hash) => ({ content_hash })))(
    "takes the content hash of %j for none, and the medium all the same",
    (changes) => {
      const descriptor = MediaDescriptor.parse(strange(changes));
      expect(descriptor.contentHash).toBeNull();
      expect(descriptor.contentHash64).toBeNull();
      expect(descriptor.toWire()).not.toContain("content_hash");
      expect(descriptor.shape).toEqual([2, 1, 2, 3]);
    },
  );

  test.each(MEMORY_TYPES.map((name, number) => [name, number] as const))(
    "knows memory type %s, number %d",
    (name, number) => {
      const nixl_descriptor = { ...clip().nixl_descriptor, mem_type: name };
      expect(MediaDescriptor.parse(strange({ nixl_descriptor })).nixlDescriptor.mem_type).toBe(name);
      expect(["Dram", "Vram", "Block", "Object", "File", "Unknown"][number]).toBe(name);
    },
  );

  test("reads the largest address that JSON keeps exact and refuses any that it rounds", () => {
    const withAddress = (addr: string) => VIDEO_TEXT.replace('"addr":4096', `"addr":${addr}`);
    expect(MediaDescriptor.parse(withAddress("9007199254740991")).nixlDescriptor.addr).toBe(2 ** 53 - 1);
    // 2^53 + 1 is read as 2^53, silently; neither may pass.
    for (const addr of [
      "9007199254740992",
      "9007199254740993",
      "18446744073709551615",
      "1e300",
      "-1",
      "1.5",
      '"4096"',
    ]) {
      const error = expectCode(() => MediaDescriptor.parse(withAddress(addr)), "descriptor_invalid");
      expect(error.message).toContain("nixl_descriptor.addr");
    }
  });

  const wrong: [string, Record<string, unknown>, string][] = [
    ["no agent metadata", { nixl_metadata: undefined }, "nixl_metadata"],
    ["empty agent metadata", { nixl_metadata: "" }, "nixl_metadata"],
    ["no address", { nixl_descriptor: {} }, "nixl_descriptor.addr"],
    [
      "a size of zero",
      { shape: [0, 1, 2, 3], nixl_descriptor: { ...clip().nixl_descriptor, size: 0 } },
      "nixl_descriptor.size",
    ],
    [
      "a size that is not the shape's",
      { nixl_descriptor: { ...clip().nixl_descriptor, size: 13 } },
      "nixl_descriptor.size",
    ],
    ["a size that is not the element type's", { dtype: "FLOAT32" }, "nixl_descriptor.size"],
    [
      "a memory type in small letters",
      { nixl_descriptor: { ...clip().nixl_descriptor, mem_type: "dram" } },
      "mem_type",
    ],
    ["a negative device", { nixl_descriptor: { ...clip().nixl_descriptor, device_id: -1 } }, "device_id"],
    ["a negative dimension", { shape: [2, -1, 2, 3] }, "shape.1"],
    ["a broken dimension", { shape: [2, 1.5, 2, 3] }, "shape.1"],
    ["a shape that overflows", { shape: [2 ** 40, 2 ** 40] }, "nixl_descriptor.size"],
    ["an element type in small letters", { dtype: "uint8" }, "dtype"],
    [
      "a clip's metadata without times",
      { metadata: { Video: { source_fps: 1, source_duration: 1 } } },
      "sampled_timestamps",
    ],
    [
      "an image format that is none",
      { metadata: { Image: { ...IMAGE.Image, format: "Svg" } } },
      "metadata.Image.format",
    ],
    ["metadata that are a name", { metadata: "Image" }, "metadata"],
  ];
  test.each(wrong)("refuses %s", (_, changes, field) => {
    const error = expectCode(() => MediaDescriptor.parse(strange(changes)), "descriptor_invalid");
    expect(error.message).toContain(field);
    expect(error.status).toBe(400);
  });

  test.each(["", "{", "null", "[]", "7", '"text"', `${VIDEO_TEXT}${VIDEO_TEXT}`])("refuses the text %j", (text) => {
    expectCode(() => MediaDescriptor.parse(text), "descriptor_invalid");
  });

  test("refuses values that are neither text nor an object of this form", () => {
    for (const value of [null, undefined, 7, [], {}, new Uint8Array(3), () => clip()]) {
      expectCode(() => MediaDescriptor.parse(value), "descriptor_invalid");
    }
  });

  test("an error never repeats what was parsed", () => {
    const texts = [
      SECRET,
      `{"nixl_metadata":"${SECRET}`,
      `{"nixl_metadata":${SECRET}}`,
      VIDEO_TEXT.replace("4096", "-1"),
    ];
    for (const text of texts) {
      const error = expectCode(() => MediaDescriptor.parse(text), "descriptor_invalid");
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(SECRET);
      expect(error.cause).toBeUndefined();
    }
    const misplaced = strange({ dtype: SECRET, metadata: { Image: { ...IMAGE.Image, layout: SECRET } } });
    expect(expectCode(() => MediaDescriptor.parse(misplaced), "descriptor_invalid").message).not.toContain(SECRET);
  });

  test("the same checks stand in front of a descriptor of our own", () => {
    const nixl_descriptor = { ...clip().nixl_descriptor, addr: 2 ** 53 };
    expectCode(() => new MediaDescriptor(clip({ nixl_descriptor })), "descriptor_invalid");
  });

  test("the schema documents every field as a JSON schema", () => {
    const schema = z.toJSONSchema(descriptorSchema, { io: "input" });
    expect(Object.keys(schema.properties ?? {})).toEqual([
      "nixl_metadata",
      "nixl_descriptor",
      "shape",
      "dtype",
      "metadata",
      "content_hash",
      "release_key",
    ]);
    expect(schema.required).toEqual(["nixl_metadata", "nixl_descriptor", "shape", "dtype"]);
    for (const property of Object.values(schema.properties ?? {})) {
      expect(property).toHaveProperty("description");
    }
  });
});

describe("accessors", () => {
  test("give the hash as text and as a 64-bit number", () => {
    const descriptor = new MediaDescriptor(clip({ content_hash: "fe4b54c46acd410c" }));
    expect(descriptor.contentHash).toBe("fe4b54c46acd410c");
    expect(descriptor.contentHash64).toBe(0xfe4b54c46acd410cn);
    expect(new MediaDescriptor(clip({ content_hash: "0000000000000001" })).contentHash64).toBe(1n);
  });

  test("give the parts", () => {
    const descriptor = MediaDescriptor.parse(IMAGE_TEXT);
    expect(descriptor.nixlMetadata).toBe(SECRET);
    expect(descriptor.nixlDescriptor).toEqual({ addr: 140737488355328, size: 6220800, mem_type: "Dram", device_id: 0 });
    expect(descriptor.shape).toEqual([1080, 1920, 3]);
    expect(descriptor.dtype).toBe("UINT8");
    expect(descriptor.byteLength).toBe(6220800);
    expect(descriptor.metadata).toEqual(IMAGE);
  });

  test("give a clip's metadata and hash", () => {
    const descriptor = MediaDescriptor.parse(VIDEO_TEXT);
    expect(descriptor.videoMetadata).toEqual({ source_fps: 24, source_duration: 10, sampled_timestamps: [0, 5] });
    expect(descriptor.videoContentHash).toBe("7e4b54c46acd410c");
  });

  const faults: [ErrorCode, Record<string, unknown>][] = [
    ["metadata_missing", { metadata: null }],
    ["metadata_kind_mismatch", { metadata: IMAGE }],
    ["metadata_kind_mismatch", { metadata: { Audio: { sample_rate: 16000 }, sample_rate: 16000 } }],
  ];
  test.each(faults)("say %s of %j, with and without a hash", (code, changes) => {
    for (const content_hash of ["7e4b54c46acd410c", undefined]) {
      const descriptor = MediaDescriptor.parse(strange({ ...changes, content_hash }));
      expectCode(() => descriptor.videoMetadata, code);
      expectCode(() => descriptor.videoContentHash, code);
    }
  });

  test("say that a clip's hash is missing only when it is a clip", () => {
    expectCode(
      () => MediaDescriptor.parse(strange({ content_hash: undefined })).videoContentHash,
      "content_hash_missing",
    );
  });

  test("read a descriptor of sound, and print it again", () => {
    const sound = { Audio: { sample_rate: 16000, channels: 1 }, sample_rate: 16000 };
    const nixl_descriptor = { ...clip().nixl_descriptor, size: 64000 };
    const wire = strange({ shape: [16000, 1], dtype: "FLOAT32", metadata: sound, nixl_descriptor });
    const descriptor = MediaDescriptor.parse(wire);
    expect(descriptor.metadata).toEqual(sound);
    expect(JSON.parse(descriptor.toWire())).toEqual(wire);
  });
});

describe("local payload", () => {
  test("is the lease's memory until it is given back", () => {
    const lease = new CountingLease(indexBytes(12));
    const descriptor = new MediaDescriptor(clip(), lease);
    expect(descriptor.localPayload).toBe(lease.bytes);
    expect(descriptor.videoDimensions()).toEqual({ frames: 2, width: 2, height: 1 });
    descriptor.dispose();
    expect(lease.disposals).toBe(1);
    expect(descriptor.localPayload).toBeNull();
    expectCode(() => descriptor.videoDimensions(), "local_payload_missing");
    descriptor.dispose();
    expect(lease.disposals).toBe(1);
    expect(descriptor.toWire()).toBe(VIDEO_TEXT);
  });

  test("is given back at the end of a using block", () => {
    const lease = new CountingLease(indexBytes(12));
    {
      using descriptor = new MediaDescriptor(clip(), lease);
      expect(descriptor.localPayload).not.toBeNull();
    }
    expect(lease.disposals).toBe(1);
  });

  test("is gone when the lease was ended by whoever gave it out", () => {
    const lease = new CountingLease(indexBytes(12));
    const descriptor = new MediaDescriptor(clip(), lease);
    lease.dispose();
    expect(descriptor.localPayload).toBeNull();
    expectCode(() => descriptor.videoDimensions(), "local_payload_missing");
  });

  test("is not there in a parsed descriptor, which can be disposed without effect", () => {
    const original = new MediaDescriptor(clip(), new CountingLease(indexBytes(12)));
    const parsed = MediaDescriptor.parse(JSON.stringify(original));
    expect(parsed.localPayload).toBeNull();
    expectCode(() => parsed.videoDimensions(), "local_payload_missing");
    parsed.dispose();
    expect(original.localPayload).not.toBeNull();
  });

  test("is never serialized", () => {
    const descriptor = new MediaDescriptor(clip(), new CountingLease(indexBytes(12)));
    expect(descriptor.toWire()).toBe(VIDEO_TEXT);
    expect(JSON.parse(JSON.stringify(descriptor))).toEqual(JSON.parse(VIDEO_TEXT));
    expect(Object.keys(descriptor)).toEqual([]);
  });

  test("is checked against the shape; a missing payload comes before any other fault", () => {
    const short = new MediaDescriptor(clip(), new CountingLease(indexBytes(11)));
    expectCode(() => short.videoDimensions(), "video_byte_length_mismatch");
    const image = clip({ shape: [2, 2, 3], metadata: IMAGE });
    expectCode(
      () => new MediaDescriptor(image, new CountingLease(indexBytes(12))).videoDimensions(),
      "video_rank_invalid",
    );
    expectCode(() => new MediaDescriptor(image).videoDimensions(), "local_payload_missing");
  });
});

describe("logs", () => {
  test("show what the tensor is and never the secret", () => {
    const descriptor = new MediaDescriptor(clip(), new CountingLease(indexBytes(12)));
    const shown = [
      String(descriptor),
      `${descriptor}`,
      inspect(descriptor),
      inspect({ nested: [descriptor] }, { depth: 9, showHidden: true }),
      inspect(descriptor, { customInspect: false, showHidden: true, getters: false, depth: 9 }),
      Bun.inspect(descriptor),
      Bun.inspect({ nested: [descriptor] }),
    ];
    for (const text of shown) expect(text).not.toContain(SECRET.slice(4));
    expect(String(descriptor)).toBe("MediaDescriptor(UINT8 [2,1,2,3], content_hash 7e4b54c46acd410c)");
    expect(Bun.inspect(descriptor)).toContain("MediaDescriptor(UINT8 [2,1,2,3]");
    expect(String(new MediaDescriptor({ ...clip(), content_hash: null }))).toContain("content_hash none");
  });
});
