/** Clips in which what is left out would have a say, or which cost more to plan than they are worth. */
import { describe, expect, test } from "bun:test";
import { SealedInput } from "../../../src/decode/ffmpeg/sealed_input.ts";
import { runPlan } from "../../../src/decode/video/clip_decoding.ts";
import { readSampleIndex, type SampleIndex } from "../../../src/decode/video/sample_index.ts";
import { boxOf, ffmpegPath, indexOfText, madeClip, replaceBox, SAMPLE_TABLE } from "./clips.ts";
import { decodePlanned, planOf, requestOf } from "./plans.ts";

const SOURCE = ["-f", "lavfi", "-i", "testsrc2=s=128x96:r=25", "-frames:v", "150"];
/** Groups of 40 and of 30 pictures. */
const H264 = [...SOURCE, "-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-g", "40", "-sc_threshold", "0"];
const X265 = "log-level=error:keyint=30:min-keyint=30:scenecut=0:open-gop=1:bframes=4:b-adapt=0";
const H265 = [...SOURCE, "-c:v", "libx265", "-preset", "ultrafast", "-tag:v", "hvc1", "-x265-params", X265];
const PRORES = [...SOURCE, "-frames:v", "12", "-c:v", "prores"];
/** Wanted are the first picture and the last one, so that groups between are left out. */
const OPTIONS = { num_frames: 2 };

function sampleIndex(clip: Uint8Array): SampleIndex {
  const index = readSampleIndex(clip, 0, 12_800);
  if (!index) throw new Error("the clip has no sample index");
  return index;
}

/** A clip with a NAL unit more at the beginning of a sample, or at its end. */
function withUnit(clip: Uint8Array, sample: number, place: "front" | "end", unit: Uint8Array): Buffer {
  const { offsets, sizes } = sampleIndex(clip);
  const [start, size] = [offsets[sample] ?? 0, sizes[sample] ?? 0];
  const at = place === "front" ? start : start + size;
  const length = Buffer.alloc(4);
  length.writeUInt32BE(unit.byteLength);
  const added = 4 + unit.byteLength;
  const longer = Buffer.concat([clip.subarray(0, at), length, unit, clip.subarray(at)]);
  const media = indexOfText(longer, "mdat") - 4;
  longer.writeUInt32BE(longer.readUInt32BE(media) + added, media);
  const sized = replaceBox(longer, [...SAMPLE_TABLE, "stsz"], (box) => {
    box.writeUInt32BE(size + added, 20 + sample * 4);
    return [box];
  });
  return replaceBox(sized, [...SAMPLE_TABLE, "stco"], (box) => {
    for (let entry = 16; entry < box.byteLength; entry += 4) {
      const offset = box.readUInt32BE(entry);
      if (offset > start) box.writeUInt32BE(offset + added, entry);
    }
    return [box];
  });
}

/** The picture parameter set of an H.264 clip's record: the one behind the only sequence parameter set. */
function pictureSet(clip: Uint8Array): Buffer {
  const record = Buffer.from(clip.subarray(indexOfText(clip, "avcC") + 4));
  const at = 8 + record.readUInt16BE(6) + 1;
  return Buffer.from(record.subarray(at + 2, at + 2 + record.readUInt16BE(at)));
}

/** A set of the same identifier that says something else at its end. */
function otherwise(set: Uint8Array): Buffer {
  const other = Buffer.from(set);
  other[other.byteLength - 1] = (other.at(-1) ?? 0) ^ 0x40;
  return other;
}

describe("parameter sets in a sample that is left out", () => {
  test("those in force change nothing", async () => {
    const clip = await madeClip("mp4", H264);
    expect(await planOf(withUnit(clip, 60, "front", pictureSet(clip)), OPTIONS)).not.toBeNull();
  });

  test.each(["avc1", "avc3"])("others with an identifier in force: no plan (%s)", async (type) => {
    const clip = await madeClip("mp4", H264);
    const changed = withUnit(clip, 60, "front", otherwise(pictureSet(clip)));
    changed.write(type, changed.indexOf("avc1", changed.indexOf("stsd")));
    expect(await planOf(changed, OPTIONS)).toBeNull();
  });

  test("H.265: the same", async () => {
    const clip = await madeClip("mp4", H265);
    const set = pictureSetH265(clip);
    expect(await planOf(withUnit(clip, 45, "front", set), OPTIONS)).not.toBeNull();
    expect(await planOf(withUnit(clip, 45, "front", otherwise(set)), OPTIONS)).toBeNull();
  });
});

