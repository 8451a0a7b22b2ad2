/** A decoded medium: bytes, what they are, and their name. */
import { z } from "zod";
import { MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";
import { isContentHash } from "./content_hash.ts";
import { type DataType, FLOAT32, UINT8 } from "./data_type.ts";
import { mediaMetadataSchema, type TensorInfo } from "./metadata.ts";
import { assertTensorByteLength } from "./shape.ts";

export const decodedMediaOptionsSchema = z
  .strictObject({
    metadata: mediaMetadataSchema
      .nullable()
      .default(null)
      .describe("What else is known of the medium, externally tagged; null when nothing is."),
    contentHash: z
      .custom<string>(isContentHash, { error: "expected 16 lower-case hex digits" })
      .nullable()
      .default(null)
      .describe("Content hash of the medium, 16 lower-case hex digits; null when it was not computed."),
  })
  .meta({ title: "DecodedMediaOptions", description: "What is known of a tensor besides its bytes and shape." });
export type DecodedMediaOptions = z.input<typeof decodedMediaOptionsSchema>;

/** The element type of a typed array's class, or null for classes that are no tensor's. */
function dataTypeOf(array: unknown): DataType | null {
  if (array instanceof Uint8Array || array instanceof Uint8ClampedArray) return UINT8;
  if (array instanceof Float32Array) return FLOAT32;
  return null;
}

/** A decoded medium in memory of this process. Not registered anywhere; that makes a descriptor of it. */
export class DecodedMedia {
  /** The contiguous tensor, as bytes. */
  readonly bytes: Uint8Array;
  /** Shape, element type and metadata. */
  readonly info: TensorInfo;
  /** 16 lower-case hex digits, or null when the hash was not computed. */
  readonly contentHash: string | null;

  private constructor(bytes: Uint8Array, info: TensorInfo, contentHash: string | null) {
    this.bytes = bytes;
    this.info = info;
    this.contentHash = contentHash;
  }

  /**
   * A decoded medium from a typed array and the shape of what is in it.
   *
   * `bytes` is a view of the array's own memory, at its offset: nothing is copied, and later writes to the array show.
   *
   * @param array Uint8Array or Uint8ClampedArray (UINT8), or Float32Array (FLOAT32)
   * @param shape dimensions, outermost first; their product is the array's length
   * @throws MediaError invalid_argument for any other array or a shape that is none; shape_mismatch; invalid_options
   */
  static fromTypedArray(
    array: Uint8Array | Uint8ClampedArray | Float32Array,
    shape: readonly number[],
    options: DecodedMediaOptions = {},
  ): DecodedMedia {
    const dtype = dataTypeOf(array);
    if (dtype === null) {
      throw new MediaError("invalid_argument", "expected a Uint8Array, Uint8ClampedArray or Float32Array");
    }
    const { metadata, contentHash } = parseOptions(decodedMediaOptionsSchema, options);
    assertTensorByteLength(shape, dtype, array.byteLength);
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    const info = Object.freeze({ shape: Object.freeze([...shape]), dtype, metadata });
    return new DecodedMedia(bytes, info, contentHash);
  }
}
