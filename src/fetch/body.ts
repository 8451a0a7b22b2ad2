/** The content of an answer: decoded and capped while it streams, in memory or in a file of memory. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import zlib from "node:zlib";
import type { EncodedMedium } from "../encoded.ts";
import { MediaError } from "../errors.ts";
import type { FetchClock } from "./clock.ts";
import { updateInPieces } from "./digest.ts";
import { fetchFailure } from "./failures.ts";
import { MediumCollector } from "./medium_collector.ts";
import type { PacedStream } from "./paced_stream.ts";
import type { SpoolBudget } from "./spool_budget.ts";
import { shownHost } from "./url_policy.ts";

/** What content decoders give at a time. */
const DECODED_CHUNK_BYTES = 64 * 1024;
/**
 * What may come besides the content itself: a share of it, and so many bytes. Chunks that are smaller than about 40 bytes on average
 * cost far more time than they carry; origins that send a file line by line stay well below.
 */
const MOST_WRAPPING = { share: 1 / 8, bytes: 256 * 1024 };
/**
 * Nobody asked for these, but some origins send them all the same. Not zstd: Bun's decoder takes a frame that is cut off for a
 * whole one.
 */
const DECODERS: Readonly<Record<string, () => NodeJS.ReadWriteStream>> = {
  gzip: () => zlib.createGunzip({ chunkSize: DECODED_CHUNK_BYTES }),
  "x-gzip": () => zlib.createGunzip({ chunkSize: DECODED_CHUNK_BYTES }),
  deflate: () => zlib.createInflate({ chunkSize: DECODED_CHUNK_BYTES }),
  br: () => zlib.createBrotliDecompress({ chunkSize: DECODED_CHUNK_BYTES }),
};

/** An answer whose body is still to come, and the connection over which it comes. */
export interface IncomingAnswer {
  readonly message: IncomingMessage;
  readonly stream: PacedStream;
}

/**
 * Reads the body of an answer to its end. Whatever goes wrong, nothing of it stays.
 * @param limits.maximumBytes both as sent and as decoded
 * @throws MediaError media_too_large, media_empty, fetch_failed (cut short, damaged, an encoding that is not known),
 *   system_failed, overloaded, or the clock's
 */
export async function readBody(
  response: IncomingAnswer,
  url: URL,
  limits: { readonly maximumBytes: number; readonly digest: boolean; readonly spool: SpoolBudget },
  clock: FetchClock,
): Promise<{ encoded: EncodedMedium; sha256: string | null }> {
  const { maximumBytes } = limits;
  const tooLarge = (): MediaError =>
    new MediaError("media_too_large", `The medium at ${shownHost(url)} is larger than ${maximumBytes} bytes`);
  const decoder = contentDecoder(response.message, url);
  const announced = announcedBytes(response.message);
  if (announced !== null && announced > maximumBytes) throw tooLarge();
  const hash = limits.digest ? createHash("sha256") : null;
  using collector = new MediumCollector(maximumBytes, decoder ? null : announced, tooLarge, limits.spool);
  const sink = new Writable({
    write(chunk: Uint8Array, _, done) {
      const added = collector.add(chunk).then(() => (hash ? updateInPieces(hash, chunk, clock.signal) : undefined));
      added.then(() => done(), done);
    },
  });
  const received = capped(response, url, maximumBytes, tooLarge, clock);
  try {
    await (decoder ? pipeline(received, decoder, sink) : pipeline(received, sink));
    clock.signal.throwIfAborted();
    const isWhole = response.message.complete && (isDelimited(response.message) || !response.stream.isBroken);
    if (!isWhole) throw new MediaError("fetch_failed", `${shownHost(url)} broke off`);
    clock.rest();
    return { encoded: collector.finish(), sha256: hash ? hash.digest("hex") : null };
  } catch (error) {
    throw clock.signal.aborted ? clock.signal.reason : fetchFailure(url, error);
  }
}

/** The bytes as they were sent, counted. */
async function* capped(
  { message, stream }: IncomingAnswer,
  url: URL,
  maximumBytes: number,
  tooLarge: () => MediaError,
  clock: FetchClock,
): AsyncGenerator<Uint8Array> {
  let received = 0;
  for await (const chunk of message as AsyncIterable<Uint8Array>) {
    clock.touch();
    received += chunk.byteLength;
    if (received > maximumBytes) throw tooLarge();
    if (stream.served - received > received * MOST_WRAPPING.share + MOST_WRAPPING.bytes) {
      throw new MediaError("fetch_failed", `${shownHost(url)} sends its content in too small pieces`);
    }
    yield chunk;
  }
}

/** Whether an answer says itself where it ends; any other one ends with its connection. */
function isDelimited(message: IncomingMessage): boolean {
  return announcedBytes(message) !== null || transferCoding(message) === "chunked";
}

function transferCoding({ headers }: IncomingMessage): string {
  return (headers["transfer-encoding"] ?? "identity").trim().toLowerCase();
}

/** Null when the content is sent as it is. @throws MediaError fetch_failed when nothing here undoes what was done to it */
function contentDecoder(response: IncomingMessage, url: URL): NodeJS.ReadWriteStream | null {
  // The parser undoes chunks, and passes content in any other coding as it is.
  const transfer = transferCoding(response);
  if (transfer !== "chunked" && transfer !== "identity") {
    throw new MediaError("fetch_failed", `${shownHost(url)} sends its content in a transfer coding that is not known`);
  }
  const encoding = (response.headers["content-encoding"] ?? "").trim().toLowerCase();
  if (encoding === "" || encoding === "identity") return null;
  // One encoding at most: several in a row have no use but to unpack a bomb inside a bomb.
  const create = Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding] : undefined;
  if (create) return create();
  throw new MediaError("fetch_failed", `${shownHost(url)} sends its content in an encoding that it was not asked for`);
}

/** The parser has seen to it that it is a number; null when the origin does not say. */
function announcedBytes(response: IncomingMessage): number | null {
  const text = response.headers["content-length"];
  return text === undefined ? null : Number(text);
}
