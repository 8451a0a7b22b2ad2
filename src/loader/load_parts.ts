/** Several media at once, of which either all are loaded or none. */
import { MediaError } from "../errors.ts";
import type { MediaPart } from "./content_parts.ts";
import { type MediaSlot, mayPassOn } from "./messages.ts";

/** How the media of one request are loaded. */
export interface PartLoading<Loaded extends Disposable> {
  /** One medium, which is the caller's of {@link loadParts} in the end. */
  readonly load: (part: MediaPart, url: string, signal: AbortSignal) => Promise<Loaded>;
  /** Judges a URL that is passed on unfetched. @throws MediaError */
  readonly checkUrl: (url: string, signal: AbortSignal) => Promise<void>;
  readonly passesOn: boolean;
  /** Media at a time. */
  readonly concurrency: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * A slot for each part. When one fails, the others are given up, what they have is given back, and only then this fails.
 * @throws MediaError what failed first
 */
export async function loadParts<Loaded extends Disposable>(
  parts: readonly MediaPart[],
  loading: PartLoading<Loaded>,
): Promise<MediaSlot<Loaded>[]> {
  const siblings = new AbortController();
  const signal = loading.signal ? AbortSignal.any([loading.signal, siblings.signal]) : siblings.signal;
  const slots: MediaSlot<Loaded>[] = [];
  let failure: { readonly error: unknown } | null = null;
  const waiting = parts.entries();
  const work = async (): Promise<void> => {
    for (const [index, part] of waiting) {
      if (failure) return;
      try {
        slots[index] = await slotOf(part, loading, signal);
      } catch (error) {
        failure ??= { error };
        siblings.abort();
      }
    }
  };
  const workers = Math.max(1, Math.min(parts.length, loading.concurrency));
  await Promise.all(Array.from({ length: workers }, work));
  failure ??= abortOf(loading.signal);
  if (failure === null) return slots;
  for (const slot of slots) if (slot && "Decoded" in slot) slot.Decoded[Symbol.dispose]();
  throw failure.error;
}

async function slotOf<Loaded extends Disposable>(
  part: MediaPart,
  loading: PartLoading<Loaded>,
  signal: AbortSignal,
): Promise<MediaSlot<Loaded>> {
  if (part.url === null) return { UuidOnly: part.uuid ?? "" };
  try {
    return { Decoded: await loading.load(part, part.url, signal) };
  } catch (error) {
    if (!loading.passesOn || !mayPassOn(error, part.kind)) throw error;
    await loading.checkUrl(part.url, signal); // what was not fetched nobody has judged yet
    return { Url: part.url };
  }
}

function abortOf(signal: AbortSignal | undefined): { readonly error: MediaError } | null {
  if (!signal?.aborted) return null;
  return { error: new MediaError("aborted", "The caller gave up before the request's media were loaded") };
}
