/** Arithmetic on tensor shapes that never rounds and never overflows silently. */
import { z } from "zod";
import { MediaError } from "../errors.ts";
import { bytesPerElement, type DataType } from "./data_type.ts";

export const shapeSchema = z
  .array(z.int().nonnegative())
  .readonly()
  .meta({ title: "Shape", description: "Sizes of the dimensions, outermost first: [H,W,C] image, [T,H,W,3] clip." });

/** Product of non-negative integers, or null when it is over 2^53 - 1 and would be rounded. */
export function exactProduct(factors: readonly number[]): number | null {
  if (factors.includes(0)) return 0;
  let product = 1;
  for (const factor of factors) {
    product *= factor;
    if (product > Number.MAX_SAFE_INTEGER) return null;
  }
  return product;
}

/**
 * Number of elements of a tensor; 1 for an empty shape (a scalar).
 * @throws MediaError invalid_argument when a dimension is no non-negative integer, or the product is over 2^53 - 1
 */
export function elementCount(shape: readonly number[]): number {
  if (!shape.every((dimension) => Number.isSafeInteger(dimension) && dimension >= 0)) {
    throw new MediaError("invalid_argument", `shape must hold non-negative integers, got [${shape.join(",")}]`);
  }
  const count = exactProduct(shape);
  if (count === null) {
    throw new MediaError("invalid_argument", `shape [${shape.join(",")}] has more than 2^53 elements`);
  }
  return count;
}

/**
 * Bytes of a contiguous tensor: elements × element size.
 * @throws MediaError invalid_argument as {@link elementCount}, and when the size is over 2^53 - 1 bytes
 */
export function tensorByteLength(shape: readonly number[], dtype: DataType): number {
  const size = exactProduct([elementCount(shape), bytesPerElement(dtype)]);
  if (size === null) {
    throw new MediaError(
      "invalid_argument",
      `a ${dtype} tensor of shape [${shape.join(",")}] has more than 2^53 bytes`,
    );
  }
  return size;
}

/**
 * Asserts that `byteLength` is what shape and dtype make.
 * @throws MediaError shape_mismatch; invalid_argument as {@link elementCount}
 */
export function assertTensorByteLength(shape: readonly number[], dtype: DataType, byteLength: number): void {
  const expected = tensorByteLength(shape, dtype);
  if (byteLength !== expected) {
    throw new MediaError(
      "shape_mismatch",
      `a ${dtype} tensor of shape [${shape.join(",")}] has ${expected} bytes, got ${byteLength}`,
    );
  }
}
