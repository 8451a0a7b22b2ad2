/** libnixl's agent as plain calls: each method is one native operation. Policy (names, pools, caching) is src/nixl's. */
import { MediaError } from "../src/errors.ts";
import { check, checkProgress, cString, numberOf, openNixl, pointerOf, shim, textOf, viewOf } from "./native.ts";

/** Longest agent name taken from a remote's metadata, with its NUL. */
const NAME_CAPACITY = 512;

/** Registered memory; ended by {@link NativeAgent.deregister}. */
export interface NativeRegistration {
  readonly handle: number;
  readonly address: number;
  readonly byteLength: number;
}

/** A posted read; ended by {@link NativeAgent.release}. */
export interface NativeTransfer {
  readonly handle: number;
}

/** What a reader left behind after reading. */
export interface Notification {
  /** Name of the agent that sent it. */
  readonly agent: string;
  readonly message: Uint8Array;
}

/**
 * One libnixl agent with a progress thread and one backend. One thread at a time may use it.
 *
 * Teardown order: forget remotes, release transfers, deregister, then `dispose()`.
 */
export class NativeAgent implements Disposable {
  #handle: number;
  readonly name: string;

  private constructor(name: string, handle: number) {
    this.name = name;
    this.#handle = handle;
  }

  /**
   * Opens libnixl and creates an agent; takes about 0.4 s with UCX, so do it at start-up.
   * @param options.progressDelayMicroseconds pause of the progress thread between polls; 0 spins a whole core
   * @throws MediaError nixl_unavailable, nixl_failed
   */
  static create(options: { name: string; backend: string; progressDelayMicroseconds: number }): NativeAgent {
    openNixl();
    const out = new BigUint64Array(1);
    check(shim().agent_create(cString(options.name), cString(options.backend), options.progressDelayMicroseconds, out));
    return new NativeAgent(options.name, numberOf(out[0]));
  }

  /** Registers host memory that outlives the registration. Nothing is kept when it fails. @throws MediaError nixl_failed */
  register(address: number, byteLength: number): NativeRegistration {
    const out = new BigUint64Array(1);
    check(shim().agent_register(this.#pointer(), address, byteLength, out));
    return { handle: numberOf(out[0]), address, byteLength };
  }

  /** @throws MediaError nixl_failed: then the memory must stay mapped, since the transport may still reach it */
  deregister(registration: NativeRegistration): void {
    check(shim().agent_deregister(this.#pointer(), pointerOf(registration.handle)));
  }

  /** The agent's metadata blob: connection and all registrations. @throws MediaError nixl_failed, also for an empty blob */
  localMetadata(): Uint8Array {
    const out = new BigUint64Array(2);
    check(shim().agent_local_metadata(this.#pointer(), out.subarray(0, 1), out.subarray(1, 2)));
    return takeBytes(out);
  }

  /** Takes in another agent's metadata blob; gives that agent's name. @throws MediaError nixl_failed */
  loadRemote(metadata: Uint8Array): string {
    const name = new Uint8Array(NAME_CAPACITY);
    check(shim().agent_load_remote(this.#pointer(), metadata, metadata.byteLength, name, name.byteLength));
    return textOf(name);
  }

  /** @throws MediaError nixl_failed, also when the name is not known */
  forgetRemote(name: string): void {
    check(shim().agent_forget_remote(this.#pointer(), cString(name)));
  }

  /**
   * Posts a read of a remote agent's memory into ours; the notification is left there when it is done.
   * @param localAddress inside a registration of this agent
   * @returns the transfer, to be polled and then released in every case
   * @throws MediaError nixl_failed
   */
  read(
    remote: string,
    localAddress: number,
    remoteAddress: number,
    byteLength: number,
    notification: Uint8Array,
  ): NativeTransfer {
    const out = new BigUint64Array(1);
    checkProgress(
      shim().agent_read(
        this.#pointer(),
        cString(remote),
        localAddress,
        remoteAddress,
        byteLength,
        notification.byteLength === 0 ? null : notification,
        notification.byteLength,
        out,
      ),
    );
    return { handle: numberOf(out[0]) };
  }

  /** Whether a transfer is done. @throws MediaError nixl_failed when it failed; it must still be released */
  poll(transfer: NativeTransfer): boolean {
    return checkProgress(shim().transfer_poll(this.#pointer(), pointerOf(transfer.handle)));
  }

  /** Ends a transfer, whatever its state. @throws MediaError nixl_failed: its local memory must then not be reused */
  release(transfer: NativeTransfer): void {
    check(shim().transfer_release(this.#pointer(), pointerOf(transfer.handle)));
  }

  /** Takes everything that readers left since the last call. @throws MediaError nixl_failed */
  takeNotifications(): Notification[] {
    const out = new BigUint64Array(2);
    check(shim().agent_take_notifications(this.#pointer(), out.subarray(0, 1), out.subarray(1, 2)));
    if (out[0] === 0n) return [];
    const fields = splitFields(takeBytes(out));
    const notifications: Notification[] = [];
    for (let i = 0; i + 1 < fields.length; i += 2) {
      const [agent, message] = [fields[i], fields[i + 1]];
      if (agent && message) notifications.push({ agent: Buffer.from(agent).toString("utf8"), message });
    }
    return notifications;
  }

  /** @throws MediaError nixl_failed, also when the remote is not known */
  sendNotification(remote: string, message: Uint8Array): void {
    check(shim().agent_send_notification(this.#pointer(), cString(remote), message, message.byteLength));
  }

  /** Whether {@link dispose} was called. */
  get disposed(): boolean {
    return this.#handle === 0;
  }

  /** Destroys the backend and the agent; idempotent. @throws MediaError nixl_failed */
  dispose(): void {
    if (this.#handle === 0) return;
    const handle = this.#handle;
    this.#handle = 0;
    check(shim().agent_destroy(pointerOf(handle)));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @throws MediaError closed: native code must never see a freed agent */
  #pointer() {
    if (this.#handle === 0) throw new MediaError("closed", "the NIXL agent was disposed");
    return pointerOf(this.#handle);
  }
}

/** Copies bytes that native code handed out as (address, length) and frees them there. */
function takeBytes(out: BigUint64Array): Uint8Array {
  const address = numberOf(out[0]);
  try {
    return viewOf(address, numberOf(out[1])).slice();
  } finally {
    shim().shim_free(pointerOf(address));
  }
}

/** The fields of a buffer of (u32 little-endian length, bytes) pairs. */
function splitFields(buffer: Uint8Array): Uint8Array[] {
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  const fields: Uint8Array[] = [];
  for (let at = 0; at + 4 <= buffer.byteLength; ) {
    const length = view.getUint32(at, true);
    fields.push(buffer.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return fields;
}
