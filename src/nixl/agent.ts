/** The agent that serves this process's tensors: its name, its metadata text, and the notifications that readers leave. */
import { randomUUID } from "node:crypto";
import { deflateSync } from "node:zlib";
import { z } from "zod";
import { NativeAgent, type NativeRegistration, type Notification } from "../../ffi/agent.ts";
import { readEnvironment } from "../../ffi/environment.ts";
import { MediaError } from "../errors.ts";
import { parseOptions } from "../options.ts";

/** zlib level that readers' own writers use; any level can be read. */
const METADATA_COMPRESSION_LEVEL = 6;
/** Microseconds. */
const MAXIMUM_PROGRESS_DELAY = 1_000_000;

/** Settings of an agent. */
export const nixlAgentOptionsSchema = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe("Agent name, unique in the fleet; default media-loader-<uuid v4>"),
  backend: z.string().min(1).default("UCX").describe("NIXL plugin that moves the bytes"),
  progressDelayMicroseconds: z
    .int()
    .min(0)
    .max(MAXIMUM_PROGRESS_DELAY)
    .optional()
    .describe("Longest pause of the progress thread, µs; default DYN_MM_NIXL_PROGRESS_DELAY_US, else 5000"),
  drainIntervalMs: z
    .int()
    .min(10)
    .max(60_000)
    .default(1000)
    .describe("How often notifications left by readers are taken, ms; they pile up otherwise"),
});
export type NixlAgentOptions = z.input<typeof nixlAgentOptionsSchema>;

/**
 * A NIXL agent with few, long-lived registrations.
 *
 * Owned by whoever created it; `dispose()` ends it. One thread uses it.
 */
export class NixlAgent implements Disposable {
  readonly #native: NativeAgent;
  readonly #drain: ReturnType<typeof setInterval>;
  #metadata: string | null = null;
  #taken = 0;
  #drainFailed = false;
  /** Called with what readers left; set by whoever waits for release keys. */
  onNotification: ((notification: Notification) => void) | null = null;

  /** Takes about 0.4 s with UCX: create it at start-up. @throws MediaError nixl_unavailable, nixl_failed, invalid_options */
  constructor(options: NixlAgentOptions = {}) {
    const settings = parseOptions(nixlAgentOptionsSchema, options, "agent options");
    this.#native = NativeAgent.create({
      name: settings.name ?? `media-loader-${randomUUID()}`,
      backend: settings.backend,
      progressDelayMicroseconds: settings.progressDelayMicroseconds ?? progressDelayFromEnvironment(),
    });
    this.#drain = setInterval(() => this.#drainQuietly(), settings.drainIntervalMs);
    this.#drain.unref();
  }

  /** The name under which readers know this agent. */
  get name(): string {
    return this.#native.name;
  }

  /**
   * Registers memory, so that readers can fetch from it. The memory must stay mapped until {@link deregister} returned,
   * and the same (address, length) is never to be registered twice.
   * @throws MediaError registration_failed, with NIXL's status as the cause
   */
  register(address: number, byteLength: number): NativeRegistration {
    if (byteLength === 0)
      throw new MediaError("registration_failed", "An empty payload cannot be registered with NIXL");
    try {
      const registration = this.#native.register(address, byteLength);
      this.#metadata = null;
      return registration;
    } catch (error) {
      const cause = error instanceof MediaError && error.code === "nixl_failed" ? error.cause : error;
      throw new MediaError("registration_failed", "The storage could not be registered with NIXL", { cause });
    }
  }

  /** @throws MediaError nixl_failed: then the memory must never be unmapped */
  deregister(registration: NativeRegistration): void {
    this.#native.deregister(registration);
    this.#metadata = null;
  }

  /**
   * `b64:` + base64(zlib(metadata)). The same text until a registration changes.
   *
   * A secret: whoever has it can read this process's memory. Never log it.
   */
  metadataText(): string {
    this.#metadata ??= `b64:${deflateSync(this.#native.localMetadata(), { level: METADATA_COMPRESSION_LEVEL }).toString("base64")}`;
    return this.#metadata;
  }

  /**
   * Takes the notifications that readers left; also runs on a timer.
   * @returns how many there were
   * @throws MediaError nixl_failed, and what {@link onNotification} throws
   */
  drainNotifications(): number {
    if (this.#native.disposed) return 0;
    const notifications = this.#native.takeNotifications();
    this.#taken += notifications.length;
    for (const notification of notifications) this.onNotification?.(notification);
    return notifications.length;
  }

  /** On the timer nobody can catch: a failure is told once, and the next round tries again. */
  #drainQuietly(): void {
    try {
      this.drainNotifications();
      this.#drainFailed = false;
    } catch (error) {
      if (!this.#drainFailed) console.warn(`nixl-media: notifications could not be taken: ${error}`);
      this.#drainFailed = true;
    }
  }

  /** Notifications taken since the agent was created: one per finished read of a well-behaved reader. */
  get notificationsTaken(): number {
    return this.#taken;
  }

  /** Ends the agent; idempotent. Registrations are to be ended before. @throws MediaError nixl_failed */
  dispose(): void {
    clearInterval(this.#drain);
    this.#native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A new agent named `media-loader-<uuid v4>` on UCX, with a progress thread. The caller disposes of it. */
export function getNixlAgent(options: NixlAgentOptions = {}): NixlAgent {
  return new NixlAgent(options);
}

/** The agent's metadata as it stands in descriptors; computed once per change of registrations. A secret. */
export function getNixlMetadata(agent: NixlAgent): string {
  return agent.metadataText();
}

/** `DYN_MM_NIXL_PROGRESS_DELAY_US`, µs. @throws MediaError invalid_options when it is no whole number in range */
export function progressDelayFromEnvironment(): number {
  const text = readEnvironment("DYN_MM_NIXL_PROGRESS_DELAY_US") ?? "";
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > MAXIMUM_PROGRESS_DELAY) {
    throw new MediaError(
      "invalid_options",
      `DYN_MM_NIXL_PROGRESS_DELAY_US must be a whole number from 0 to ${MAXIMUM_PROGRESS_DELAY}`,
    );
  }
  return value;
}
