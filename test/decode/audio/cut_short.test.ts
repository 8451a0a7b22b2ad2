import { describe, expect, test } from "bun:test";
import { isCutShort } from "../../../src/decode/audio/stated_end.ts";
import { sniffMedia } from "../../../src/decode/sniff.ts";
import { mediaBytes } from "../../support/media.ts";
import { refusal } from "../../support/refusal.ts";
import { indexOfText, madeClip } from "../video/clips.ts";
import { chunk, framesOf, id3Tag, id3v1, joined, noise, withoutLast, withVbri } from "./file_parts.ts";
import { decodeSound, pipedTone, tone, wavOf } from "./sounds.ts";

const OPUS = ["-c:a", "libopus"];
const SOUND_AND_PICTURES = [
  ...["-f", "lavfi", "-i", "testsrc=s=64x48:r=10:d=1.5"],
  ...["-f", "lavfi", "-i", "aevalsrc=exprs=0.5*sin(2*PI*1000*t):s=44100:d=1.5", "-shortest"],
];
const FRAGMENTS = ["-movflags", "frag_keyframe+empty_moov+default_base_moof", "-frag_duration", "200000"];

/** The identifier of the object behind the packets. */
const ASF_INDEX = "90080033b1e5cf1189f400a0c90349cb";

/** Where the sound ends: all of what it says, but for what stands behind it. */
const toItsEnd = (bytes: Uint8Array) => bytes.byteLength;
const upTo = (text: string) => (bytes: Uint8Array) => indexOfText(bytes, text) - 4;

/** Files that say how long they are. */
const STATED: readonly {
  name: string;
  make: () => Promise<Uint8Array>;
  soundEnd?: (bytes: Uint8Array) => number;
}[] = [
  { name: "WAV", make: () => tone("wav", 44_100) },
  { name: "WAV with an odd number of bytes", make: () => tone("wav", 8001, ["-c:a", "pcm_u8"], { seconds: 1 }) },
  { name: "WAV of ADPCM", make: () => tone("wav", 44_100, ["-c:a", "adpcm_ms"]) },
  { name: "RF64", make: () => tone("wav", 44_100, ["-rf64", "always"]) },
  { name: "AIFF", make: () => tone("aiff", 44_100) },
  { name: "CAF", make: () => tone("caf", 44_100) },
  { name: "CAF of ALAC", make: () => tone("caf", 44_100, ["-c:a", "alac"]) },
  { name: "FLAC", make: () => tone("flac", 44_100) },
  { name: "FLAC of silence", make: () => tone("flac", 44_100, [], { frequency: 0 }) },
  { name: "FLAC of few samples", make: () => tone("flac", 44_100, [], { seconds: 0.05 }) },
  { name: "FLAC behind an ID3 tag", make: async () => joined(id3Tag(300), await tone("flac", 44_100)) },
  { name: "MP3 with an Info header", make: () => tone("mp3", 44_100) },
  { name: "MP3 with a Xing header", make: () => tone("mp3", 16_000, ["-q:a", "4"], { channels: 2 }) },
  { name: "MP3 with a VBRI header", make: withVbri },
  { name: "Ogg Vorbis", make: () => tone("ogg", 44_100, ["-c:a", "libvorbis"]) },
  { name: "Ogg Opus", make: () => tone("opus", 48_000, OPUS) },
  { name: "Ogg FLAC", make: () => tone("oga", 44_100, ["-c:a", "flac"]) },
  { name: "Matroska", make: () => tone("mkv", 44_100, ["-c:a", "flac"]) },
  { name: "WebM", make: () => tone("webm", 48_000, OPUS) },
  { name: "AVI", make: () => tone("avi", 44_100, ["-c:a", "mp3"]), soundEnd: upTo("idx1") },
  { name: "ASF", make: () => tone("wma", 44_100, ["-c:a", "wmav2"]) },
  { name: "FLV", make: () => tone("flv", 44_100, ["-c:a", "aac"]) },
  // With its table of samples in front, as on the web.
  { name: "MPEG-4", make: () => tone("m4a", 44_100, ["-movflags", "+faststart"]) },
  { name: "MPEG-4 in fragments", make: () => tone("mp4", 44_100, FRAGMENTS), soundEnd: upTo("mfra") },
  { name: "a Matroska clip", make: () => madeClip("mkv", [...SOUND_AND_PICTURES, "-c:v", "mpeg4", "-c:a", "aac"]) },
  {
    name: "an AVI clip",
    make: () => madeClip("avi", [...SOUND_AND_PICTURES, "-c:v", "mpeg4", "-c:a", "mp3"]),
    soundEnd: upTo("idx1"),
  },
  { name: "an FLV clip", make: () => madeClip("flv", [...SOUND_AND_PICTURES, "-c:v", "flv", "-c:a", "aac"]) },
  {
    name: "an ASF clip",
    make: () => madeClip("asf", [...SOUND_AND_PICTURES, "-c:v", "mpeg4", "-c:a", "wmav2"]),
    soundEnd: (bytes) => Buffer.from(bytes).indexOf(ASF_INDEX, 0, "hex"),
  },
];

