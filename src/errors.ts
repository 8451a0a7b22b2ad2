/**
 * Every way this module says no: one table of codes, one error class.
 *
 * A code is stable and is what callers branch on; the HTTP status is what a frontend answers with. 400 is the medium's,
 * the options' or the caller's fault, 429 the tenant's share, 500 the host's, 503 "not now". Messages never repeat a payload.
 */

/** Messages are no longer, characters: what they quote (a host, a path) may be as long as a stranger likes. */
const MOST_MESSAGE_CHARACTERS = 480;

interface CodeEntry {
  /** HTTP status that a frontend answers with. */
  readonly status: 400 | 429 | 500 | 503;
  /** Whether the same request may succeed when sent again. */
  readonly retryable: boolean;
  /** Seconds after which trying again is worth it when nothing better is known. */
  readonly retryAfter?: number;
  /** One line for the table in the README. */
  readonly meaning: string;
}

/** All error codes, with the HTTP status of each and whether trying again can help. */
export const ERROR_CODES = {
  invalid_argument: { status: 400, retryable: false, meaning: "an argument has the wrong type or value" },
  invalid_options: { status: 400, retryable: false, meaning: "options are misspelt, contradictory or out of range" },
  request_invalid: {
    status: 400,
    retryable: false,
    meaning: "a content part or chat request is not formed as it should be",
  },
  modality_not_enabled: {
    status: 400,
    retryable: false,
    meaning: "images, clips or sound are not taken by this server",
  },
  url_invalid: { status: 400, retryable: false, meaning: "the text is no URL" },
  url_refused: {
    status: 400,
    retryable: false,
    meaning: "the policy does not allow the URL, or an address behind its name",
  },
  redirect_refused: {
    status: 400,
    retryable: false,
    meaning: "the origin redirects too often, or to what is not allowed",
  },
  origin_refused: {
    status: 400,
    retryable: false,
    meaning: "the origin answered with an error status, which the message names",
  },
  fetch_failed: { status: 400, retryable: true, meaning: "the origin cannot be reached, or broke off" },
  fetch_timeout: { status: 400, retryable: true, meaning: "the origin took too long" },
  data_url_invalid: { status: 400, retryable: false, meaning: "a data URL that cannot be decoded" },
  file_unreadable: { status: 400, retryable: false, meaning: "a file that is missing or cannot be read" },
  media_empty: { status: 400, retryable: false, meaning: "there are no bytes to decode" },
  media_too_large: { status: 400, retryable: false, meaning: "the encoded bytes are more than the limit" },
  media_unsupported: { status: 400, retryable: false, meaning: "the bytes are of no format that is decoded" },
  media_corrupt: { status: 400, retryable: false, meaning: "the bytes are damaged or cut short" },
  limit_exceeded: { status: 400, retryable: false, meaning: "dimensions or decoded size are over the limit" },
  no_video_stream: { status: 400, retryable: false, meaning: "the container holds no video" },
  no_frames: { status: 400, retryable: false, meaning: "not one frame of the clip could be decoded" },
  no_audio_stream: { status: 400, retryable: false, meaning: "the container holds no sound" },
  no_samples: { status: 400, retryable: false, meaning: "not one sample of the sound could be decoded" },
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
  quota_exceeded: {
    status: 429,
    retryable: true,
    retryAfter: 1,
    meaning: "the tenant has its share of memory or of loads",
  },
  no_room: { status: 503, retryable: true, retryAfter: 1, meaning: "the pool has no room for the tensor now" },
  medium_exceeds_pool: { status: 503, retryable: false, meaning: "the tensor is larger than the whole pool" },
  overloaded: { status: 503, retryable: true, retryAfter: 1, meaning: "too many media wait to be fetched or decoded" },
  egress_proxy_refused: {
    status: 500,
    retryable: false,
    meaning: "an HTTP proxy is configured, and nobody said that it is trusted to check addresses",
  },
  egress_proxy_failed: {
    status: 500,
    retryable: true,
    meaning: "the HTTP proxy that is configured cannot be reached, or does not accept this server",
  },
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
  /** Seconds for a frontend's `Retry-After` header; null where waiting is not what helps. */
  readonly retryAfter: number | null;

  /**
   * @param code decides status and retryability
   * @param message is cut when it is too long
   * @param options `cause` keeps what lay underneath; `retryAfter`, seconds, when more is known than the code says
   */
  constructor(code: ErrorCode, message: string, options: { cause?: unknown; retryAfter?: number } = {}) {
    super(shortened(message), "cause" in options ? { cause: options.cause } : undefined);
    const entry: CodeEntry = ERROR_CODES[code];
    this.code = code;
    this.status = entry.status;
    this.retryable = entry.retryable;
    this.retryAfter = options.retryAfter ?? entry.retryAfter ?? null;
  }
}

function shortened(message: string): string {
  return message.length <= MOST_MESSAGE_CHARACTERS ? message : `${message.slice(0, MOST_MESSAGE_CHARACTERS)}…`;
}

/** The error itself when it is one of ours, else wrapped under `code` with the original as the cause. */
export function asMediaError(error: unknown, code: ErrorCode, message: string): MediaError {
  return error instanceof MediaError ? error : new MediaError(code, message, { cause: error });
}
