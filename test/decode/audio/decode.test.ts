import { describe, expect, test } from "bun:test";
import { audioOptionsSchema } from "../../../src/decode/audio/options.ts";
import { MediaError } from "../../../src/errors.ts";
import { contentHashForStorage, FLOAT32, taggedAudio } from "../../../src/tensor/index.ts";
import { mediaBytes } from "../../support/media.ts";
import { refusal } from "../../support/refusal.ts";
import { madeClip } from "../video/clips.ts";
import { type DecodedSound, decodeSound, loudest, spectralPeak, tone, wavOf } from "./sounds.ts";

const VORBIS = ["-c:a", "libvorbis"];
const OPUS = ["-c:a", "libopus"];
/** Files that hold a tone, and the sample rates that their codecs have. */
const FORMATS: readonly { name: string; extension: string; codec: string[]; rates: number[] }[] = [
  { name: "WAV", extension: "wav", codec: [], rates: [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000] },
  { name: "WAV of floats", extension: "wav", codec: ["-c:a", "pcm_f32le"], rates: [8000, 44_100] },
  { name: "WAV of 24 bits", extension: "wav", codec: ["-c:a", "pcm_s24le"], rates: [48_000] },
  { name: "FLAC", extension: "flac", codec: [], rates: [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000] },
  { name: "MP3", extension: "mp3", codec: [], rates: [8000, 11_025, 16_000, 22_050, 44_100, 48_000] },
  {
    name: "Ogg Vorbis",
    extension: "ogg",
    codec: VORBIS,
    rates: [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000],
  },
  { name: "Ogg Opus", extension: "opus", codec: OPUS, rates: [8000, 16_000, 24_000, 48_000] },
  { name: "MPEG-4 AAC", extension: "m4a", codec: [], rates: [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000] },
  // Nothing in the file says what of its first and last frame is sound.
  { name: "ADTS AAC", extension: "aac", codec: [], rates: [44_100] },
  { name: "WebM Opus", extension: "webm", codec: OPUS, rates: [16_000, 48_000] },
  { name: "Matroska FLAC", extension: "mkv", codec: ["-c:a", "flac"], rates: [44_100] },
  { name: "AIFF", extension: "aiff", codec: [], rates: [44_100] },
  { name: "CAF", extension: "caf", codec: [], rates: [44_100] },
  { name: "MPEG-TS", extension: "ts", codec: ["-c:a", "aac"], rates: [48_000] },
];

describe("a tone of 1 kHz comes out as one of 16 kHz, mono, as long as it was", () => {
  for (const { name, extension, codec, rates } of FORMATS) {
    test.each(rates)(`${name}, %p Hz`, async (rate) => {
      const decoded = await decodeSound(await tone(extension, rate, codec));
      const { tensor, metadata, samples } = decoded;
      expect(tensor).toMatchObject({ dtype: "FLOAT32", shape: [samples.length, 1], byteLength: samples.length * 4 });
      expect(metadata).toMatchObject({ sample_rate: 16_000, channels: 1, source_channels: 1 });
      expect(metadata.source_duration).toBe(samples.length / 16_000);
      expect(Math.abs(samples.length / 16_000 - 1.5)).toBeLessThan(0.06);
      const { bin, binHz } = spectralPeak(decoded);
      expect(Math.abs(bin - 1000 / binHz)).toBeLessThanOrEqual(1);
      // Half the full amplitude; encoders of AAC are off by up to 4 dB.
      expect(loudest(samples.subarray(4000, 20_000))).toBeWithin(0.4, 0.85);
      expect(loudest(samples)).toBeLessThanOrEqual(1);
    });
  }

  test.each(["tone.m4a", "tone.ogg", "tone16k.flac", "tone44k_mono.mp3", "tone48k_stereo.wav"])("%s", async (name) => {
    const decoded = await decodeSound(await mediaBytes(name));
    expect(Math.abs(decoded.samples.length / 16_000 - 1.5)).toBeLessThan(0.06);
    const { bin, binHz } = spectralPeak(decoded);
    expect(Math.abs(bin - 1000 / binHz)).toBeLessThanOrEqual(1);
  });

  test.each(["av.mp4", "av_faststart.mov", "audio_only.mp4"])("the sound of the clip %s", async (name) => {
    const { samples, metadata } = await decodeSound(await mediaBytes(name));
    expect(metadata.source_sample_rate).toBe(44_100);
    expect(loudest(samples)).toBeGreaterThan(0.05);
  });
});