describe("a sound that is cut short, where the file says how long it is", () => {
  for (const { name, make, soundEnd = toItsEnd } of STATED) {
    test(name, async () => {
      const whole = await make();
      const length = (await decodeSound(whole)).samples.length;
      expect(length).toBeGreaterThan(500);
      const end = soundEnd(whole);
      for (const kept of [Math.floor(end * 0.6), end - 250, end - 60]) {
        const error = await refusal(decodeSound(whole.subarray(0, kept)));
        expect(error).toMatchObject({ code: "media_corrupt", status: 400 });
      }
      // To its end, and with something behind it: noise, zeros, a tag.
      for (const after of [noise(3000), new Uint8Array(700), id3v1()]) {
        const { samples } = await decodeSound(joined(whole.subarray(0, end), after));
        expect(Math.abs(samples.length - length)).toBeLessThan(0.1 * 16_000);
      }
    });
  }

  test.each([
    ["wav", []],
    ["flac", []],
    ["m4a", ["-movflags", "+faststart"]],
  ] as const)("however little of it is asked for: %s", async (extension, args) => {
    const whole = await tone(extension, 44_100, args);
    const cut = whole.subarray(0, Math.floor(whole.byteLength * 0.6));
    expect((await decodeSound(whole, { max_duration: 0.25 })).samples.length).toBe(4000);
    expect(await refusal(decodeSound(cut, { max_duration: 0.25 }))).toMatchObject({ code: "media_corrupt" });
  });
});

describe("a sound that does not say how long it is ends where it ends", () => {
  test.each([
    ["wav", []],
    ["caf", []],
    ["mp3", []],
    ["matroska", ["-c:a", "flac"]],
    ["webm", OPUS],
    ["avi", ["-c:a", "mp3"]],
    ["asf", ["-c:a", "wmav2"]],
    ["adts", ["-c:a", "aac"]],
    ["mpegts", ["-c:a", "aac"]],
    ["mpeg", ["-c:a", "mp2"]],
  ] as const)("%s that was written to a pipe", async (format, codec) => {
    const piped = pipedTone(format, codec);
    expect(Math.abs((await decodeSound(piped)).samples.length / 16_000 - 1.5)).toBeLessThan(0.1);
    const { samples } = await decodeSound(piped.subarray(0, Math.floor(piped.byteLength * 0.6)));
    expect(samples.length / 16_000).toBeWithin(0.5, 1.2);
  });

  test.each([
    ["flac", []],
    ["ogg", ["-c:a", "libvorbis"]],
    ["opus", OPUS],
    ["flv", ["-c:a", "aac"]],
  ] as const)("%s that was written to a pipe, whole", async (format, codec) => {
    const { samples } = await decodeSound(pipedTone(format, codec));
    expect(Math.abs(samples.length / 16_000 - 1.5)).toBeLessThan(0.1);
  });

  test("FLAC without a number of samples", async () => {
    const flac = (await tone("flac", 44_100)).slice();
    flac[21] = (flac[21] ?? 0) & 0xf0;
    flac.fill(0, 22, 26);
    const { samples } = await decodeSound(flac.subarray(0, Math.floor(flac.byteLength * 0.6)));
    expect(samples.length / 16_000).toBeWithin(0.5, 1.2);
  });

  test("Ogg without a mark on its last page", async () => {
    const ogg = await tone("ogg", 44_100, ["-c:a", "libvorbis"]);
    const last = Buffer.from(ogg).lastIndexOf("OggS");
    expect((ogg[last + 5] ?? 0) & 4).toBe(4);
    expect((await decodeSound(ogg.subarray(0, last))).samples.length).toBeGreaterThan(8000);
  });

  test.each([0, 0x7f000000, 0x7ffff000, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff])(
    "WAV with %p bytes of samples",
    async (dataBytes) => {
      const samples = Array(1000).fill(0.5);
      expect((await decodeSound(wavOf(samples, { dataBytes }))).samples.length).toBe(1000);
    },
  );

  test.each([0x7f000008, 0xffffffff])("AIFF with %p bytes of samples", async (size) => {
    const aiff = (await tone("aiff", 16_000)).slice();
    new DataView(aiff.buffer).setUint32(indexOfText(aiff, "SSND") + 4, size);
    expect((await decodeSound(aiff)).samples.length).toBe(24_000);
  });
});

