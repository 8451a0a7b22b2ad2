/** The checks behind a clip's dimensions, each with a code of its own. */
import { MediaError } from "../errors.ts";
import { UINT8 } from "./data_type.ts";
import type { TensorInfo } from "./metadata.ts";
import { exactProduct } from "./shape.ts";

/** Size of a clip's tensor. */
export interface VideoDimensions {
  /** Number of frames. */
  readonly frames: number;
  /** Pixels. */
  readonly width: number;
  /** Pixels. */
  readonly height: number;
}

const RGB_CHANNELS = 3;
const U32_MAX = 0xffff_ffff;

/**
 * The dimensions of a contiguous `[T,H,W,3]` UINT8 tensor, after it has been checked to be one.
 *
 * @param info the tensor's shape and dtype
 * @param byteLength of the tensor's payload
 * @throws MediaError, the first that applies of: video_rank_invalid, video_frames_zero, video_height_zero,
 *   video_width_zero, video_channels_invalid, video_dtype_invalid, video_frame_size_overflow and
 *   video_payload_size_overflow (over 2^53 - 1 bytes, where numbers stop being exact), video_byte_length_mismatch,
 *   video_width_overflow, video_height_overflow
 */
export function videoDimensions(info: Pick<TensorInfo, "shape" | "dtype">, byteLength: number): VideoDimensions {
  const [frames, height, width, channels, ...further] = info.shape;
  if (
    frames === undefined ||
    height === undefined ||
    width === undefined ||
    channels === undefined ||
    further.length > 0
  ) {
    throw new MediaError("video_rank_invalid", `a clip has shape [T,H,W,3], got ${info.shape.length} dimensions`);
  }
  if (frames === 0) throw new MediaError("video_frames_zero", "the clip has no frames");
  if (height === 0) throw new MediaError("video_height_zero", "the clip's height is zero");
  if (width === 0) throw new MediaError("video_width_zero", "the clip's width is zero");
  if (channels !== RGB_CHANNELS) {
    throw new MediaError("video_channels_invalid", `the clip's frames must be RGB, got ${channels} channels`);
  }
  if (info.dtype !== UINT8) {
    throw new MediaError("video_dtype_invalid", `the clip's samples must be UINT8, got ${info.dtype}`);
  }
  const frameSize = exactProduct([height, width, channels]);
  if (frameSize === null) throw new MediaError("video_frame_size_overflow", "the size of a frame is over 2^53 bytes");
  const payloadSize = exactProduct([frames, frameSize]);
  if (payloadSize === null) throw new MediaError("video_payload_size_overflow", "the clip's size is over 2^53 bytes");
  if (byteLength !== payloadSize) {
    throw new MediaError(
      "video_byte_length_mismatch",
      `the clip's payload has ${byteLength} bytes, not ${payloadSize}`,
    );
  }
  if (width > U32_MAX) throw new MediaError("video_width_overflow", "the clip's width does not fit 32 bits");
  if (height > U32_MAX) throw new MediaError("video_height_overflow", "the clip's height does not fit 32 bits");
  return { frames, width, height };
}
