/** Trouble that is this machine's own, whatever was fetched or read. */
import { MediaError } from "../errors.ts";

/** EADDRNOTAVAIL is what connecting says when no port is free. */
const SYSTEM_CODES: ReadonlySet<string> = new Set([
  "EMFILE",
  "ENFILE",
  "ENOMEM",
  "ENOBUFS",
  "ENOSPC",
  "EAGAIN",
  "EADDRNOTAVAIL",
  "EIO",
]);

/** The code of an error; a fixed word for what is no error with a code, so that messages quote nothing. */
export function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^\w{1,60}$/.test(code) ? code : "unknown reason";
}

export function isSystemCode(code: string): boolean {
  return SYSTEM_CODES.has(code);
}

/** @param refusal what cannot be done, as a sentence */
export function systemFailed(refusal: string, code: string, cause: unknown): MediaError {
  return new MediaError("system_failed", `${refusal} (${code})`, { cause });
}