/** Where the array of picture parameter sets stands in an `hvcC` box with its header; it has one. */
function pictureSetArray(box: Buffer): number {
  let at = 8 + 23;
  while ((box.readUInt8(at) & 63) !== 34) {
    const count = box.readUInt16BE(at + 1);
    at += 3;
    for (let unit = 0; unit < count; unit += 1) at += 2 + box.readUInt16BE(at);
  }
  return at;
}

function pictureSetH265(clip: Uint8Array): Buffer {
  const box = Buffer.from(clip.subarray(indexOfText(clip, "hvcC") - 4));
  const at = pictureSetArray(box) + 3;
  return Buffer.from(box.subarray(at + 2, at + 2 + box.readUInt16BE(at)));
}

describe("a record with two sets of one identifier: no plan", () => {
  test("H.264", async () => {
    const clip = await madeClip("mp4", H264);
    const set = otherwise(pictureSet(clip));
    const changed = replaceBox(clip, [...SAMPLE_TABLE, "stsd", "avc1", "avcC"], (box) => {
      const at = 8 + 8 + box.readUInt16BE(8 + 6);
      const longer = Buffer.concat([
        ...[box.subarray(0, at), Buffer.from([2, 0, set.byteLength]), set],
        box.subarray(at + 1),
      ]);
      longer.writeUInt32BE(longer.byteLength);
      return [longer];
    });
    expect(await planOf(changed, OPTIONS)).toBeNull();
  });

  test("H.265", async () => {
    const clip = await madeClip("mp4", H265);
    const set = otherwise(pictureSetH265(clip));
    const changed = replaceBox(clip, [...SAMPLE_TABLE, "stsd", "hvc1", "hvcC"], (box) => {
      const at = pictureSetArray(box);
      box.writeUInt16BE(2, at + 1);
      const front = Buffer.concat([box.subarray(0, at + 3), Buffer.from([0, set.byteLength]), set]);
      const longer = Buffer.concat([front, box.subarray(at + 3)]);
      longer.writeUInt32BE(longer.byteLength);
      return [longer];
    });
    expect(await planOf(changed, OPTIONS)).toBeNull();
  });
});

describe("an end in front of an access point: no plan", () => {
  test("H.265: of the sequence, and of the bitstream", async () => {
    const clip = await madeClip("mp4", H265);
    const accessPoint = sampleIndex(clip).sync.indexOf(1, 31);
    expect(await planOf(clip, OPTIONS)).not.toBeNull();
    for (const type of [36, 37]) {
      const changed = withUnit(clip, accessPoint - 1, "end", Uint8Array.of(type << 1, 1));
      expect(await planOf(changed, OPTIONS)).toBeNull();
    }
  });

  test("H.264: of the sequence", async () => {
    const clip = await madeClip("mp4", H264);
    expect(await planOf(withUnit(clip, 79, "end", Uint8Array.of(10)), OPTIONS)).toBeNull();
  });
});

