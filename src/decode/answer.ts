/** What a decoder child's answer must be, given what it was asked: it has met hostile bytes, so its word counts for nothing. */
import { MediaError } from "../errors.ts";
import {
  type ColorType,
  isAudioMetadata,
  isImageMetadata,
  isVideoMetadata,
  tensorByteLength,
} from "../tensor/index.ts";
import type { AudioSettings } from "./audio/options.ts";
import type { DecodedTensor } from "./contract.ts";
import type { DecodeRequest } from "./protocol.ts";
import type { RoomMemory } from "./rooms.ts";

const CHANNELS: Readonly<Record<ColorType, number>> = { L8: 1, La8: 2, Rgb8: 3, Rgba8: 4 };

/**
 * The room that the tensor lies in, once the answer is one to the request and fits.
 * @throws MediaError decoder_failed
 */
export function checkAnswer<Memory extends RoomMemory>(
  request: DecodeRequest,
  tensor: DecodedTensor,
  room: Memory | null,
): Memory {
  if (!room || !isOfKind(request, tensor) || tensor.byteLength > room.payloadBytes) throw misfit();
  if (tensorByteLength(tensor.shape, tensor.dtype) !== tensor.byteLength) throw misfit();
  return room;
}

function isOfKind({ kind, settings, hashVideo }: DecodeRequest, tensor: DecodedTensor): boolean {
  if (kind === "audio") return isSound(tensor, settings as AudioSettings);
  return tensor.dtype === "UINT8" && (kind === "image" ? isImage(tensor) : isClip(tensor, hashVideo));
}

function isSound({ shape, dtype, metadata, contentHash }: DecodedTensor, settings: AudioSettings): boolean {
  if (!isAudioMetadata(metadata) || shape.length !== 2 || dtype !== "FLOAT32" || contentHash === null) return false;
  const { channels, sample_rate } = metadata.Audio;
  const isAsAsked =
    channels === (settings.channels ?? channels) && sample_rate === (settings.sample_rate ?? sample_rate);
  return shape[1] === channels && isAsAsked;
}

function isImage({ shape, metadata, contentHash }: DecodedTensor): boolean {
  const channels = isImageMetadata(metadata) ? CHANNELS[metadata.Image.color_type] : null;
  return shape.length === 3 && shape[2] === channels && contentHash !== null;
}

function isClip({ shape, metadata, contentHash }: DecodedTensor, hashVideo: boolean): boolean {
  const frames = isVideoMetadata(metadata) ? metadata.Video.sampled_timestamps.length : null;
  return shape.length === 4 && shape[3] === 3 && shape[0] === frames && (hashVideo || contentHash === null);
}

function misfit(): MediaError {
  return new MediaError("decoder_failed", "The decoder's answer does not fit what it was asked");
}
