/** Element types of tensors: their names on the wire, sizes, and bytes in content hashes. */
import { z } from "zod";

/** Element types. The wire prints the names in capitals; Python workers lower-case them into numpy's names. */
export const DataType = { UINT8: "UINT8", FLOAT32: "FLOAT32" } as const;
export type DataType = (typeof DataType)[keyof typeof DataType];

/** Unsigned bytes: images and clips. */
export const UINT8 = DataType.UINT8;
/** IEEE 754 single precision, little-endian: sound. */
export const FLOAT32 = DataType.FLOAT32;

export const dataTypeSchema = z
  .enum(DataType)
  .meta({ title: "DataType", description: "Element type of the tensor: UINT8 (images, clips) or FLOAT32 (sound)." });

const BYTES_PER_ELEMENT: Readonly<Record<DataType, number>> = { UINT8: 1, FLOAT32: 4 };

/** Fixed by the content hash's definition: a number never changes its meaning. */
const HASH_BYTE: Readonly<Record<DataType, number>> = { UINT8: 0, FLOAT32: 1 };

/** Size of one element in bytes. */
export function bytesPerElement(dtype: DataType): number {
  return BYTES_PER_ELEMENT[dtype];
}

/** The byte that stands for the element type in a content hash. */
export function dataTypeHashByte(dtype: DataType): number {
  return HASH_BYTE[dtype];
}
