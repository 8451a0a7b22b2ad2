/** The operating system's process of a decoder child: how it is started, what it says on stderr, and that it ends. */
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Subprocess } from "bun";
import { inheritedEnvironment } from "../../ffi/process.ts";
import type { ParentMessage } from "./protocol.ts";

const PROGRAM = fileURLToPath(new URL("./child/main.ts", import.meta.url));

/** What of a child's stderr is kept to explain its death, characters. */
const STDERR_KEPT = 2000;

/** Settings of the native boundary, which a child opens too; the server's secrets are not for it. */
const CHILD_VARIABLES = ["NIXL_MEDIA_SHIM_PATH", "NIXL_MEDIA_NATIVE_DIR"];

/**
 * For glibc's malloc(3): memory of pictures, once it has been used, stays with the child and is not mapped anew for each
 * medium. Page faults are a third of the time that a PNG takes.
 */
const ALLOCATOR_SETTINGS = { MALLOC_MMAP_MAX_: "0", MALLOC_TRIM_THRESHOLD_: "1073741824" };

/** How a child is started. */
export interface ChildStart {
  /** Another program than the decoder: in tests of what a child that was taken over can do. */
  readonly program: string | undefined;
  /** The child's end of its channel, which it inherits. */
  readonly channel: number;
  readonly onMessage: (message: unknown) => void;
  /** Called when the process has been reaped, with its exit code or signal in words. */
  readonly onExit: (how: string) => void;
}

/** A process that runs, or ran. */
export class ChildProcess {
  readonly #process: Subprocess<"ignore", "ignore", "pipe">;
  #stderr = "";

  /** @throws what the operating system refuses it with */
  constructor({ program = PROGRAM, channel, onMessage, onExit }: ChildStart) {
    this.#process = Bun.spawn([process.execPath, program, String(process.pid)], {
      // Its own folder: Bun reads .env and bunfig.toml of the working directory, which are the server's.
      cwd: dirname(PROGRAM),
      // A group of its own: Ctrl-C in a terminal reaches the whole group, and the parent decides when a child ends.
      detached: true,
      env: { ...inheritedEnvironment(CHILD_VARIABLES), ...ALLOCATOR_SETTINGS },
      stdio: ["ignore", "ignore", "pipe", channel],
      serialization: "json",
      ipc: onMessage,
      onExit: (_, exitCode, signal) => onExit(signal === null ? `exit code ${exitCode}` : `signal ${signal}`),
    });
    // An idle decoder is no reason for the program to go on. While it starts, works or ends, a timer is.
    this.#process.unref();
    this.#keepStderr().catch(() => {}); // what it said is only a help
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** The end of what it said on stderr. */
  get stderr(): string {
    return this.#stderr;
  }

  /** @throws when the process is gone */
  send(message: ParentMessage): void {
    this.#process.send(message);
  }

  /** SIGKILL. */
  kill(): void {
    this.#process.kill("SIGKILL");
  }

  async #keepStderr(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of this.#process.stderr) {
      this.#stderr = (this.#stderr + decoder.decode(chunk, { stream: true })).slice(-STDERR_KEPT);
    }
  }
}
