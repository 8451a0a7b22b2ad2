/** `nixl-media setup`: finds the native parts and fetches those that are missing. */
import {
  decodesBands,
  findFfmpeg,
  findLibWebp,
  findNixl,
  findTurboJpeg,
  type LocatedPart,
  processScope,
  type SearchScope,
} from "../../ffi/locate.ts";
import { FFMPEG_WHEEL, type NativePackage, NIXL_WHEEL, TURBOJPEG_PACKAGE } from "../../ffi/native_packages.ts";
import { provision } from "../../ffi/provision.ts";
import { MediaError } from "../errors.ts";

export interface SetupOptions {
  /** Gets every line: what is there, what is fetched, what is missing and the remedy. */
  readonly print: (line: string) => void;
  readonly scope?: SearchScope;
}

interface SetupPart {
  readonly name: string;
  readonly find: (scope: SearchScope) => LocatedPart;
  /** What is fetched when the part is missing; null for one that the system has or not. */
  readonly native: NativePackage | null;
  /** Whether what was found will do, so that nothing is fetched. */
  readonly suffices?: (path: string) => boolean;
  /** Whether the part only makes things faster. */
  readonly optional: boolean;
}

const PARTS: readonly SetupPart[] = [
  { name: "libnixl", find: findNixl, native: NIXL_WHEEL, optional: false },
  { name: "ffmpeg", find: findFfmpeg, native: FFMPEG_WHEEL, optional: false },
  { name: "libturbojpeg", find: findTurboJpeg, native: TURBOJPEG_PACKAGE, suffices: decodesBands, optional: true },
  { name: "libwebp", find: findLibWebp, native: null, optional: true },
];

/** How long set-up waits for an optional part: a network that swallows connections is no reason to wait for minutes. */
const OPTIONAL_TIME_LIMIT_MS = 60_000;

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

/** @returns whether nothing stands in the way of the main job: the part is there, or is optional and cannot be fetched */
async function setUpPart(
  { name, find, native, suffices = () => true, optional }: SetupPart,
  scope: SearchScope,
  print: (line: string) => void,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    let part = find(scope);
    const isEnough = part.path !== null && (part.source === "environment" || suffices(part.path));
    if (native !== null && !isEnough) {
      const progress = (line: string): void => print(`${name}: ${line}`);
      const limit = optional ? { timeLimitMs: OPTIONAL_TIME_LIMIT_MS } : {};
      await provision(native, { progress, signal, scope, ...limit });
      part = find(scope);
    }
    if (part.path === null) {
      print(`${name}${optional ? " (optional)" : ""}: ${part.remedy}`);
      return optional;
    }
    print(`${name}: ${part.path} (${part.source}${part.version === null ? "" : `, version ${part.version}`})`);
    return true;
  } catch (error) {
    if (!(error instanceof MediaError)) throw error;
    // A variable that names nothing is another error, and one for an optional part too.
    const tolerable = optional && error.code === "setup_failed";
    const cause = error.cause instanceof Error ? ` The cause: ${error.cause.message}` : "";
    print(`${name}${tolerable ? " (optional)" : ""}: ${error.message}${cause}`);
    return tolerable;
  }
}
