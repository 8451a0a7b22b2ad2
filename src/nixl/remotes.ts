/** The remote agents that a reader knows, by the metadata text they came in. */
import { inflateSync } from "node:zlib";
import type { NativeAgent } from "../../ffi/agent.ts";
import { asMediaError, MediaError } from "../errors.ts";

const PREFIX = "b64:";
/** Metadata of thousands of registrations is a few hundred KiB; more is an attack on memory. */
const MAXIMUM_METADATA_BYTES = 16 * 1024 * 1024;
/** Texts that are remembered; the least recently used one is forgotten beyond it. */
const MAXIMUM_TEXTS = 1024;

/**
 * Loads each metadata text once. A text is not loaded again when an older one comes after a newer one of the same agent:
 * what it covers is known already, and loading it would make the agent forget the newer registrations.
 */
export class RemoteAgents {
  readonly #agent: NativeAgent;
  readonly #names = new Map<string, string>();

  constructor(agent: NativeAgent) {
    this.#agent = agent;
  }

  /** The name of the agent that a metadata text describes. @throws MediaError descriptor_invalid, nixl_failed */
  nameOf(metadataText: string): string {
    const known = this.#names.get(metadataText);
    const name = known ?? this.#agent.loadRemote(decodeMetadata(metadataText));
    this.#names.delete(metadataText);
    this.#names.set(metadataText, name);
    const oldest = this.#names.keys().next().value;
    if (this.#names.size > MAXIMUM_TEXTS && oldest !== undefined) this.#forgetText(oldest);
    return name;
  }

  /** Forgets an agent, whatever text it came in: the next descriptor of it connects anew. */
  forget(name: string): void {
    const texts = [...this.#names].filter(([, known]) => known === name).map(([text]) => text);
    for (const text of texts) this.#names.delete(text);
    if (texts.length > 0) this.#agent.forgetRemote(name);
  }

  forgetAll(): void {
    for (const name of new Set(this.#names.values())) this.forget(name);
  }

  #forgetText(text: string): void {
    const name = this.#names.get(text);
    this.#names.delete(text);
    if (name !== undefined && ![...this.#names.values()].includes(name)) this.#agent.forgetRemote(name);
  }
}

/** The metadata blob in a descriptor's text: `b64:` + base64(zlib(blob)). @throws MediaError descriptor_invalid */
function decodeMetadata(text: string): Uint8Array {
  if (!text.startsWith(PREFIX))
    throw new MediaError("descriptor_invalid", `nixl_metadata does not begin with "${PREFIX}"`);
  try {
    return inflateSync(Buffer.from(text.slice(PREFIX.length), "base64"), { maxOutputLength: MAXIMUM_METADATA_BYTES });
  } catch (error) {
    throw asMediaError(error, "descriptor_invalid", "nixl_metadata cannot be unpacked");
  }
}
