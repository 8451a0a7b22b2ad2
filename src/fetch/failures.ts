/** What went wrong on the way to an origin, as coded errors: the host and a short reason, never a path or a query. */
import { closeSync, openSync } from "node:fs";
import { MediaError } from "../errors.ts";
import { codeOf, isSystemCode, systemFailed } from "./system_failure.ts";
import { shownHost } from "./url_policy.ts";

/** Reasons in words, by code or its beginning. */
const REASONS: readonly (readonly [code: string, reason: string])[] = [
  ["ECONNREFUSED", "it refuses connections"],
  ["ECONNRESET", "it broke off"],
  ["EPIPE", "it broke off"],
  ["EHOSTUNREACH", "it cannot be reached"],
  ["ENETUNREACH", "it cannot be reached"],
  ["ETIMEDOUT", "it cannot be reached"],
  ["HPE_HEADER_OVERFLOW", "its header is too long"],
  ["HPE_", "it does not speak HTTP as it should"],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "its certificate is for another name"],
  ["CERT_", "its certificate is not valid"],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", "its certificate is not from a trusted authority"],
  ["SELF_SIGNED_CERT_IN_CHAIN", "its certificate is not from a trusted authority"],
  ["UNABLE_TO_", "its certificate is not from a trusted authority"],
  ["Z_", "its content is damaged"],
  ["ERR__ERROR_FORMAT", "its content is damaged"],
  ["ERR_BROTLI", "its content is damaged"],
];

/** A failure of the network, or of this machine when it is that: 4xx is the origin's fault, 5xx is ours. */
export function fetchFailure(url: URL, cause: unknown): MediaError {
  if (cause instanceof MediaError) return cause;
  return (
    systemFailure(cause) ??
    new MediaError("fetch_failed", `${shownHost(url)} cannot be fetched from: ${reasonOf(cause)}`, { cause })
  );
}

/** A failure on the way to the proxy that is configured: no medium's fault. Which proxy it is, is nothing for strangers. */
export function proxyFailure(cause: unknown): MediaError {
  if (cause instanceof MediaError) return cause;
  return (
    systemFailure(cause) ??
    new MediaError("egress_proxy_failed", `The proxy cannot be used: ${reasonOf(cause)}`, { cause })
  );
}

/** A name that could not be looked up. */
export function resolveFailure(url: URL, cause: unknown): MediaError {
  const own = systemFailure(cause);
  if (own) return own;
  const code = lookupCode(cause);
  const isUnknown = code === "ENOTFOUND" || code === "ENODATA";
  const reason = isUnknown ? "is not found" : `cannot be looked up (${code})`;
  return new MediaError("fetch_failed", `The name ${shownHost(url)} ${reason}`, { cause });
}

/** As the resolver of Node names it; c-ares has a prefix of its own for Bun. */
function lookupCode(error: unknown): string {
  return codeOf(error).replace(/^DNS_/, "");
}

function reasonOf(cause: unknown): string {
  const code = codeOf(cause);
  const reason = REASONS.find(([start]) => code.startsWith(start))?.[1] ?? "the connection failed";
  return `${reason} (${code})`;
}

/** Null when it is not this machine that failed. */
function systemFailure(cause: unknown): MediaError | null {
  const code = lookupCode(cause);
  if (!isSystemCode(code) && !isOutOfDescriptors()) return null;
  return systemFailed("The system has no means for another fetch", code, cause);
}

/**
 * Whether this process can open nothing any more. Without descriptors Bun reports refused connections and unknown names,
 * which would blame the origin.
 */
function isOutOfDescriptors(): boolean {
  try {
    closeSync(openSync("/dev/null", "r"));
    return false;
  } catch (error) {
    return isSystemCode(codeOf(error));
  }
}
