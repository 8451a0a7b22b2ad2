/** What ffmpeg reads: bytes in a file that nobody can change. */
import { createFile, type PrivateFile } from "../../../ffi/process.ts";

/** A medium, and on demand a sealed private copy for ffmpeg, which takes as long as touching all of it. */
export class SealedInput implements Disposable {
  readonly bytes: Uint8Array;
  #file: PrivateFile | null = null;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  get file(): PrivateFile {
    if (this.#file) return this.#file;
    const file = createFile("encoded", this.bytes.byteLength);
    this.#file = file;
    file.bytes.set(this.bytes);
    file.sealReadOnly();
    return file;
  }

  [Symbol.dispose](): void {
    this.#file?.dispose();
  }
}
