/** How much memory the large media of one fetcher take, all together, until each has been decoded. */
import { MediaError } from "../errors.ts";

export class SpoolBudget {
  readonly #limit: number;
  #taken = 0;

  /** @param limit bytes */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Bytes that are taken now. */
  get taken(): number {
    return this.#taken;
  }

  /** @throws MediaError overloaded */
  take(byteLength: number): void {
    if (this.#taken + byteLength > this.#limit) {
      throw new MediaError("overloaded", `Large media take ${this.#taken} bytes already, of at most ${this.#limit}`);
    }
    this.#taken += byteLength;
  }

  giveBack(byteLength: number): void {
    this.#taken -= byteLength;
  }
}
