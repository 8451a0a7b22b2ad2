/** What the commands print: JSON lines on stdout and nothing else there, messages for people on stderr. */
import { closeSync, writeSync } from "node:fs";
import { duplicateDescriptor, replaceDescriptor } from "../../ffi/memory.ts";
import { MediaError } from "../errors.ts";

const STDOUT = 1;
const STDERR = 2;
/** Pause before a full pipe is tried again, ms. */
const FULL_PIPE_PAUSE = 5;

/**
 * The program's stdout, kept apart: libnixl, UCX and their plugins write log lines to descriptor 1, which from now on is
 * stderr's.
 */
export class JsonLines {
  #fd: number | null;

  constructor() {
    this.#fd = duplicateDescriptor(STDOUT);
    replaceDescriptor(STDERR, STDOUT);
  }

  /** Writes one line, waiting while the pipe is full. @returns false when nobody reads any more */
  async write(json: string): Promise<boolean> {
    let rest: Uint8Array = Buffer.from(`${json}\n`);
    while (this.#fd !== null && rest.byteLength > 0) {
      try {
        rest = rest.subarray(writeSync(this.#fd, rest));
      } catch (error) {
        const code = (error as NodeJS.ErrnoException).code;
        if (code === "EAGAIN") await Bun.sleep(FULL_PIPE_PAUSE);
        else if (code === "EPIPE") this.close();
        else throw error;
      }
    }
    return this.#fd !== null;
  }

  /** Closes stdout, so that whoever reads it sees the end. */
  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

/** One line on stderr. */
export function complain(line: string): void {
  process.stderr.write(`${line.replaceAll("\n", " ")}\n`);
}

/** An error as one line: what it is about, the message, the code. */
export function errorLine(subject: string, error: unknown): string {
  if (error instanceof MediaError) return `${subject}: ${error.message} [${error.code}]`;
  return `${subject}: ${error instanceof Error ? error.message : String(error)} [internal]`;
}