describe("no plan for", () => {
  test("samples that overlap: they would be more bytes than the clip", async () => {
    const clip = await madeClip("mov", PRORES);
    expect(await planOf(clip, OPTIONS)).not.toBeNull();
    const { count, offsets } = sampleIndex(clip);
    const size = Math.floor(clip.byteLength / 4);
    const allAtFirst = Array.from({ length: count }, () => offsets[0] ?? 0);
    const withSizes = (bytes: number): Uint8Array => {
      const tables = [
        boxOf("stsz", [0, 0, count, ...allAtFirst.map(() => bytes)]),
        boxOf("stsc", [0, 1, 1, 1, 1]),
        boxOf("stco", [0, count, ...allAtFirst]),
      ];
      return tables.reduce<Uint8Array>(
        (changed, table) => replaceBox(changed, [...SAMPLE_TABLE, table.toString("latin1", 4, 8)], () => [table]),
        clip,
      );
    };
    expect(await planOf(withSizes(Math.floor(clip.byteLength / count)), OPTIONS)).not.toBeNull();
    expect(await planOf(withSizes(size), OPTIONS)).toBeNull();
  });

  test.each([
    ["a second edit list", ["moov", "trak", "edts"], (box: Buffer) => [box, box]],
    ["a second table of samples", ["moov", "trak", "mdia", "minf", "stbl"], (box: Buffer) => [box, box]],
    [
      "times outside of their table",
      [...SAMPLE_TABLE],
      (box: Buffer) => [box, Buffer.from([0, 0, 0, 16, ...Buffer.from("stts"), 0, 0, 0, 0, 0, 0, 0, 0])],
    ],
  ] as const)("%s, of which libavformat may take another", async (_, path, change) => {
    const clip = await madeClip("mp4", H264);
    expect(await planOf(clip, OPTIONS)).not.toBeNull();
    expect(
      await planOf(
        replaceBox(clip, [...path], (box) => [...change(box)]),
        OPTIONS,
      ),
    ).toBeNull();
  });

  test("groups of random access points", async () => {
    const group = boxOf("sbgp", [0, Buffer.from("rap ").readUInt32BE(), 1, 150, 1]);
    const clip = await madeClip("mp4", H264);
    expect(
      await planOf(
        replaceBox(clip, [...SAMPLE_TABLE, "stsz"], (box) => [box, group]),
        OPTIONS,
      ),
    ).toBeNull();
  });

  test("another configuration beside the codec's own", async () => {
    const clip = await madeClip("mp4", H264);
    const path = [...SAMPLE_TABLE, "stsd", "avc1", "avcC"];
    expect(
      await planOf(
        replaceBox(clip, path, (box) => [box, boxOf("pasp", [1, 1])]),
        OPTIONS,
      ),
    ).not.toBeNull();
    expect(
      await planOf(
        replaceBox(clip, path, (box) => [box, boxOf("esds", [0, 0])]),
        OPTIONS,
      ),
    ).toBeNull();
    expect(
      await planOf(
        replaceBox(clip, path, (box) => [box, box]),
        OPTIONS,
      ),
    ).toBeNull();
  });
});

describe("a plan that fails", () => {
  test("a description that would fill the log: nothing is decoded as planned", async () => {
    const clip = await madeClip("mp4", H264);
    const long = replaceBox(clip, ["moov", "trak", "mdia", "hdlr"], (box) => {
      const longer = Buffer.concat([box.subarray(0, -1), Buffer.alloc(20_000, "x"), Buffer.alloc(1)]);
      longer.writeUInt32BE(longer.byteLength);
      return [longer];
    });
    const [plan, request] = [await planOf(long, OPTIONS), await requestOf(long, OPTIONS)];
    if (!plan) throw new Error("the clip has no plan");
    expect(await decodePlanned(long, request, plan)).toBeNull();
  });

  test("an exception while the samples are copied is no failure of the clip", async () => {
    const clip = await madeClip("mp4", H265);
    const [plan, request] = [await planOf(clip, { num_frames: 3 }), await requestOf(clip, { num_frames: 3 })];
    if (!plan) throw new Error("the clip has no plan");
    expect(plan.parts.some(({ stretches }) => stretches.some(({ isBroken }) => isBroken))).toBe(true);
    const breakLink = (): never => {
      throw new RangeError("out of memory");
    };
    const failing = { ...plan, codec: { ...plan.codec, breakLink } };
    expect(await decodePlanned(clip, request, failing)).toBeNull();
  });

  test("in one part ends the others", async () => {
    const clip = await madeClip("mp4", [...H264, "-g", "10"]);
    const [plan, request] = [await planOf(clip, { num_frames: 30 }, 2), await requestOf(clip, { num_frames: 30 })];
    const [first, second] = plan?.parts ?? [];
    if (!plan || !first || !second) throw new Error("the clip has no plan of two parts");
    const empty = { ...second, stretches: [] };
    using input = new SealedInput(clip);
    const into = new Uint8Array(30 * 128 * 96 * 3);
    expect(await runPlan(ffmpegPath, input, request, { ...plan, parts: [first, empty] }, 2, into)).toBeNull();
    // The other one has not come as far as its first frame.
    expect(into.every((byte) => byte === 0)).toBe(true);
  });
});
