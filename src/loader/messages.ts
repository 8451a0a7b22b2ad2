/** Chat requests: all their media at once, and the fields that a worker's request carries for them (Dynamo's wire). */
import { type ErrorCode, MediaError } from "../errors.ts";
import type { MediaKind } from "../fetch/index.ts";
import type { MediaDescriptor } from "../tensor/index.ts";
import { type ChatMessage, type MediaPart, type MediaPartType, PART_KINDS } from "./content_parts.ts";

/** One medium of a worker's request: its tensor's descriptor, a URL that is left to the worker, or a name that it knows. */
export type MediaSlot<Decoded = MediaDescriptor> =
  | { readonly Decoded: Decoded }
  | { readonly Url: string }
  | { readonly UuidOnly: string };

/** Slots by type of part, each list in the order of the parts. */
export type MultiModalData = { readonly [Type in MediaPartType]?: readonly MediaSlot[] };

/** What a worker is told besides its media. */
export interface ExtraArgs {
  /** The request's messages, with empty strings in place of inline media. */
  readonly messages: readonly ChatMessage[];
  /** Content hashes, when all media are images, decoded and hashed, and no user named any. */
  readonly mm_hashes?: readonly string[];
  /** The same by modality, when there are clips among them. */
  readonly mm_hashes_by_modality?: Readonly<Record<string, readonly string[]>>;
}

/** Failures of a medium that was fetched, and judged by the limits, and which another decoder may yet decode. */
const PASSED_ON: ReadonlySet<ErrorCode> = new Set([
  "media_unsupported",
  "media_corrupt",
  "no_video_stream",
  "no_frames",
  "no_audio_stream",
  "no_samples",
  "ffmpeg_unavailable",
]);

/** Whether a worker may be left a medium whose loading failed so; sound, too, where it is not taken here at all. */
export function mayPassOn(error: unknown, kind: MediaKind): boolean {
  if (!(error instanceof MediaError)) return false;
  return PASSED_ON.has(error.code) || (kind === "audio" && error.code === "modality_not_enabled");
}

/**
 * The media of one chat request. Keys in snake_case are those of the worker's request.
 *
 * Owned by whoever loaded them: `dispose()` gives back the memory of all, once the worker has read.
 */
export class LoadedMessages implements Disposable {
  readonly multi_modal_data: MultiModalData;
  /** The user's names for the media, in the shape of {@link multi_modal_data}; only when there are any. */
  readonly multi_modal_uuids?: { readonly [Type in MediaPartType]?: readonly (string | null)[] };
  readonly extra_args: ExtraArgs;

  /**
   * @param messages the request's, without inline media
   * @param slots one for each part
   */
  constructor(messages: readonly ChatMessage[], parts: readonly MediaPart[], slots: readonly MediaSlot[]) {
    this.multi_modal_data = grouped(parts, slots);
    const uuids = parts.map(({ uuid }) => uuid);
    if (uuids.some((uuid) => uuid !== null)) this.multi_modal_uuids = grouped(parts, uuids);
    this.extra_args = { messages, ...hashesOf(parts, slots) };
  }

  /** Descriptors of what was decoded, those of each type of part in order. */
  get descriptors(): MediaDescriptor[] {
    return Object.values(this.multi_modal_data)
      .flat()
      .flatMap((slot) => ("Decoded" in slot ? [slot.Decoded] : []));
  }

  /** The fields of the worker's request, descriptors' secrets included: what `JSON.stringify` prints. */
  toJSON(): object {
    const { multi_modal_data, multi_modal_uuids, extra_args } = this;
    return { multi_modal_data, ...(multi_modal_uuids && { multi_modal_uuids }), extra_args };
  }

  /** As one line of JSON, character for character what a Rust writer prints (see {@link MediaDescriptor.toWire}). */
  toWire(): string {
    const lists = Object.entries(this.multi_modal_data).map(
      ([type, slots]) => `${JSON.stringify(type)}:[${slots.map(slotWire).join(",")}]`,
    );
    const { multi_modal_uuids, extra_args } = this;
    const rest = JSON.stringify({ ...(multi_modal_uuids && { multi_modal_uuids }), extra_args }).slice(1);
    return `{"multi_modal_data":{${lists.join(",")}},${rest}`;
  }

  /** The whole time that descriptors may be held, again, from now. @returns false when one was given back already */
  renew(): boolean {
    return this.descriptors.map((descriptor) => descriptor.renew()).every(Boolean);
  }

  /** Gives back the memory of all descriptors; idempotent. */
  dispose(): void {
    for (const descriptor of this.descriptors) descriptor.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function slotWire(slot: MediaSlot): string {
  return "Decoded" in slot ? `{"Decoded":${slot.Decoded.toWire()}}` : JSON.stringify(slot);
}

function grouped<Value>(
  parts: readonly MediaPart[],
  values: readonly Value[],
): { [Type in MediaPartType]?: readonly Value[] } {
  const groups: { [Type in MediaPartType]?: Value[] } = {};
  for (const [index, { type }] of parts.entries()) {
    const group = groups[type] ?? [];
    groups[type] = group;
    group.push(values[index] as Value);
  }
  return groups;
}

function hashesOf(
  parts: readonly MediaPart[],
  slots: readonly MediaSlot[],
): Pick<ExtraArgs, "mm_hashes" | "mm_hashes_by_modality"> {
  const hashes = slots.map((slot) => ("Decoded" in slot ? slot.Decoded.contentHash : null));
  const isComplete = parts.every(({ uuid }, index) => uuid === null && hashes[index] !== null);
  if (parts.length === 0 || !isComplete) return {};
  const names = hashes.filter((hash) => hash !== null);
  if (parts.every(({ kind }) => kind === "image")) return { mm_hashes: names };
  const byType = Object.entries(grouped(parts, names));
  return {
    mm_hashes_by_modality: Object.fromEntries(
      byType.map(([type, group]) => [PART_KINDS[type as MediaPartType], group]),
    ),
  };
}
