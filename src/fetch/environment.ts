/** The policy as a fleet sets it, by environment variables. */
import { type Environment, type EnvironmentName, readEnvironment } from "../../ffi/environment.ts";
import { MediaError } from "../errors.ts";
import { type FetchPolicyOptions, fetchPolicySchema } from "./policy.ts";

const MEBIBYTE = 1024 * 1024;
const FLAGS: Readonly<Record<string, boolean>> = {
  "1": true,
  true: true,
  yes: true,
  on: true,
  "0": false,
  false: false,
  no: false,
  off: false,
};

/**
 * The options that the environment sets; what it does not mention is left out, so that others can be laid over or under it.
 * @throws MediaError invalid_options for values that cannot be what was meant: a limit that is silently not there protects nobody
 */
export function fetchPolicyFromEnv(environment: Environment = process.env): FetchPolicyOptions {
  const options: FetchPolicyOptions = {};
  const ifSet = <T>(
    name: EnvironmentName,
    parse: (name: EnvironmentName, text: string) => T,
    set: (value: T) => void,
  ) => {
    if (environment[name]) set(parse(name, readEnvironment(name, environment) ?? ""));
  };
  ifSet("DYN_MM_ALLOW_INTERNAL", flag, (allowed) => {
    options.allow_direct_ip = allowed;
    options.allow_direct_port = allowed;
    options.allow_private_ips = allowed;
  });
  ifSet("DYN_MM_MAX_FILE_SIZE_MB", mebibytes, (limit) => {
    options.max_image_bytes = limit;
    options.max_audio_bytes = limit;
    options.max_video_bytes = Math.max(limit, fetchPolicySchema.parse({}).max_video_bytes);
  });
  ifSet("DYN_MM_MAX_DATA_URL_MB", mebibytes, (limit) => {
    options.max_data_url_bytes = limit;
  });
  ifSet(
    "DYN_MM_LOCAL_PATH",
    (_, path) => path,
    (path) => {
      options.allowed_local_path = path;
    },
  );
  ifSet("DYN_MM_TRUST_EGRESS_PROXY", flag, (trusted) => {
    options.trust_egress_proxy = trusted;
  });
  return options;
}

function flag(name: EnvironmentName, text: string): boolean {
  const key = text.trim().toLowerCase();
  const value = Object.hasOwn(FLAGS, key) ? FLAGS[key] : undefined;
  if (value === undefined) throw new MediaError("invalid_options", `${name} is to be 1 or 0`);
  return value;
}

/** A whole number of MiB, in bytes. */
function mebibytes(name: EnvironmentName, text: string): number {
  const value = /^\d{1,7}$/.test(text.trim()) ? Number(text) : 0;
  if (value === 0) throw new MediaError("invalid_options", `${name} is to be a whole number of MiB, 1 or more`);
  return value * MEBIBYTE;
}
