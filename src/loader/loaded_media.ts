/** Media that are loaded and not described yet: a clip may have its sound beside it. */
import type { MediaPart } from "./content_parts.ts";
import type { MediaSlot } from "./messages.ts";
import type { SharedTensor } from "./shared_tensor.ts";

/** A share of a tensor, and of its tenant's allowance. Whoever describes it takes both over. */
export class LoadedTensor implements Disposable {
  readonly tensor: SharedTensor;
  /** Ends its part of the tenant's share. */
  readonly endHold: () => void;

  constructor(tensor: SharedTensor, endHold: () => void) {
    this.tensor = tensor;
    this.endHold = endHold;
  }

  [Symbol.dispose](): void {
    this.tensor.release();
    this.endHold();
  }
}

/** What one part of a request gave. */
export class LoadedMedium implements Disposable {
  readonly main: LoadedTensor;
  /** A clip's, where it was asked for and there is one. */
  readonly sound: LoadedTensor | null;

  constructor(main: LoadedTensor, sound: LoadedTensor | null) {
    this.main = main;
    this.sound = sound;
  }

  [Symbol.dispose](): void {
    this.main[Symbol.dispose]();
    this.sound?.[Symbol.dispose]();
  }
}

/** Parts and slots, with a part of its own for each sound, behind its clip's. */
export function withSounds(
  parts: readonly MediaPart[],
  slots: readonly MediaSlot<LoadedMedium>[],
): { readonly parts: MediaPart[]; readonly slots: MediaSlot<LoadedTensor>[] } {
  const all: [MediaPart, MediaSlot<LoadedTensor>][] = parts.flatMap((part, index) => {
    const slot = slots[index] as MediaSlot<LoadedMedium>;
    if (!("Decoded" in slot)) return [[part, slot]];
    const { main, sound } = slot.Decoded;
    const own: [MediaPart, MediaSlot<LoadedTensor>] = [part, { Decoded: main }];
    if (!sound) return [own];
    return [own, [{ type: "audio_url", kind: "audio", url: part.url, uuid: null }, { Decoded: sound }]];
  });
  return { parts: all.map(([part]) => part), slots: all.map(([, slot]) => slot) };
}
