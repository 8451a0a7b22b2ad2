/** What each tenant has of the loader: loads under way, and bytes of tensors that its descriptors keep. */
import { MediaError } from "../errors.ts";
import type { SharedTensor } from "./shared_tensor.ts";

/** The share of each tenant; null is no limit. */
export interface TenantLimits {
  readonly maxBytes: number | null;
  readonly maxLoads: number | null;
}

/** Loads under way. */
export interface BegunLoads extends Disposable {
  readonly count: number;
}

interface Account {
  loads: number;
  bytes: number;
  /** How many of the tenant's descriptors have a tensor; its bytes count once. */
  readonly tensors: Map<SharedTensor, number>;
}

/** Accounts by tenant; one that has nothing is not kept. */
export class Tenants {
  readonly #limits: TenantLimits;
  readonly #accounts = new Map<string, Account>();

  constructor(limits: TenantLimits) {
    this.#limits = limits;
  }

  /** What a tenant has now. */
  usageOf(tenant: string): { readonly loads: number; readonly bytes: number } {
    const { loads = 0, bytes = 0 } = this.#accounts.get(tenant) ?? {};
    return { loads, bytes };
  }

  /** Tenants that have something now. */
  get size(): number {
    return this.#accounts.size;
  }

  /**
   * Loads begin that go on side by side: as many as are wanted, or as the tenant has left, one at least. They are the caller's until
   * it disposes of them, for one medium after the other, so that what it began no other load of the tenant can keep from going on.
   * @param tenant undefined for loads that are nobody's and have no limits
   * @param wanted none are always to be had
   * @throws MediaError quota_exceeded
   */
  beginLoads(tenant: string | undefined, wanted: number): BegunLoads {
    if (tenant === undefined || wanted === 0) return { count: wanted, [Symbol.dispose]: () => {} };
    const { maxLoads } = this.#limits;
    const left = maxLoads === null ? wanted : maxLoads - this.usageOf(tenant).loads;
    if (left <= 0) {
      throw new MediaError("quota_exceeded", `The tenant has ${maxLoads} loads under way, which is its share`);
    }
    this.checkBytes(tenant);
    const count = Math.min(wanted, left);
    const account = this.#accountOf(tenant);
    account.loads += count;
    const end = once(() => {
      account.loads -= count;
      this.#closeIfEmpty(tenant, account);
    });
    return { count, [Symbol.dispose]: end };
  }

  /** Whether the tenant may load more at all. @throws MediaError quota_exceeded */
  checkBytes(tenant: string | undefined): void {
    const { maxBytes } = this.#limits;
    if (tenant === undefined || maxBytes === null || this.usageOf(tenant).bytes < maxBytes) return;
    throw bytesExceeded(maxBytes);
  }

  /**
   * A descriptor of a tensor begins.
   * @returns what ends it
   * @throws MediaError quota_exceeded
   */
  beginHold(tenant: string | undefined, tensor: SharedTensor): () => void {
    if (tenant === undefined) return () => {};
    const { maxBytes } = this.#limits;
    const account = this.#accountOf(tenant);
    const count = account.tensors.get(tensor) ?? 0;
    if (count === 0 && maxBytes !== null && account.bytes + tensor.roomBytes > maxBytes) {
      this.#closeIfEmpty(tenant, account);
      throw bytesExceeded(maxBytes);
    }
    account.tensors.set(tensor, count + 1);
    if (count === 0) account.bytes += tensor.roomBytes;
    return once(() => {
      const left = (account.tensors.get(tensor) ?? 1) - 1;
      if (left > 0) account.tensors.set(tensor, left);
      else account.tensors.delete(tensor);
      if (left === 0) account.bytes -= tensor.roomBytes;
      this.#closeIfEmpty(tenant, account);
    });
  }

  #accountOf(tenant: string): Account {
    const account = this.#accounts.get(tenant) ?? { loads: 0, bytes: 0, tensors: new Map() };
    this.#accounts.set(tenant, account);
    return account;
  }

  #closeIfEmpty(tenant: string, account: Account): void {
    if (account.loads === 0 && account.tensors.size === 0) this.#accounts.delete(tenant);
  }
}

function bytesExceeded(maxBytes: number): MediaError {
  return new MediaError("quota_exceeded", `The tenant's media may take ${maxBytes} bytes of memory at a time`);
}

function once(end: () => void): () => void {
  let ended = false;
  return () => {
    if (ended) return;
    ended = true;
    end();
  };
}
