/** What may be fetched, and how much of it: one schema, which is the types, the checks and the documentation. */
import { z } from "zod";

const MEBIBYTE = 1024 * 1024;
/** What timers of JavaScript can count to, seconds. */
const MOST_SECONDS = 2_147_483;

const seconds = z.number().positive().max(MOST_SECONDS);
const byteLimit = z.int().positive();
const flag = z.boolean().default(false);

/** The policy under which a stranger's URLs are fetched. JSON that a fleet deploys, hence snake_case. */
export const fetchPolicySchema = z
  .strictObject({
    allow_direct_ip: flag.describe("Whether a URL may name an address instead of a host"),
    allow_direct_port: flag.describe("Whether a URL may name a port other than its scheme's own"),
    allow_private_ips: flag.describe(
      "Whether names and addresses inside are reached: loopback, private, link-local, reserved",
    ),
    allowed_media_domains: z
      .array(z.string().min(1))
      .nullable()
      .default(null)
      .describe("Hosts that are fetched from, each in full (no suffixes); null: all"),
    timeout: seconds
      .nullable()
      .default(30)
      .describe("Most time for one fetch, redirects and waiting included, seconds; null: none"),
    idle_timeout: seconds.default(10).describe("Most time without a byte from the origin, seconds"),
    user_agent: z.string().min(1).default("dynamo-ai/dynamo").describe("User-Agent header"),
    allow_https_to_http: flag.describe("Whether a redirect may go from https down to http"),
    allowed_local_path: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .describe("Folder below which file: URLs are read, symbolic links resolved; null: none are"),
    trust_egress_proxy: flag.describe(
      "Whether a configured HTTP proxy is used, which then is to check addresses; without it, it is refused",
    ),
    tls_ca: z
      .string()
      .min(1)
      .optional()
      .describe("PEM certificates of authorities that are trusted besides the built-in ones"),
    max_image_bytes: byteLimit.default(64 * MEBIBYTE).describe("Most encoded bytes of a fetched image"),
    max_audio_bytes: byteLimit.default(64 * MEBIBYTE).describe("Most encoded bytes of fetched sound"),
    max_video_bytes: byteLimit.default(512 * MEBIBYTE).describe("Most encoded bytes of a fetched clip"),
    max_data_url_bytes: byteLimit.default(16 * MEBIBYTE).describe("Most bytes that a data URL may hold, decoded"),
    max_local_bytes: byteLimit
      .default(512 * MEBIBYTE)
      .describe("Most bytes of a file of this machine, or of bytes given"),
    max_spooled_bytes: byteLimit
      .default(4096 * MEBIBYTE)
      .describe(
        "Most memory that fetched media of more than 16 MiB take, all together, until they are decoded; more are refused",
      ),
    max_fetches: z.int().positive().default(64).describe("Fetches at the same time, all together"),
    max_fetches_per_origin: z.int().positive().default(16).describe("Fetches at the same time from one origin"),
    max_waiting_fetches: z
      .int()
      .nonnegative()
      .default(1024)
      .describe("Fetches that may wait for their turn; more are refused"),
  })
  .meta({ title: "FetchPolicy", description: "What may be fetched, and how much of it." });
export type FetchPolicyOptions = z.input<typeof fetchPolicySchema>;
/** The policy with every default filled in. */
export type FetchPolicy = z.output<typeof fetchPolicySchema>;