describe("the source's format is told", () => {
  test.each([
    ["wav", [], 48_000, 2],
    ["flac", [], 44_100, 2],
    ["wav", [], 48_000, 6],
    ["wav", [], 48_000, 3],
  ] as const)("%s %p at %p Hz with %p channels", async (extension, codec, rate, channels) => {
    const { metadata } = await decodeSound(await tone(extension, rate, codec, { channels }));
    expect(metadata).toMatchObject({ source_sample_rate: rate, source_channels: channels });
  });
});

describe("channels", () => {
  test.each([
    ["16 bits", "pcm_s16le"],
    ["floats", "pcm_f32le"],
  ])("are mixed to their mean, of %s", async (_, codec) => {
    const both = await decodeSound(await tone("wav", 16_000, ["-c:a", codec], { channels: 2 }));
    expect(loudest(both.samples)).toBeCloseTo(0.5, 2);
    const left = await decodeSound(wavOf([1, 0, 1, 0, 1, 0, -1, 0], { channels: 2 }));
    expect([...left.samples]).toEqual([0.5, 0.5, 0.5, -0.5]);
  });

  test.each([
    [1, [0.5, 0.25]],
    [2, [1, 0, 0, 0.5]],
    [null, [1, 0, 0, 0.5]],
  ] as const)("are as asked for: %p", async (channels, expected) => {
    const { tensor, samples, metadata } = await decodeSound(wavOf([1, 0, 0, 0.5], { channels: 2 }), { channels });
    expect([...samples]).toEqual([...expected]);
    expect(tensor.shape).toEqual([2, metadata.channels]);
    expect(metadata).toMatchObject({ channels: channels ?? 2, source_channels: 2 });
  });

  test("may stay as many as there are", async () => {
    const six = await decodeSound(await tone("wav", 48_000, [], { channels: 6 }), { channels: null });
    expect(six.tensor.shape).toEqual([24_000, 6]);
    expect(six.samples.length).toBe(144_000);
  });

  test("of a mono source become two equal ones", async () => {
    const { samples } = await decodeSound(wavOf([0.5, -0.25]), { channels: 2 });
    for (const [index, expected] of [0.5, 0.5, -0.25, -0.25].entries()) expect(samples[index]).toBeCloseTo(expected, 6);
  });
});

describe("the sample rate", () => {
  test.each([8000, 22_050, 44_100, 48_000])("%p is converted to", async (sample_rate) => {
    const decoded = await decodeSound(await tone("flac", 44_100), { sample_rate });
    expect(Math.abs(decoded.samples.length / sample_rate - 1.5)).toBeLessThan(0.01);
    expect(decoded.metadata).toMatchObject({ sample_rate, source_sample_rate: 44_100 });
    expect(decoded.tensor.metadata).toMatchObject({ sample_rate });
    const { bin, binHz } = spectralPeak(decoded);
    expect(Math.abs(bin - 1000 / binHz)).toBeLessThanOrEqual(1);
  });

  test("may stay the source's", async () => {
    const { samples, metadata } = await decodeSound(await tone("flac", 11_025), { sample_rate: null });
    expect(metadata.sample_rate).toBe(11_025);
    expect(samples.length).toBe(Math.round(11_025 * 1.5));
  });
});

describe("the values", () => {
  test("are as they were where nothing is converted", async () => {
    const values = [0, 0.25, -0.5, 1, -1, 0.125];
    expect([...(await decodeSound(wavOf(values))).samples]).toEqual(values);
  });

  test("are never beyond 1, and what is no number is silence", async () => {
    const values = [2, -3, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, 1e30, 0.5];
    expect([...(await decodeSound(wavOf(values))).samples]).toEqual([1, -1, 1, -1, 0, 1, 0.5]);
  });

  test("have the name that the tensor's definition gives them", async () => {
    const { tensor, samples, metadata } = await decodeSound(await mediaBytes("tone16k.flac"));
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    const info = { shape: tensor.shape, dtype: FLOAT32, metadata: taggedAudio(metadata) };
    expect(tensor.contentHash).toBe(contentHashForStorage(bytes, info, { hashVideo: false }));
    expect(tensor.contentHash).toMatch(/^[0-9a-f]{16}$/);
  });
});

describe("the longest duration", () => {
  test.each([0.5, 1.25, 0.0625])("of %p s is kept to the sample", async (max_duration) => {
    const { samples, metadata } = await decodeSound(await tone("flac", 44_100), { max_duration });
    expect(samples.length).toBe(Math.round(max_duration * 16_000));
    expect(metadata.source_duration).toBe(1.5);
  });

  test("changes nothing of what is shorter", async () => {
    const whole = await decodeSound(await mediaBytes("tone.ogg"));
    const bounded = await decodeSound(await mediaBytes("tone.ogg"), { max_duration: 60 });
    expect(bounded.tensor).toEqual(whole.tensor);
  });

  test("decodes no more than that: what comes later may be as long as it likes", async () => {
    const minute = await tone("opus", 48_000, ["-c:a", "libopus", "-b:a", "6k"], { seconds: 60 });
    const { samples } = await decodeSound(minute, { max_duration: 2, limits: { max_alloc: 2 * 64_000 } });
    expect(samples.length).toBe(32_000);
  });
});

