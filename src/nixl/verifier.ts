/** Checks content hashes without holding up the event loop. */
import { MediaError } from "../errors.ts";
import { hashContiguous } from "../tensor/index.ts";

/** Up to so many bytes are hashed right here: about 20 µs, less than asking a Worker. */
const INLINE_BYTES = 256 * 1024;

/** What the Worker is asked: to hash native memory, which stays mapped until it has answered. */
export interface HashRequest {
  readonly id: number;
  readonly address: number;
  readonly byteLength: number;
}
export interface HashAnswer {
  readonly id: number;
  readonly hash: string;
}

/** Hashes native memory, large pieces in a Worker of its own, which is started when first needed. */
export class Verifier implements Disposable {
  #worker: Worker | null = null;
  #disposed = false;
  #nextId = 0;
  readonly #waiting = new Map<number, { resolve: (hash: string) => void; reject: (error: MediaError) => void }>();

  /**
   * @param bytes a view on native memory at `address`, which stays mapped until the answer
   * @returns the content hash over all of `bytes`
   * @throws MediaError closed, system_failed when the Worker fails
   */
  async hash(bytes: Uint8Array, address: number): Promise<string> {
    if (this.#disposed) throw disposedError();
    if (bytes.byteLength <= INLINE_BYTES) return hashContiguous(bytes);
    const worker = this.#start();
    const id = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    this.#waiting.set(id, { resolve, reject });
    worker.ref();
    worker.postMessage({ id, address, byteLength: bytes.byteLength } satisfies HashRequest);
    return promise;
  }

  /** Ends the Worker; whoever still waits gets an error; idempotent. Memory that was being hashed must stay mapped. */
  dispose(): void {
    this.#disposed = true;
    this.#worker?.terminate();
    this.#worker = null;
    this.#failAll(disposedError());
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #start(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(new URL("./hash_worker.ts", import.meta.url).href);
    worker.onmessage = (event: MessageEvent<HashAnswer>) => {
      const waiting = this.#waiting.get(event.data.id);
      this.#waiting.delete(event.data.id);
      if (this.#waiting.size === 0) worker.unref();
      waiting?.resolve(event.data.hash);
    };
    worker.onerror = (event) => {
      worker.terminate(); // the next hash starts another one
      this.#worker = null;
      this.#failAll(new MediaError("system_failed", "the hashing worker failed", { cause: event.message }));
    };
    this.#worker = worker;
    return worker;
  }

  #failAll(error: MediaError): void {
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }
}

function disposedError(): MediaError {
  return new MediaError("closed", "the reader was disposed before a hash was checked");
}
