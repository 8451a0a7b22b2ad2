/** The remote agents that a reader knows, by the metadata text they came in. */
import { inflateSync } from "node:zlib";
import type { NativeAgent } from "../../ffi/agent.ts";
import { asMediaError, MediaError } from "../errors.ts";
import { runEveryStep } from "./teardown.ts";

const PREFIX = "b64:";
/** Metadata of thousands of registrations is a few hundred KiB; more is an attack on memory. */
const MAXIMUM_METADATA_BYTES = 16 * 1024 * 1024;
/** Of a metadata blob: its agent's name is its first field, behind a short tag. */
const BYTES_WITH_NAME = 1024;
/** Texts that are remembered; the least recently used one is forgotten beyond it. */
const MAXIMUM_TEXTS = 1024;

interface Remote {
  readonly name: string;
  readonly texts: Set<string>;
  /** Leases that are out: transfers that run, or are about to. */
  leases: number;
  /** The connection failed: to be forgotten when the last lease ends. */
  broken: boolean;
  /** Resolved when the agent is forgotten. */
  readonly forgotten: PromiseWithResolvers<void>;
}

/** The right to run one transfer from a remote agent. */
export interface RemoteLease {
  /** The remote agent's name. */
  readonly name: string;
  /**
   * Ends the lease; idempotent.
   * @param outcome `broken` when the connection failed: the next descriptor of that agent connects anew
   */
  end(outcome: "intact" | "broken"): void;
}

/**
 * Loads each metadata text once.
 *
 * libnixl drops a remote's transfers when the remote is forgotten. So it is forgotten only while nothing is leased: a broken
 * one after its last lease, with those who want it meanwhile waiting; one whose texts are no longer remembered likewise.
 */
export class RemoteAgents {
  readonly #agent: NativeAgent;
  readonly #maximumTexts: number;
  /** The least recently used text first. */
  readonly #byText = new Map<string, Remote>();
  readonly #byName = new Map<string, Remote>();

  constructor(agent: NativeAgent, maximumTexts = MAXIMUM_TEXTS) {
    this.#agent = agent;
    this.#maximumTexts = maximumTexts;
  }

  /** How many agents are known. */
  get size(): number {
    return this.#byName.size;
  }

  /**
   * A lease on the agent that a metadata text describes; connects to it when it is not known, which takes tens of
   * milliseconds. Waits while that agent's connection is broken and transfers over it still run.
   * @throws MediaError descriptor_invalid, nixl_failed
   */
  async lease(metadataText: string): Promise<RemoteLease> {
    let remote = this.#byText.get(metadataText) ?? this.#load(metadataText);
    while (remote.broken) {
      await remote.forgotten.promise;
      remote = this.#byText.get(metadataText) ?? this.#load(metadataText);
    }
    this.#remember(metadataText, remote);
    return this.#leaseOf(remote);
  }

  /**
   * Loads a text once more, without forgetting anything: for a remote that libnixl no longer knows by all it once loaded.
   * @throws MediaError descriptor_invalid, nixl_failed
   */
  reload(metadataText: string): void {
    this.#agent.loadRemote(decodeMetadata(metadataText));
  }

  /** Forgets everything, leased or not. @throws MediaError nixl_failed when libnixl refuses; all others are forgotten */
  forgetAll(): void {
    const remotes = [...this.#byName.values()];
    this.#byName.clear();
    this.#byText.clear();
    for (const remote of remotes) remote.forgotten.resolve();
    runEveryStep(
      "the connections",
      remotes.map((remote) => () => this.#agent.forgetRemote(remote.name)),
    );
  }

  #load(metadataText: string): Remote {
    const blob = decodeMetadata(metadataText);
    let name: string;
    try {
      name = this.#agent.loadRemote(blob);
    } catch (error) {
      // An owner that was started again under its old name connects in another way, which libnixl refuses to take over.
      if (!this.#forgetNamesakes(blob)) throw error;
      name = this.#agent.loadRemote(blob);
    }
    const known = this.#byName.get(name);
    if (known) return known;
    const forgotten = Promise.withResolvers<void>();
    const remote: Remote = { name, texts: new Set(), leases: 0, broken: false, forgotten };
    this.#byName.set(name, remote);
    return remote;
  }

  #remember(text: string, remote: Remote): void {
    remote.texts.add(text);
    this.#byText.delete(text);
    this.#byText.set(text, remote);
    const oldest = this.#byText.entries().next().value;
    if (this.#byText.size <= this.#maximumTexts || !oldest) return;
    const [oldestText, owner] = oldest;
    this.#byText.delete(oldestText);
    owner.texts.delete(oldestText);
    this.#forgetWhenIdle(owner);
  }

  #leaseOf(remote: Remote): RemoteLease {
    remote.leases += 1;
    let ended = false;
    return {
      name: remote.name,
      end: (outcome) => {
        if (ended) return;
        ended = true;
        remote.leases -= 1;
        if (outcome === "broken") remote.broken = true;
        this.#forgetWhenIdle(remote);
      },
    };
  }

  /** Forgets agents that nothing is read from and whose name a blob bears. @returns whether there were any */
  #forgetNamesakes(blob: Uint8Array): boolean {
    const start = Buffer.from(blob.buffer, blob.byteOffset, Math.min(blob.byteLength, BYTES_WITH_NAME));
    const namesakes = [...this.#byName.values()].filter(({ name, leases }) => leases === 0 && start.includes(name));
    for (const remote of namesakes) this.#forget(remote);
    return namesakes.length > 0;
  }

  #forgetWhenIdle(remote: Remote): void {
    const unwanted = remote.broken || remote.texts.size === 0;
    if (remote.leases === 0 && unwanted && this.#byName.get(remote.name) === remote) this.#forget(remote);
  }

  #forget(remote: Remote): void {
    this.#byName.delete(remote.name);
    for (const text of remote.texts) this.#byText.delete(text);
    try {
      this.#agent.forgetRemote(remote.name);
    } catch {
      // libnixl does not know it any more, which is what was wanted. What failed is told by whoever broke it.
    }
    remote.forgotten.resolve();
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
