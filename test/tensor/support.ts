/** Bytes, numbers and errors that the tests of this folder share. */
import { expect } from "bun:test";
import { type ErrorCode, MediaError } from "../../src/errors.ts";
import type { PayloadLease } from "../../src/tensor/index.ts";

/** The error that `action` throws, which must be a MediaError of that code. */
export function expectCode(action: () => unknown, code: ErrorCode): MediaError {
  try {
    action();
  } catch (error) {
    expect(error).toBeInstanceOf(MediaError);
    if (error instanceof MediaError) {
      expect(error.code).toBe(code);
      return error;
    }
  }
  throw new Error(`nothing was thrown, expected ${code}`);
}

/** 0, 1, 2, … modulo 256. */
export function indexBytes(length: number): Uint8Array {
  return new Uint8Array(length).map((_, index) => index);
}

/** Byte i is the low 8 bits of `((i × 2654435761) >> 7) xor i`, in 64-bit unsigned arithmetic. */
export function mixBytes(length: number): Uint8Array {
  return new Uint8Array(length).map((_, index) => {
    const wide = BigInt(index);
    return Number((((wide * 2654435761n) >> 7n) ^ wide) & 0xffn);
  });
}

/** Repeatable 32-bit numbers (xorshift32), so that a failure can be seen again. */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

/** A lease on plain memory that counts how often it was given back. */
export class CountingLease implements PayloadLease {
  readonly bytes: Uint8Array;
  disposals = 0;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
  get released(): boolean {
    return this.disposals > 0;
  }
  dispose(): void {
    this.disposals += 1;
  }
}
