/** Decimal text of 64-bit floats exactly as Rust's serde_json prints them, because that text enters the video hash. */
import { MediaError } from "../errors.ts";

/** Scientific exponents from here up to {@link LAST_PLAIN_EXPONENT} print as plain decimals. */
const FIRST_PLAIN_EXPONENT = -5;
const LAST_PLAIN_EXPONENT = 15;

/**
 * Prints an f64 like serde_json 1.x: the shortest digits that read back as the same number; always with a fraction or an
 * exponent (`24.0`); plain from 1e-5 up to below 1e16, otherwise as an exponent with its sign (`1.5e-7`, `1e+16`); -0.0
 * keeps its sign.
 *
 * ECMAScript's own printing finds the same shortest digits (both take the closest of them to the number) and differs only
 * in layout: no `.0`, and other limits (1e-6, 1e21). So the digits are taken from `toExponential()` and laid out anew.
 *
 * @throws MediaError invalid_argument for NaN and infinities. serde_json prints `null` for them, which would give clips
 * with different metadata one text and so one hash.
 */
export function formatSerdeFloat(value: number): string {
  if (!Number.isFinite(value)) {
    throw new MediaError("invalid_argument", `${value} cannot be written as a JSON number`);
  }
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const [mantissa = "", exponentText = ""] = Math.abs(value).toExponential().split("e");
  const exponent = Number(exponentText);
  if (exponent < FIRST_PLAIN_EXPONENT || exponent > LAST_PLAIN_EXPONENT) {
    return `${sign}${mantissa}e${exponentText}`;
  }
  const digits = mantissa.replace(".", "");
  if (exponent < 0) {
    return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  }
  const integerDigits = exponent + 1;
  const integer = digits.slice(0, integerDigits).padEnd(integerDigits, "0");
  const fraction = digits.slice(integerDigits);
  return `${sign}${integer}.${fraction === "" ? "0" : fraction}`;
}