describe("the limit counts what is decoded", () => {
  test("of an hour of silence in a few kilobytes", async () => {
    const encoded = await tone("opus", 8000, ["-c:a", "libopus", "-b:a", "500"], { seconds: 300, frequency: 0 });
    expect(encoded.byteLength).toBeLessThan(300_000);
    const error = await refusal(decodeSound(encoded, { limits: { max_alloc: 1_000_000 } }));
    expect(error).toMatchObject({ code: "limit_exceeded", status: 400 });
  });

  test.each([
    ["a sample rate of 1 Hz, which makes 16 000 samples of each", { sampleRate: 1 }],
    ["a sample rate of 10 Hz", { sampleRate: 10 }],
  ])("whatever the header says: %s", async (_, header) => {
    const encoded = wavOf(Array(100_000).fill(0.5), header);
    const error = await refusal(decodeSound(encoded, { limits: { max_alloc: 10_000_000 } }));
    expect(error).toMatchObject({ code: "limit_exceeded", status: 400 });
  });

  test.each([
    ["four gigabytes of samples", { dataBytes: 0xffffffff }],
    ["no end, as what is written to a pipe has none", { dataBytes: 0xfffffff0 }],
  ])("and a header that promises %s gets what is there", async (_, header) => {
    const { samples } = await decodeSound(wavOf([0.5, 0.25], header), { limits: { max_alloc: 8 } });
    expect([...samples]).toEqual([0.5, 0.25]);
  });

  test("to the byte", async () => {
    const encoded = wavOf(Array(1000).fill(0.5));
    expect((await decodeSound(encoded, { limits: { max_alloc: 4000 } })).samples.length).toBe(1000);
    expect(await refusal(decodeSound(encoded, { limits: { max_alloc: 3999 } }))).toMatchObject({
      code: "limit_exceeded",
    });
  });
});

describe("what is no sound is refused with a code", () => {
  test.each([
    ["h264.mp4", "no_audio_stream"],
    ["vp9.webm", "no_audio_stream"],
    ["bad_audio.wav", "media_corrupt"],
    ["rgb.png", "media_unsupported"],
    ["bad_empty.png", "media_empty"],
    ["bad_text.jpg", "media_unsupported"],
    ["bad_playlist.mp4", "media_unsupported"],
    ["bad_concat.mp4", "media_unsupported"],
    ["bad_video_text.mp4", "media_unsupported"],
    ["bad_video_moov_missing.mp4", "media_corrupt"],
  ])("%s: %s", async (name, code) => {
    expect(await refusal(decodeSound(await mediaBytes(name)))).toMatchObject({ code, status: 400 });
  });

  test("a header without samples", async () => {
    expect(await refusal(decodeSound(wavOf([])))).toMatchObject({ code: "no_samples", status: 400 });
  });

  test.each([
    ["of another rate", ["-c:a", "libvorbis"], { rate: 48_000, channels: 1 }],
    ["of more channels", ["-c:a", "libvorbis"], { rate: 8000, channels: 2 }],
    ["of another codec", ["-c:a", "libopus"], { rate: 8000, channels: 1 }],
  ] as const)("Ogg files one behind the other, the second one %s", async (_, codec, { rate, channels }) => {
    const parts = [await tone("ogg", 8000, ["-c:a", "libvorbis"]), await tone("ogg", rate, codec, { channels })];
    const error = await refusal(decodeSound(new Uint8Array(Buffer.concat(parts))));
    expect(error).toMatchObject({ code: "media_unsupported", status: 400 });
  });

  test("a file whose rest cannot be read", async () => {
    const pictures = await madeClip("ogg", ["-f", "lavfi", "-i", "testsrc=s=64x48:d=1", "-c:v", "libvpx"]);
    const parts = [await tone("ogg", 8000, ["-c:a", "libvorbis"]), pictures];
    const error = await refusal(decodeSound(new Uint8Array(Buffer.concat(parts))));
    expect(error).toMatchObject({ code: "media_corrupt", status: 400 });
    expect(error.message).toContain("cannot be read to its end");
  });

  test("damage in the middle costs what it hits", async () => {
    const encoded = (await mediaBytes("tone44k_mono.mp3")).slice();
    encoded.fill(0, 5000, 6000);
    const { samples } = await decodeSound(encoded);
    expect(samples.length).toBeGreaterThan(12_000);
    expect(samples.length).toBeLessThanOrEqual(24_500);
  });

  test("no ffmpeg is the host's fault", async () => {
    const error = await refusal(decodeSound(await mediaBytes("tone.ogg"), {}, null));
    expect(error).toMatchObject({ code: "ffmpeg_unavailable", status: 500 });
  });
});

