/**
 * Every way this module says no: one table of codes, one error class.
 *
 * A code is stable and is what callers branch on; the HTTP status is what a frontend answers with. 400 is the medium's,
 * the options' or the caller's fault, 500 the host's, 503 "not now". Messages never repeat a payload.
 */

interface CodeEntry {
  /** HTTP status that a frontend answers with. */
  readonly status: 400 | 500 | 503;
  /** Whether the same request may succeed when sent again. */
  readonly retryable: boolean;
  /** One line for the table in the README. */
  readonly meaning: string;
}

/** All error codes, with the HTTP status of each and whether trying again can help. */
export const ERROR_CODES = {
  invalid_argument: { status: 400, retryable: false, meaning: "an argument has the wrong type or value" },
  invalid_options: { status: 400, retryable: false, meaning: "options are misspelt, contradictory or out of range" },
  url_refused: { status: 400, retryable: false, meaning: "the URL's scheme is not one that is loaded" },
  data_url_invalid: { status: 400, retryable: false, meaning: "a data URL that cannot be decoded" },
  file_unreadable: { status: 400, retryable: false, meaning: "a file that is missing or cannot be read" },
  media_empty: { status: 400, retryable: false, meaning: "there are no bytes to decode" },
  media_too_large: { status: 400, retryable: false, meaning: "the encoded bytes are more than the limit" },
  media_unsupported: { status: 400, retryable: false, meaning: "the bytes are of no format that is decoded" },
  media_corrupt: { status: 400, retryable: false, meaning: "the bytes are damaged or cut short" },
  limit_exceeded: { status: 400, retryable: false, meaning: "dimensions or decoded size are over the limit" },
  no_video_stream: { status: 400, retryable: false, meaning: "the container holds no video" },
  no_frames: { status: 400, retryable: false, meaning: "not one frame of the clip could be decoded" },
  frame_count_invalid: { status: 400, retryable: false, meaning: "more frames wanted than there are, or none known" },
  shape_mismatch: { status: 400, retryable: false, meaning: "the bytes are not as many as shape and dtype make" },
  payload_empty: { status: 400, retryable: false, meaning: "a tensor without bytes has no use here" },
  metadata_missing: { status: 400, retryable: false, meaning: "a clip's metadata were wanted and there are none" },
  metadata_kind_mismatch: {
    status: 400,
    retryable: false,
    meaning: "a clip's metadata were wanted and they are another medium's",
  },
  content_hash_missing: { status: 400, retryable: false, meaning: "the descriptor carries no content hash" },
  local_payload_missing: {
    status: 400,
    retryable: false,
    meaning: "the tensor's memory is elsewhere, or was given back",
  },
  descriptor_invalid: { status: 400, retryable: false, meaning: "not the text or object of a descriptor" },
  video_rank_invalid: { status: 400, retryable: false, meaning: "a clip's tensor has other than four dimensions" },
  video_frames_zero: { status: 400, retryable: false, meaning: "a clip's tensor holds no frame" },
  video_height_zero: { status: 400, retryable: false, meaning: "a clip's frames have no height" },
  video_width_zero: { status: 400, retryable: false, meaning: "a clip's frames have no width" },
  video_channels_invalid: { status: 400, retryable: false, meaning: "a clip's frames have other than three channels" },
  video_dtype_invalid: { status: 400, retryable: false, meaning: "a clip's samples are not UINT8" },
  video_frame_size_overflow: {
    status: 400,
    retryable: false,
    meaning: "the size of one frame cannot be computed exactly",
  },
  video_payload_size_overflow: {
    status: 400,
    retryable: false,
    meaning: "the size of a clip cannot be computed exactly",
  },
  video_byte_length_mismatch: {
    status: 400,
    retryable: false,
    meaning: "a clip's payload is longer or shorter than its shape",
  },
  video_width_overflow: { status: 400, retryable: false, meaning: "a clip's width does not fit 32 bits" },
  video_height_overflow: { status: 400, retryable: false, meaning: "a clip's height does not fit 32 bits" },
  aborted: { status: 400, retryable: true, meaning: "the caller gave up" },
  no_room: { status: 503, retryable: true, meaning: "the pool has no room for the tensor now" },
  medium_exceeds_pool: { status: 503, retryable: false, meaning: "the tensor is larger than the whole pool" },
  overloaded: { status: 503, retryable: true, meaning: "too many media wait to be decoded" },
  decoder_crashed: {
    status: 500,
    retryable: true,
    meaning: "a decoder process, or the ffmpeg that it runs, died while it worked on the medium",
  },
  decoder_timeout: { status: 500, retryable: true, meaning: "decoding took longer than the time limit" },
  decoder_failed: { status: 500, retryable: false, meaning: "the decoder process misbehaved or could not be started" },
  closed: { status: 500, retryable: false, meaning: "the object was disposed before" },
  nixl_unavailable: { status: 500, retryable: false, meaning: "libnixl was not found or cannot be opened" },
  read_failed: { status: 500, retryable: true, meaning: "a tensor could not be read: its owner is gone or refuses" },
  nixl_failed: { status: 500, retryable: false, meaning: "a call into libnixl failed; the status is the cause" },
  registration_failed: { status: 500, retryable: false, meaning: "the storage could not be registered with NIXL" },
  ffmpeg_unavailable: { status: 500, retryable: false, meaning: "no ffmpeg was found, or it cannot be started" },
  native_missing: {
    status: 500,
    retryable: false,
    meaning: "an environment variable names a native part that is not there",
  },
  output_unwritable: { status: 500, retryable: false, meaning: "stdout or an output file cannot be written" },
  setup_failed: { status: 500, retryable: true, meaning: "a native part could not be fetched" },
  system_failed: {
    status: 500,
    retryable: false,
    meaning: "the operating system refused memory, a descriptor or a process",
  },
} as const satisfies Record<string, CodeEntry>;

/** One of the codes of {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** The one error class of this module. */
export class MediaError extends Error {
  override readonly name = "MediaError";
  /** Stable; branch on this, not on the message. */
  readonly code: ErrorCode;
  /** HTTP status for a frontend's answer. */
  readonly status: CodeEntry["status"];
  /** Whether sending the same request again can help. */
  readonly retryable: boolean;

  /** @param code decides status and retryability; `options.cause` keeps what lay underneath. */
  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.status = ERROR_CODES[code].status;
    this.retryable = ERROR_CODES[code].retryable;
  }
}

/** The error itself when it is one of ours, else wrapped under `code` with the original as the cause. */
export function asMediaError(error: unknown, code: ErrorCode, message: string): MediaError {
  return error instanceof MediaError ? error : new MediaError(code, message, { cause: error });
}
