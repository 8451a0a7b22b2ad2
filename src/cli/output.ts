/** What the commands print: JSON lines on stdout and nothing else there, messages for people on stderr. */
import { closeSync, write, writeSync } from "node:fs";
import { duplicateDescriptor, replaceDescriptor } from "../../ffi/memory.ts";
import { ABORTED, unlessAborted } from "../abort.ts";
import { MediaError } from "../errors.ts";

const STDOUT = 1;
const STDERR = 2;
/** Pause before a full pipe is tried again, ms. */
const FULL_PIPE_PAUSE = 5;
/** A write that is going through when the signal comes has its moment: its line is out then, and the caller is to know. */
const WRITE_GRACE_MS = 50;
/** Control characters (C0, DEL, C1), line and paragraph separators, and what turns the direction of writing. */
const UNSAFE_CHARACTERS = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Writes off the event loop: a pipe that is full blocks whoever writes to it, and signals have to be seen meanwhile. */
function writeAside(fd: number, bytes: Uint8Array): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  write(fd, bytes, (error, written) => (error ? reject(error) : resolve(written)));
  return promise;
}

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

  /**
   * Writes one line, waiting while the pipe is full.
   * @param signal gives up waiting; what was written of the line stays written, and nothing more is
   * @returns false when nobody reads any more, or when the signal came
   * @throws MediaError output_unwritable, e.g. when the disk is full
   */
  async write(json: string, signal?: AbortSignal): Promise<boolean> {
    let rest: Uint8Array = Buffer.from(`${json}\n`);
    while (this.#fd !== null && rest.byteLength > 0) {
      const written = await unlessAborted(writeSome(this.#fd, rest), signal, WRITE_GRACE_MS);
      if (written === ABORTED) {
        this.#fd = null; // not closed: a thread may still be writing to it
        return false;
      }
      if (written === "closed") this.close();
      else rest = rest.subarray(written);
    }
    return this.#fd !== null;
  }

  /** Closes stdout, so that whoever reads it sees the end. */
  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

/** @returns bytes written, which may be none @throws MediaError output_unwritable */
async function writeSome(fd: number, bytes: Uint8Array): Promise<number | "closed"> {
  try {
    return await writeAside(fd, bytes);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "EPIPE") return "closed";
    if (code !== "EAGAIN")
      throw new MediaError("output_unwritable", `stdout cannot be written (${code})`, { cause: error });
    await Bun.sleep(FULL_PIPE_PAUSE);
    return 0;
  }
}

/** One line on stderr. Whatever could move the cursor or begin a line of its own, as a file name can, is escaped. */
export function complain(line: string): void {
  let rest: Uint8Array = Buffer.from(`${printable(line)}\n`);
  while (rest.byteLength > 0) {
    try {
      rest = rest.subarray(writeSync(STDERR, rest));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return; // nobody can be told
      Bun.sleepSync(FULL_PIPE_PAUSE);
    }
  }
}

/** Text with control characters in the way JSON writes them, e.g. `\u001b`. */
function printable(text: string): string {
  return text.replaceAll(UNSAFE_CHARACTERS, (character) => {
    if (character === "\n") return "\\n";
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** An error as one line: what it is about, the message, the code. */
export function errorLine(subject: string, error: unknown): string {
  if (error instanceof MediaError) return `${subject}: ${error.message} [${error.code}]`;
  return `${subject}: ${error instanceof Error ? error.message : String(error)} [internal]`;
}
