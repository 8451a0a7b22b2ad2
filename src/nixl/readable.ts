/** What a descriptor has to be like to be read, and what its content hash covers. */
import { MediaError } from "../errors.ts";
import {
  audioHashHeader,
  imageHashHeader,
  isAudioMetadata,
  isImageMetadata,
  isVideoMetadata,
  type MediaDescriptor,
  tensorByteLength,
  videoHashHeader,
} from "../tensor/index.ts";

/**
 * @param givenBytes size of the array that the caller wants the tensor in, if any
 * @returns the tensor's size in bytes
 * @throws MediaError descriptor_invalid, invalid_argument
 */
export function checkReadable(descriptor: MediaDescriptor, givenBytes: number | undefined): number {
  const { size, mem_type } = descriptor.nixlDescriptor;
  if (mem_type !== "Dram")
    throw new MediaError("descriptor_invalid", `memory of type ${mem_type} cannot be read, only Dram`);
  const expected = tensorByteLength(descriptor.shape, descriptor.dtype);
  if (size === 0 || size !== expected) {
    throw new MediaError("descriptor_invalid", `${size} bytes are not the ${expected} that shape and dtype make`);
  }
  if (givenBytes !== undefined && givenBytes !== size) {
    throw new MediaError("invalid_argument", `the given array has ${givenBytes} bytes, the tensor ${size}`);
  }
  return size;
}

/** What the hash covers in front of the bytes; null when there is no hash, or none that can be checked. */
export function hashHeaderOf(descriptor: MediaDescriptor): Uint8Array | null {
  const { shape, dtype, metadata, contentHash } = descriptor;
  if (contentHash === null) return null;
  if (metadata === null || isImageMetadata(metadata)) return imageHashHeader(shape, dtype);
  if (isVideoMetadata(metadata)) return videoHashHeader(shape, dtype, metadata.Video, descriptor.byteLength);
  if (isAudioMetadata(metadata)) return audioHashHeader(shape, dtype, metadata.Audio, descriptor.byteLength);
  return null; // what a kind that is not known puts in front of its bytes is not known either
}
