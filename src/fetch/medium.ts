/** What is fetched, how, and what comes of it. */
import { z } from "zod";
import type { EncodedMedium } from "../encoded.ts";

/** What can be loaded: encoded bytes, a file named by the program, or a URL. A bare string is a URL, never a path. */
export type MediaSource = Uint8Array | ArrayBuffer | { readonly path: string } | string | URL;

/** What a medium is expected to be, which decides how large it may be. */
export type MediaKind = "image" | "video" | "audio";

/** What a header field may hold; these values come from origins. */
const fieldValue = z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/, "no text for a header field");

const validatorsSchema = z.strictObject({
  url: z
    .string()
    .optional()
    .describe(
      "URL of the copy that the caller has, behind all redirects: only there does it mean anything; default the one fetched",
    ),
  etag: fieldValue.optional().describe("ETag of the copy that the caller has, sent as If-None-Match"),
  lastModified: fieldValue.optional().describe("Last-Modified of that copy, sent as If-Modified-Since"),
});

/** What a caller knows of its own copy. */
export type Validators = z.output<typeof validatorsSchema>;

/** Settings of one fetch. */
export const fetchRequestSchema = z.strictObject({
  kind: z
    .enum(["image", "video", "audio"])
    .optional()
    .describe("Decides how many bytes are taken from an origin; unset, as many as of a clip"),
  signal: z.instanceof(AbortSignal).optional().describe("Gives up at once"),
  digest: z.boolean().default(false).describe("Whether the SHA-256 of the encoded bytes is wanted"),
  validators: validatorsSchema
    .optional()
    .describe("What the caller knows of its own copy: the origin may answer that it is current"),
});
export type FetchRequest = z.input<typeof fetchRequestSchema>;

/** What an origin said about one URL, as far as it matters to a cache; never credentials. */
export interface HttpAnswer {
  readonly url: string;
  readonly status: number;
  /**
   * Header fields that decide whether an answer may be used again, names in lower case. That there was a `set-cookie` can be
   * told, not what it was.
   */
  readonly headers: Readonly<Record<string, string>>;
}

/** The last answer, and those that redirected to it, in their order. */
export interface HttpFacts extends HttpAnswer {
  readonly redirects: readonly HttpAnswer[];
}

/** An encoded medium. A file is disposed of by the caller. */
export interface FetchedMedium {
  readonly notModified: false;
  readonly encoded: EncodedMedium;
  /** Of the encoded bytes, 64 hex digits; null when it was not wanted, and for files that stay on disk. */
  readonly sha256: string | null;
  /** Null for what did not come over HTTP. */
  readonly response: HttpFacts | null;
}

/** The origin says that the copy which the request's validators describe is current. */
export interface NotModified {
  readonly notModified: true;
  readonly response: HttpFacts;
}
