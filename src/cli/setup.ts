/** `nixl-media setup`: finds the native parts and fetches those that are missing. */
import {
  findFfmpeg,
  findNixl,
  findTurboJpeg,
  type LocatedPart,
  processScope,
  type SearchScope,
} from "../../ffi/locate.ts";
import { provisionWheel } from "../../ffi/provision.ts";
import { FFMPEG_WHEEL, type NativeWheel, NIXL_WHEEL } from "../../ffi/wheels.ts";
import { MediaError } from "../errors.ts";

export interface SetupOptions {
  /** Gets every line: what is there, what is fetched, what is missing and the remedy. */
  readonly print: (line: string) => void;
  readonly scope?: SearchScope;
}

interface SetupPart {
  readonly name: string;
  readonly find: (scope: SearchScope) => LocatedPart;
  /** What is fetched when the part is missing; null for a part that only makes things faster. */
  readonly wheel: NativeWheel | null;
}

const PARTS: readonly SetupPart[] = [
  { name: "libnixl", find: findNixl, wheel: NIXL_WHEEL },
  { name: "ffmpeg", find: findFfmpeg, wheel: FFMPEG_WHEEL },
  { name: "libturbojpeg", find: findTurboJpeg, wheel: null },
];

/** Signals that end a set-up, with the exit code by which a shell knows them. */
const INTERRUPTIONS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Finds or fetches everything that the main job needs. Safe to run again, and by several at the same time.
 * @returns exit code: 0 when the main job can run, 1 when a part is missing, 128 + signal when it was interrupted
 */
export async function runSetup({ print, scope = processScope() }: SetupOptions): Promise<number> {
  const abort = new AbortController();
  let interruption: keyof typeof INTERRUPTIONS | undefined;
  const interrupt = (signal: NodeJS.Signals): void => {
    if (signal in INTERRUPTIONS) interruption ??= signal as keyof typeof INTERRUPTIONS;
    abort.abort();
  };
  for (const signal of Object.keys(INTERRUPTIONS)) process.on(signal, interrupt);
  let complete = true;
  try {
    for (const part of PARTS) {
      if (!(await setUpPart(part, scope, print, abort.signal))) complete = false;
      if (interruption) return INTERRUPTIONS[interruption];
    }
  } finally {
    for (const signal of Object.keys(INTERRUPTIONS)) process.off(signal, interrupt);
  }
  print(complete ? "set-up is complete" : "set-up is not complete: see above");
  return complete ? 0 : 1;
}

/** @returns whether nothing stands in the way of the main job: the part is there, or is optional and merely absent */
async function setUpPart(
  { name, find, wheel }: SetupPart,
  scope: SearchScope,
  print: (line: string) => void,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    let part = find(scope);
    if (part.path === null && wheel !== null) {
      await provisionWheel(wheel, { progress: (line) => print(`${name}: ${line}`), signal, scope });
      part = find(scope);
    }
    if (part.path === null) {
      const optional = wheel === null;
      print(`${name}${optional ? " (optional)" : ""}: ${part.remedy}`);
      return optional;
    }
    print(`${name}: ${part.path} (${part.source}${part.version === null ? "" : `, version ${part.version}`})`);
    return true;
  } catch (error) {
    if (!(error instanceof MediaError)) throw error;
    print(`${name}: ${error.message}`);
    if (error.cause instanceof Error) print(`${name}: the cause: ${error.cause.message}`);
    return false;
  }
}