test("Ogg files of one format one behind the other are one sound", async () => {
  const opus = await tone("opus", 48_000, OPUS);
  const { samples } = await decodeSound(new Uint8Array(Buffer.concat([opus, opus])));
  expect(Math.abs(samples.length / 16_000 - 3)).toBeLessThan(0.06);
});

test("a sound of one sample, which needs no other rate", async () => {
  expect([...(await decodeSound(wavOf([0.5]))).samples]).toEqual([0.5]);
});

test("MP3 behind zeros", async () => {
  const encoded = await mediaBytes("tone44k_mono.mp3");
  const { samples } = await decodeSound(new Uint8Array(Buffer.concat([Buffer.alloc(512), encoded])));
  expect(Math.abs(samples.length / 16_000 - 1.5)).toBeLessThan(0.06);
});

describe("what a file says of itself", () => {
  test("is never taken for what ffmpeg says: neither lines that look like it, nor so much that its own are lost", async () => {
    const { tensor, metadata } = await decodeSound(await mediaBytes("forged_log.mkv"));
    expect(metadata).toMatchObject({ sample_rate: 16_000, channels: 1, source_sample_rate: 16_000 });
    expect(tensor.shape[1]).toBe(1);
  });

  test("may be a whole book", async () => {
    const lyrics = "a\n".repeat(50_000); // a line each in ffmpeg's log
    const encoded = await tone("mp3", 44_100, ["-metadata", `lyrics=${lyrics}`]);
    expect((await decodeSound(encoded)).samples.length).toBe(24_000);
  });

  test("may be no rate that sound has, and is refused before anything is converted", async () => {
    const encoded = wavOf(Array(4000).fill(0.5), { sampleRate: 192_000_001 });
    expect(await refusal(decodeSound(encoded))).toMatchObject({ code: "media_unsupported", status: 400 });
  });
});

describe("a format that changes midway", () => {
  const changing = async () => {
    const [mono, stereo] = [await tone("aac", 44_100), await tone("aac", 48_000, [], { channels: 2, seconds: 3 })];
    return new Uint8Array(Buffer.concat([mono, stereo]));
  };

  test("is converted throughout, and no more is taken than may be", async () => {
    const whole = await decodeSound(await changing());
    expect(Math.abs(whole.samples.length / 16_000 - 4.5)).toBeLessThan(0.2);
    const { samples } = await decodeSound(await changing(), { max_duration: 2 });
    expect(samples.length).toBe(32_000);
  });

  test("is what it was at first where it may stay as it is", async () => {
    const { samples, metadata } = await decodeSound(await changing(), { sample_rate: null, channels: null });
    expect(metadata).toMatchObject({ sample_rate: 44_100, channels: 1 });
    expect(Math.abs(samples.length / 44_100 - 4.5)).toBeLessThan(0.2);
  });

  test("is refused where mono would be louder than what follows it", async () => {
    const error = await refusal(decodeSound(await changing(), { channels: 2 }));
    expect(error).toMatchObject({ code: "media_unsupported", status: 400 });
  });
});

test("channels that nobody knows how to mix are refused, and can be kept", async () => {
  const encoded = await tone("wav", 16_000, [], { channels: 12, seconds: 0.5 });
  const mixed = await decodeSound(encoded).catch((error: unknown) => error);
  // 9.0 mixes them.
  if (mixed instanceof MediaError) expect(mixed).toMatchObject({ code: "media_unsupported", status: 400 });
  else expect((mixed as DecodedSound).tensor.shape).toEqual([8000, 1]);
  expect((await decodeSound(encoded, { channels: null })).tensor.shape).toEqual([8000, 12]);
});

describe("options", () => {
  test("have the defaults that workers expect", () => {
    expect(audioOptionsSchema.parse({})).toEqual({
      sample_rate: 16_000,
      channels: 1,
      limits: { max_alloc: 256 * 1024 * 1024 },
    });
  });

  test.each([
    { sampel_rate: 16_000 },
    { sample_rate: 0 },
    { sample_rate: 16_000.5 },
    { channels: 3 },
    { channels: "mono" },
    { max_duration: 0 },
    { max_duration: Number.POSITIVE_INFINITY },
    { limits: { max_allocation: 1 } },
  ])("are refused when they make no sense: %p", (options) => {
    expect(audioOptionsSchema.safeParse(options).success).toBe(false);
  });
});
