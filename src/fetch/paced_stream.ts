/** A connection's bytes in small servings, so that nobody can keep the event loop busy with the way in which they are wrapped. */
import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/**
 * Bytes that are parsed before others have their turn. The socket gives up to half a megabyte at a time; as chunks of one byte
 * each, of which the parser makes an event apiece, that is a good part of a second.
 */
const SERVING_BYTES = 16 * 1024;

/** Reads from and writes to a socket, which it destroys when it is destroyed. Flow is controlled in both directions. */
export class PacedStream extends Duplex {
  readonly #socket: Socket;
  /** What came and has not been served yet. */
  #rest: Buffer = Buffer.alloc(0);
  #served = 0;
  #isWanted = false;
  #isScheduled = false;
  #isOver = false;
  #isBroken = false;
  #allowance = Number.POSITIVE_INFINITY;

  constructor(socket: Socket) {
    super({ readableHighWaterMark: SERVING_BYTES });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      socket.pause();
      this.#rest = this.#rest.byteLength === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
      this.#schedule();
    });
    socket.on("end", () => this.#finish());
    socket.on("error", (error) => this.#break(error));
    socket.on("close", () => {
      if (!this.#isOver) this.#break(Object.assign(new Error("closed"), { code: "ECONNRESET" }));
    });
  }

  /** Bytes that have been passed on so far, headers and wrapping included. */
  get served(): number {
    return this.#served;
  }

  /**
   * Whether the connection was reset, or closed without its end having been said. Of an answer that ends with its connection,
   * Bun's HTTP client then says that it is complete all the same.
   */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** @param byteLength that may be served from now on; more is a failure with the code `HPE_HEADER_OVERFLOW` */
  allow(byteLength: number): void {
    this.#allowance = this.#served + byteLength;
  }

  override _read(): void {
    this.#isWanted = true;
    this.#schedule();
  }

  override _write(chunk: Uint8Array, _: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }

  #schedule(): void {
    if (this.#isScheduled || !this.#isWanted || this.destroyed) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#serve();
    });
  }

  #serve(): void {
    if (this.destroyed || !this.#isWanted) return;
    if (this.#rest.byteLength > 0) {
      const serving = this.#rest.subarray(0, SERVING_BYTES);
      this.#rest = this.#rest.subarray(SERVING_BYTES);
      this.#served += serving.byteLength;
      if (this.#served > this.#allowance) {
        this.destroy(Object.assign(new Error("no end of the header"), { code: "HPE_HEADER_OVERFLOW" }));
        return;
      }
      this.#isWanted = false;
      if (this.push(serving)) this.#isWanted = true;
    }
    if (this.#rest.byteLength > 0) this.#schedule();
    else if (this.#isOver) this.push(null);
    else this.#socket.resume();
  }

  #break(error: Error): void {
    this.#isBroken = true;
    this.destroy(error);
  }

  #finish(): void {
    this.#isOver = true;
    this.#schedule();
  }
}