describe("a whole file is taken", () => {
  const values = Array(1000).fill(0.5);

  test.each([
    ["with a tag behind the samples", id3Tag(100)],
    ["with a list behind the samples", chunk("LIST", Buffer.from("INFOISFT\x06\0\0\0tests\0", "latin1"))],
    ["with half a list behind the samples", chunk("LIST", Buffer.alloc(100)).subarray(0, 50)],
  ] as const)("WAV %s", async (_, behind) => {
    expect((await decodeSound(joined(wavOf(values), behind))).samples.length).toBe(1000);
  });

  test.each([0, 36, 4030, 4044, 10_000, 0xffffffff])("WAV whose outermost size is %p", async (size) => {
    const wav = wavOf(values);
    new DataView(wav.buffer).setUint32(4, size, true);
    expect((await decodeSound(wav)).samples.length).toBe(1000);
  });

  test("WAV that counts its header among the samples, but not one that lacks more", async () => {
    expect((await decodeSound(wavOf(values, { dataBytes: 4044 }))).samples.length).toBe(1000);
    expect(await refusal(decodeSound(wavOf(values, { dataBytes: 4048 })))).toMatchObject({ code: "media_corrupt" });
  });

  test.each([
    ["more bytes", 12, 5000],
    ["more frames", 8, 5],
  ])("MP3 whose header promises %s, but not both", async (_, field, more) => {
    const mp3 = (await tone("mp3", 44_100)).slice();
    const view = new DataView(mp3.buffer);
    const at = indexOfText(mp3, "Info") + field;
    view.setUint32(at, view.getUint32(at) + more);
    const { samples } = await decodeSound(mp3);
    expect(Math.abs(samples.length / 16_000 - 1.5)).toBeLessThan(0.1);
  });

  test("FLAC that is an excerpt of a longer one, or that promises less than there is", async () => {
    const flac = await tone("flac", 44_100);
    const frames = framesOf(flac);
    const [first = 0, second = 0] = frames;
    const excerpt = joined(flac.subarray(0, first), flac.subarray(second, frames.at(-2)));
    expect((await decodeSound(excerpt)).samples.length).toBeGreaterThan(10_000);
    const modest = flac.slice();
    new DataView(modest.buffer).setUint32(22, 1000);
    expect((await decodeSound(modest)).samples.length).toBe(24_000);
  });

  test.each(["tone.m4a", "tone.ogg", "tone16k.flac", "tone44k_mono.mp3", "tone48k_stereo.wav", "av.mp4"])(
    "%s",
    async (name) => {
      expect((await decodeSound(await mediaBytes(name))).samples.length).toBeGreaterThan(8000);
    },
  );
});

test("every beginning of a file is judged without an error", async () => {
  for (const { make } of STATED) {
    const whole = await make();
    const sniffed = sniffMedia(whole);
    if (sniffed.kind !== "container") throw new Error("no container");
    for (let length = 0; length < Math.min(whole.byteLength, 1500); length += 1) {
      expect(isCutShort(whole.subarray(0, length), sniffed.demuxer)).toBeBoolean();
    }
    expect(isCutShort(whole, sniffed.demuxer)).toBe(false);
  }
});

describe("MPEG-4 of which samples are missing, as only ffmpeg can tell", () => {
  test.each([3000, 250, 60])("%p bytes", async (missing) => {
    const cut = withoutLast(await tone("m4a", 44_100, ["-movflags", "+faststart"]), missing);
    expect(await refusal(decodeSound(cut))).toMatchObject({ code: "media_corrupt", status: 400 });
  });

  test("and what it says of it is lost behind all that the file says of itself", async () => {
    // A line each in ffmpeg's log, of the file and once more of the samples: how they are converted stands between.
    const book = "a\n".repeat(60_000);
    const tags = ["lyrics", "comment"].flatMap((tag) => ["-metadata", `${tag}=${book}`]);
    const whole = await tone("m4a", 44_100, ["-movflags", "+faststart", ...tags]);
    for (const bytes of [whole, withoutLast(whole, 3000)]) {
      expect(await refusal(decodeSound(bytes))).toMatchObject({ code: "media_unsupported", status: 400 });
    }
  });
});
