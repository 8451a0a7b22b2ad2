/** Zod at the edges: what it found as one line, and options that refuse misspellings. */
import type { z } from "zod";
import { MediaError } from "./errors.ts";

const ISSUES_SHOWN = 3;
/** What timers of JavaScript can count to, ms; beyond it they fire at once. */
export const MAXIMUM_DELAY_MS = 2 ** 31 - 1;

/**
 * The issues of a failed parse as one line, `path: what is wrong` each. Values are never repeated, nor keys that are none of a
 * misspelt option: a descriptor holds a secret, and options may hold anything.
 */
export function describeIssues(error: z.ZodError): string {
  const lines = error.issues.slice(0, ISSUES_SHOWN).map((issue) => {
    const path = issue.path.map(shownKey).join(".");
    const message = issue.code === "unrecognized_keys" ? unrecognized(issue.keys) : issue.message;
    return path === "" ? message : `${path}: ${message}`;
  });
  const left = error.issues.length - lines.length;
  return left > 0 ? `${lines.join("; ")}; and ${left} more` : lines.join("; ");
}

function unrecognized(keys: readonly string[]): string {
  return `Unrecognized key${keys.length > 1 ? "s" : ""}: ${keys
    .slice(0, ISSUES_SHOWN)
    .map((key) => `"${shownKey(key)}"`)
    .join(", ")}`;
}

function shownKey(key: PropertyKey): string {
  const text = String(key);
  return /^[\w$-]{1,60}$/.test(text) ? text : "(a key that is none)";
}

/**
 * Options checked against their schema, defaults filled in.
 * @param what names the options in the message, e.g. "agent options"
 * @throws MediaError invalid_options naming what is misspelt, missing or out of range
 */
export function parseOptions<Schema extends z.ZodType>(
  schema: Schema,
  options: unknown,
  what = "options",
): z.output<Schema> {
  let result: z.ZodSafeParseResult<z.output<Schema>>;
  try {
    result = schema.safeParse(options);
  } catch (cause) {
    throw new MediaError("invalid_options", `invalid ${what}: they cannot be read`, { cause }); // a getter that throws
  }
  if (!result.success) {
    throw new MediaError("invalid_options", `invalid ${what}: ${describeIssues(result.error)}`, {
      cause: result.error,
    });
  }
  return result.data;
}

/** What is given as undefined is not said. */
export function withoutUndefined(options: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
