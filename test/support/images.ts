import type { DecodeContext } from "../../src/decode/contract.ts";
import { decodeImage } from "../../src/decode/image/decode.ts";
import { type ImageOptionsInput, imageOptionsSchema } from "../../src/decode/image/options.ts";
import { MediaError } from "../../src/errors.ts";
import { roomContext } from "./rooms.ts";

const MEDIA = new URL("../media/", import.meta.url);

/** The bytes of a file of test/media. */
export async function media(name: string): Promise<Uint8Array> {
  return Bun.file(new URL(name, MEDIA)).bytes();
}

/** Decodes into ordinary memory; gives the tensor, its bytes and the rooms that were asked for. */
export async function decode(encoded: Uint8Array, options: ImageOptionsInput = {}) {
  const { context, rooms } = roomContext();
  const tensor = await decodeImage(encoded, imageOptionsSchema.parse(options), context);
  const pixels = rooms.at(-1)?.payload.subarray(0, tensor.byteLength);
  if (!pixels) throw new Error("decoded without asking for a room");
  return { tensor, pixels, rooms };
}

/** The coded error that decoding ends with; anything else fails the test. */
export async function decodeError(
  encoded: Uint8Array,
  options: ImageOptionsInput = {},
  context: DecodeContext = roomContext().context,
): Promise<MediaError> {
  try {
    await decodeImage(encoded, imageOptionsSchema.parse(options), context);
  } catch (error) {
    if (error instanceof MediaError) return error;
    throw error;
  }
  throw new Error("decoded, though an error was expected");
}

/** One picture of the reference values: what another implementation and Pillow make of a file. */
export interface ImageVector {
  readonly kind: string;
  readonly reference: {
    readonly shape?: number[];
    readonly metadata?: unknown;
    readonly content_hash?: string;
    readonly error?: string;
  };
}

/** The reference values of all images, by file name. */
export async function imageVectors(): Promise<[name: string, vector: ImageVector][]> {
  const all: Record<string, ImageVector> = await Bun.file(new URL("../vectors/media.json", import.meta.url)).json();
  return Object.entries(all).filter(([, vector]) => vector.kind === "image");
}

/** The names of the images that must decode. AVIF is missing: the reference does not have it. */
export async function soundImages(): Promise<string[]> {
  const vectors = await imageVectors();
  return vectors.filter(([name, { reference }]) => !name.startsWith("bad_") && !reference.error).map(([name]) => name);
}
