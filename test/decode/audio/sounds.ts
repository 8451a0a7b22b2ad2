/** Sounds for tests: decoding into ordinary memory, tones made on the spot, and what is heard in a tensor. */
import { decodeAudio } from "../../../src/decode/audio/decode.ts";
import { type AudioOptions, audioOptionsSchema } from "../../../src/decode/audio/options.ts";
import type { DecodedTensor } from "../../../src/decode/contract.ts";
import { type AudioMetadata, isAudioMetadata } from "../../../src/tensor/index.ts";
import { roomContext } from "../../support/rooms.ts";
import { ffmpegPath, madeClip } from "../video/clips.ts";

export interface DecodedSound {
  readonly tensor: DecodedTensor;
  readonly metadata: AudioMetadata;
  /** Channels interleaved. */
  readonly samples: Float32Array;
  /** Rooms that were asked for. */
  readonly rooms: number;
}

export async function decodeSound(
  encoded: Uint8Array,
  options: AudioOptions = {},
  program: string | null = ffmpegPath,
): Promise<DecodedSound> {
  const { context, rooms } = roomContext();
  const tensor = await decodeAudio(encoded, audioOptionsSchema.parse(options), { ...context, ffmpegPath: program });
  const room = rooms.at(-1);
  if (!room || !isAudioMetadata(tensor.metadata)) throw new Error("decoded to what is no sound");
  const { buffer, byteOffset } = room.payload;
  const samples = new Float32Array(buffer, byteOffset, tensor.byteLength / 4);
  return { tensor, metadata: tensor.metadata.Audio, samples, rooms: rooms.length };
}

/** A sine of half the full amplitude, 1.5 s unless said otherwise, the same on all channels. */
export function tone(
  extension: string,
  sampleRate: number,
  codec: readonly string[] = [],
  { channels = 1, seconds = 1.5, frequency = 1000 } = {},
): Promise<Uint8Array> {
  const sine = `0.5*sin(2*PI*${frequency}*t)`;
  const source = `aevalsrc=exprs=${Array(channels).fill(sine).join("|")}:s=${sampleRate}:d=${seconds}`;
  return madeClip(extension, ["-f", "lavfi", "-i", source, ...codec]);
}

/** A sound as ffmpeg writes it to a pipe, where it cannot go back to say how long it became. */
export function pipedTone(format: string, codec: readonly string[] = []): Uint8Array {
  const source = "aevalsrc=exprs=0.5*sin(2*PI*1000*t):s=48000:d=1.5";
  const args = ["-v", "error", "-nostdin", "-f", "lavfi", "-i", source, ...codec, "-f", format, "pipe:1"];
  const { exitCode, stdout, stderr } = Bun.spawnSync([ffmpegPath, ...args]);
  if (exitCode !== 0) throw new Error(`the sound could not be made: ${stderr}`);
  return stdout;
}

/** A WAV file of 32-bit floats. @param header fields that are to say something else than what is there */
export function wavOf(
  samples: readonly number[],
  header: { sampleRate?: number; channels?: number; dataBytes?: number } = {},
): Uint8Array {
  const { sampleRate = 16_000, channels = 1, dataBytes = samples.length * 4 } = header;
  const bytes = Buffer.alloc(44 + samples.length * 4);
  bytes.write("RIFF", 0, "latin1");
  bytes.writeUInt32LE(Math.min(36 + dataBytes, 0xffffffff), 4);
  bytes.write("WAVEfmt ", 8, "latin1");
  bytes.writeUInt32LE(16, 16);
  bytes.writeUInt16LE(3, 20); // IEEE float
  bytes.writeUInt16LE(channels, 22);
  bytes.writeUInt32LE(sampleRate, 24);
  bytes.writeUInt32LE((sampleRate * channels * 4) % 2 ** 32, 28);
  bytes.writeUInt16LE(channels * 4, 32);
  bytes.writeUInt16LE(32, 34);
  bytes.write("data", 36, "latin1");
  bytes.writeUInt32LE(dataBytes, 40);
  for (const [index, sample] of samples.entries()) bytes.writeFloatLE(sample, 44 + index * 4);
  return bytes;
}

const WINDOW = 2048;

/** Of the first channel's middle: the number of the strongest bin of a discrete Fourier transform, and how wide a bin is, Hz. */
export function spectralPeak({ samples, metadata }: DecodedSound): { readonly bin: number; readonly binHz: number } {
  const { channels, sample_rate } = metadata;
  const start = Math.floor((samples.length / channels - WINDOW) / 2);
  const heard = Array.from({ length: WINDOW }, (_, index) => {
    const hann = 0.5 - 0.5 * Math.cos((2 * Math.PI * index) / WINDOW);
    return hann * (samples[(start + index) * channels] ?? 0);
  });
  let best = { bin: -1, power: -1 };
  for (let bin = 0; bin <= WINDOW / 2; bin += 1) {
    let [real, imaginary] = [0, 0];
    for (const [index, value] of heard.entries()) {
      const angle = (2 * Math.PI * bin * index) / WINDOW;
      real += value * Math.cos(angle);
      imaginary -= value * Math.sin(angle);
    }
    const power = real * real + imaginary * imaginary;
    if (power > best.power) best = { bin, power };
  }
  return { bin: best.bin, binHz: sample_rate / WINDOW };
}

/** Largest absolute value. */
export function loudest(samples: Float32Array): number {
  return samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
}
