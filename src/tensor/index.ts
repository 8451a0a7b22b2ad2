/** Tensors and their names: types, shapes, content hashes and the wire descriptor. No I/O and no native code. */
export {
  audioHashHeader,
  type ContentHashOptions,
  canonicalContentHash,
  contentHashForStorage,
  contentHashOptionsSchema,
  contentHashPattern,
  hashContiguous,
  hashVideoContent,
  imageHashHeader,
  isContentHash,
  videoHashHeader,
} from "./content_hash.ts";
export { bytesPerElement, DataType, dataTypeSchema, FLOAT32, UINT8 } from "./data_type.ts";
export { DecodedMedia, type DecodedMediaOptions, decodedMediaOptionsSchema } from "./decoded_media.ts";
export { MediaDescriptor, type PayloadLease } from "./descriptor.ts";
export {
  descriptorSchema,
  MEMORY_TYPES,
  type MemoryType,
  type NixlDescriptor,
  nixlDescriptorSchema,
  type WireDescriptor,
} from "./descriptor_schema.ts";
export {
  type AudioMetadata,
  audioMetadataJson,
  audioMetadataSchema,
  type ColorType,
  colorTypeSchema,
  type DescriptorMetadata,
  descriptorMetadataSchema,
  IMAGE_FORMATS,
  type ImageFormat,
  type ImageMetadata,
  imageFormatSchema,
  imageMetadataSchema,
  isAudioMetadata,
  isImageMetadata,
  isVideoMetadata,
  type MediaMetadata,
  mediaMetadataSchema,
  metadataJson,
  type OtherMetadata,
  type TaggedAudioMetadata,
  type TensorInfo,
  taggedAudio,
  tensorInfoSchema,
  type VideoMetadata,
  videoMetadataJson,
  videoMetadataSchema,
} from "./metadata.ts";
export { formatSerdeFloat } from "./serde_float.ts";
export { assertTensorByteLength, elementCount, shapeSchema, tensorByteLength } from "./shape.ts";
export { type VideoDimensions, videoDimensions } from "./video_dimensions.ts";
