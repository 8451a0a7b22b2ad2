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

  constructor(socket: Socket) {
    super({ readableHighWaterMark: SERVING_BYTES });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => {
      socket.pause();
      this.#rest = this.#rest.byteLength === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
      this.#schedule();
    });
    socket.on("end", () => this.#finish());
    socket.on("error", (error) => this.destroy(error));
    socket.on("close", () => this.#finish());
  }

  /** Bytes that have been passed on so far, headers and wrapping included. */
  get served(): number {
    return this.#served;
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
      this.#isWanted = false;
      if (this.push(serving)) this.#isWanted = true;
    }
    if (this.#rest.byteLength > 0) this.#schedule();
    else if (this.#isOver) this.push(null);
    else this.#socket.resume();
  }

  #finish(): void {
    this.#isOver = true;
    this.#schedule();
  }
}
