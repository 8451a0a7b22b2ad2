/**
 * The image program of a decoder child: encoded bytes in, an 8-bit tensor in registered memory out.
 *
 * Pixels are as the file has them unless the settings say otherwise: no turning by EXIF orientation, no conversion by colour
 * profile, the channels that are there. Which library decodes what is decided by whose pixels are exact, see {@link decodePicture}.
 */
import { MediaError } from "../../errors.ts";
import { type ColorType, imageHashHeader, type MediaMetadata, UINT8 } from "../../tensor/index.ts";
import { type DecodeContext, type DecodedTensor, type DecodeRoom, hashInRoom } from "../contract.ts";
import { sniffMedia } from "../sniff.ts";
import { decoderFailure } from "./decoders/failure.ts";
import { decodeFarbfeld } from "./decoders/farbfeld.ts";
import { decodeGif } from "./decoders/gif.ts";
import { decodeWithImageRs } from "./decoders/image_rs.ts";
import { decodeInPlace, type InPlaceContext } from "./decoders/in_place.ts";
import { decodeWithLibvips, type Pixels, verifyWithLibvips } from "./decoders/libvips.ts";
import type { DecodedPicture } from "./decoders/picture.ts";
import { decodeQoi } from "./decoders/qoi.ts";
import { type DecodableFormat, isDecodable, readImageHeader } from "./header.ts";
import type { ChannelCount, ImageHeader, PixelSize } from "./image_header.ts";
import { judgeImageLimits, judgeTensorBytes } from "./limits.ts";
import type { ImageOptions } from "./options.ts";
import { corruptImage } from "./refusals.ts";
import { decodedSize, planTransforms, type Transformed, type Transforms } from "./transforms/transforms.ts";

type PictureSize = Pick<DecodedPicture, "width" | "height" | "channels">;

const COLOR_TYPES: Readonly<Record<ChannelCount, ColorType>> = {
  1: "L8",
  2: "La8",
  3: "Rgb8",
  4: "Rgba8",
};

/**
 * Decodes one image into a room and hashes it there. The room has the size that the header says and is asked for before
 * the work, so that a full pool refuses at once; a picture that turns out smaller uses the beginning of it.
 *
 * @param encoded a whole file, of any format that is sniffed; its name and MIME type do not matter
 * @param options parsed settings; limits are judged before a decoder runs
 * @returns shape [height, width, channels], UINT8, always with a content hash
 * @throws MediaError `media_empty`, `media_unsupported`, `media_corrupt`, `limit_exceeded`, and what `context.room` throws
 */
export async function decodeImage(
  encoded: Uint8Array,
  options: ImageOptions,
  context: DecodeContext,
): Promise<DecodedTensor> {
  const format = sniffImage(encoded);
  const header = readImageHeader(encoded, format);
  judgeImageLimits(format, header, options.limits, decodedSize(encoded, format, header, options));
  const transforms = planTransforms(encoded, format, header, options);
  const most = transforms?.size ?? header;
  judgeTensorBytes(format, most, options.limits);
  const room = await context.room(most.width * most.height * most.channels);
  const { picture, source } = transforms
    ? await writeTransformed(room, encoded, format, header, transforms, context)
    : { picture: await decodeInto(room.payload, encoded, format, header, context), source: null };
  const { width, height, channels } = picture;
  const byteLength = width * height * channels;
  const shape = [height, width, channels];
  const metadata = metadataOf(format, channels, source);
  const contentHash = hashInRoom(room, imageHashHeader(shape, UINT8), byteLength);
  return { shape, dtype: UINT8, metadata, byteLength, contentHash };
}

/** Keys that the reference does not have stand behind those that it has, and only where the picture is another one. */
function metadataOf(format: DecodableFormat, channels: ChannelCount, source: PixelSize | null): MediaMetadata {
  const known = { format, color_type: COLOR_TYPES[channels], layout: "HWC" } as const;
  return { Image: source ? { ...known, source_width: source.width, source_height: source.height } : known };
}

/** Decodes into memory of the child's own, and writes into the room what the settings make of it. */
async function writeTransformed(
  room: DecodeRoom,
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
  transforms: Transforms,
  context: InPlaceContext,
): Promise<Transformed> {
  const decode = async (): Promise<Pixels> => {
    const bytes = new Uint8Array(header.width * header.height * header.channels);
    const { width, height, channels } = await decodeInto(bytes, encoded, format, header, context);
    return { width, height, channels, bytes: bytes.subarray(0, width * height * channels) };
  };
  try {
    const transformed = await transforms.run(decode);
    const { picture } = transformed;
    if (picture.bytes.length > room.payload.length) throw corruptImage(format, "it becomes more than its header says");
    room.payload.set(picture.bytes);
    return transformed;
  } catch (error) {
    throw decoderFailure(format, error);
  }
}

function sniffImage(encoded: Uint8Array): DecodableFormat {
  if (encoded.length === 0) throw new MediaError("media_empty", "the image is empty");
  const sniffed = sniffMedia(encoded);
  if (sniffed.kind === "image") {
    if (isDecodable(sniffed.format)) return sniffed.format;
    throw new MediaError("media_unsupported", `${sniffed.format} images are not decoded`);
  }
  throw new MediaError("media_unsupported", `not an image of a format that is decoded: ${sniffed.name}`);
}

/** Decodes into the beginning of `payload`. @returns what became of the picture: never more than the header says */
async function decodeInto(
  payload: Uint8Array,
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
  context: InPlaceContext,
): Promise<PictureSize> {
  if (decodeInPlace(context, encoded, format, header, payload)) return header;
  const picture = await decodePicture(encoded, format, header);
  const { width, height, channels } = picture;
  if (width > header.width || height > header.height || channels > header.channels) {
    throw corruptImage(format, "it decodes to more than its header says");
  }
  picture.writeTo(payload.subarray(0, width * height * channels));
  return picture;
}

/**
 * The `image` crate is what other parts of a fleet decode with, so it decides for every format but four: JPEG, where
 * libjpeg-turbo's pixels are the common ones, and GIF, QOI and Farbfeld, which its binding leaves out. Its JPEG decoder stays for
 * four components (libvips turns CMYK into other colours), but fills in what is missing of a file that was cut short;
 * such files are therefore decoded by libvips as well, for its verdict. libvips also has the kinds of TIFF that the
 * crate does not know, and TIFF with JPEG inside, whose size the crate takes from the JPEG and not from the TIFF.
 */
async function decodePicture(
  encoded: Uint8Array,
  format: DecodableFormat,
  header: ImageHeader,
): Promise<DecodedPicture> {
  try {
    if (format === "Qoi") return decodeQoi(encoded, header);
    if (format === "Gif") return decodeGif(encoded);
    if (format === "Farbfeld") return decodeFarbfeld(encoded, header);
    if (header.variant === "cmyk") await verifyWithLibvips(encoded, header);
    const isForLibvips = format === "Jpeg" ? header.variant !== "cmyk" : header.variant !== undefined;
    const decode = isForLibvips ? decodeWithLibvips : decodeWithImageRs;
    return await decode(encoded, format, header);
  } catch (error) {
    throw decoderFailure(format, error);
  }
}
