/**
 * From the bytes of a sound, or of a clip that has one, to a tensor: one ffmpeg process writes samples into a private file, which
 * may become as large as the limit says and no larger; then memory of exactly the right size is asked for, and the samples are
 * copied and hashed. How long a sound is nobody knows before it is decoded: what headers say may be anything.
 */
import { randomBytes } from "node:crypto";
import { createFile, type PrivateFile } from "../../../ffi/process.ts";
import { MediaError } from "../../errors.ts";
import { type AudioMetadata, audioHashHeader, bytesPerElement, FLOAT32, taggedAudio } from "../../tensor/index.ts";
import { type DecodeContext, type DecodedTensor, hashInRoom } from "../contract.ts";
import { BASE_MEMORY_BYTES, foundFfmpeg, runProgram, writtenBytes, writtenText } from "../ffmpeg/process.ts";
import { SealedInput } from "../ffmpeg/sealed_input.ts";
import { type Demuxer, sniffedName, sniffMedia } from "../sniff.ts";
import { audioArguments, mostSamples, type SoundFormat, statedDuration } from "./command.ts";
import { readSoundDuration } from "./iso_duration.ts";
import { type AudioSettings, MOST_AUDIO_BYTES } from "./options.ts";
import { checkRate, judge, noSamples } from "./verdict.ts";

const SAMPLE_BYTES = bytesPerElement(FLOAT32);
/** Space for the hash header: shape and metadata are some 200 bytes. */
const HASH_HEADER_BYTES = 512;
/** Room for ffmpeg's log: files may carry whole books in their tags, all of which it prints. */
const LOG_BYTES = 4 * 1024 * 1024;
/** Of the log while ffmpeg runs. */
const LOOKED_AT_BYTES = 64 * 1024;
/** Beyond the limit, so that one sample too many can be told from the last one that is allowed. */
const OVERRUN_BYTES = 64 * 1024;

/**
 * Decodes a sound.
 * @returns `[samples, channels]`, float32 from -1 to 1, with its content hash
 * @throws MediaError media_empty, media_unsupported, no_audio_stream, media_corrupt, limit_exceeded, no_samples for the medium's
 *   faults; ffmpeg_unavailable, decoder_failed, decoder_timeout, system_failed for the host's; and what the room's giver throws
 */
export async function decodeAudio(
  encoded: Uint8Array,
  settings: AudioSettings,
  context: DecodeContext,
): Promise<DecodedTensor> {
  const demuxer = sniffSound(encoded);
  const program = foundFfmpeg(context.ffmpegPath);
  const limit = Math.min(settings.limits?.max_alloc ?? MOST_AUDIO_BYTES, MOST_AUDIO_BYTES);
  using input = new SealedInput(encoded);
  using samples = createFile("samples", limit + OVERRUN_BYTES);
  const filterName = randomBytes(8).toString("hex");
  let isRateKnown = false;
  const outcome = await runProgram({
    program,
    args: audioArguments(demuxer, settings, filterName),
    files: [input.file, samples],
    memoryLimitBytes: BASE_MEMORY_BYTES,
    logBytes: LOG_BYTES,
    whileRunning: (log) => {
      checkSize(samples, limit);
      if (!isRateKnown) isRateKnown = checkRate(writtenText(log, LOOKED_AT_BYTES));
    },
  });
  checkSize(samples, limit);
  const { from, to } = judge(outcome, { encoded, demuxer }, settings, filterName);
  const frames = Math.min(
    Math.floor(writtenBytes(samples) / (SAMPLE_BYTES * to.channels)),
    heardFrames(encoded, demuxer, to, settings),
  );
  if (frames === 0) throw noSamples(outcome, demuxer);
  const metadata = metadataOf(frames, from, to, outcome.log, settings);
  // libswresample makes a mono source 3 dB quieter on two channels: here it is heard as loud as it is.
  const gain = from.channels === 1 && to.channels === 2 ? Math.SQRT2 : 1;
  return await tensorOf(samples, metadata, { frames, gain }, context);
}

function sniffSound(encoded: Uint8Array): Demuxer {
  if (encoded.byteLength === 0) throw new MediaError("media_empty", "there are no bytes to decode");
  const sniffed = sniffMedia(encoded);
  if (sniffed.kind === "container") return sniffed.demuxer;
  throw new MediaError("media_unsupported", `nothing that sound is decoded from: ${sniffedName(sniffed)}`);
}

/** Counts what was decoded. */
function checkSize(samples: PrivateFile, limit: number): void {
  if (writtenBytes(samples) <= limit) return;
  throw new MediaError("limit_exceeded", `the sound takes more than the limit of ${limit} bytes when it is decoded`);
}

/** How much of what was decoded is to be heard, samples of each channel. */
function heardFrames(
  encoded: Uint8Array,
  demuxer: Demuxer,
  { sampleRate }: SoundFormat,
  { max_duration }: AudioSettings,
): number {
  const heard = demuxer === "mov" ? readSoundDuration(encoded) : null;
  return Math.min(
    heard === null ? Number.POSITIVE_INFINITY : Math.ceil(heard * sampleRate),
    // Where the format changes midway, the filter begins to count anew.
    mostSamples(max_duration, sampleRate) ?? Number.POSITIVE_INFINITY,
  );
}

/** The duration is what was decoded; only where the sound was cut short on purpose the container's word is taken. */
function metadataOf(
  frames: number,
  from: SoundFormat,
  to: SoundFormat,
  log: string,
  { max_duration }: AudioSettings,
): AudioMetadata {
  const decoded = frames / to.sampleRate;
  const isCut = typeof max_duration === "number" && decoded >= max_duration - 1 / to.sampleRate;
  return {
    sample_rate: to.sampleRate,
    channels: to.channels,
    source_sample_rate: from.sampleRate,
    source_channels: from.channels,
    source_duration: isCut ? Math.max(decoded, statedDuration(log) ?? 0) : decoded,
  };
}

async function tensorOf(
  samples: PrivateFile,
  metadata: AudioMetadata,
  { frames, gain }: { readonly frames: number; readonly gain: number },
  context: DecodeContext,
): Promise<DecodedTensor> {
  const shape = [frames, metadata.channels];
  const byteLength = frames * metadata.channels * SAMPLE_BYTES;
  const room = await context.room(byteLength, HASH_HEADER_BYTES);
  copyClipped(asFloats(samples.bytes, byteLength), asFloats(room.payload, byteLength), gain);
  const contentHash = hashInRoom(room, audioHashHeader(shape, FLOAT32, metadata, byteLength), byteLength);
  return { shape, dtype: FLOAT32, metadata: taggedAudio(metadata), byteLength, contentHash };
}

function asFloats({ buffer, byteOffset }: Uint8Array, byteLength: number): Float32Array {
  return new Float32Array(buffer, byteOffset, byteLength / SAMPLE_BYTES);
}

/** Lossy codecs and resampling overshoot; and files of floats may hold anything, of which what is no number becomes silence. */
function copyClipped(from: Float32Array, into: Float32Array, gain: number): void {
  for (let index = 0; index < from.length; index += 1) {
    const value = gain * (from[index] as number);
    into[index] = value > 1 ? 1 : value >= -1 ? value : value < -1 ? -1 : 0;
  }
}
