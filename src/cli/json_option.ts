/** Options that are given as JSON on the command line. */
import { MediaError } from "../errors.ts";

/** The object in a `--name JSON` option; undefined when the option is absent. @throws MediaError invalid_options */
export function jsonOption(name: string, text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new MediaError("invalid_options", `--${name} is not JSON`, { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new MediaError("invalid_options", `--${name} must be a JSON object`);
  }
  return value as Record<string, unknown>;
}
