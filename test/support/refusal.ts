import { MediaError } from "../../src/errors.ts";

/** The coded error that work ends with; anything else fails the test. */
export async function refusal(work: Promise<unknown>): Promise<MediaError> {
  const outcome = await work.catch((error: unknown) => error);
  if (outcome instanceof MediaError) return outcome;
  throw new Error(`not refused with a MediaError: ${outcome}`);
}
