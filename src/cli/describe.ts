/** `describe SOURCE…`: a descriptor line for each medium, and the memory held until nobody needs it any more. */
import { parseArgs } from "node:util";
import { MediaError } from "../errors.ts";
import { MediaLoader } from "../loader/index.ts";
import { withoutUndefined } from "../options.ts";
import type { MediaDescriptor } from "../tensor/index.ts";
import { jsonOption } from "./json_option.ts";
import { complain, errorLine, JsonLines } from "./output.ts";
import { readSources, type Source, sourceOf } from "./sources.ts";

/** Signals closer together than this are one. */
const REPEATED_SIGNAL_MS = 500;
/** What ends the command, with the exit code by which a shell knows each. */
const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
type EndingSignal = keyof typeof SIGNALS;

/** What a developer's own machine may be asked for, and a stranger's URL may not. */
const INTERNAL = { allow_direct_ip: true, allow_direct_port: true, allow_private_ips: true } as const;
/** The memory is held until the caller says so; this is the longest that a timer counts to, 24 days. */
const LONGEST_HOLD_MS = 2 ** 31 - 1;

type Outcome = { readonly descriptor: MediaDescriptor } | { readonly error: unknown };

/**
 * Prints descriptors in the order of the sources, each as soon as it and those before it are ready. A signal before the last
 * of them cuts the output short; a later one is the normal end of the hold.
 * @returns exit code: 0; 1 when a medium failed; 128 + signal when the output was cut short
 * @throws MediaError invalid_options, file_unreadable for the file of sources, and what keeps the loader from starting
 */
export async function runDescribe(args: string[]): Promise<number> {
  const { sources, options, hold } = await parseArguments(args);
  const output = new JsonLines();
  const ending = untilEnded();
  await using loader = await MediaLoader.create(options);
  const held: MediaDescriptor[] = [];
  let failures = 0;
  let interrupted = false;
  for await (const [label, outcome] of loadAll(loader, sources, ending.signal)) {
    interrupted = ending.signal.aborted; // then the outcome may be no more than that
    if (interrupted) break;
    if ("error" in outcome) {
      failures += 1;
      complain(errorLine(label, outcome.error));
      continue;
    }
    held.push(outcome.descriptor);
    if (await output.write(outcome.descriptor.toWire(), ending.signal)) continue;
    interrupted = ending.signal.aborted;
    break; // else nobody reads any more
  }
  output.close();
  if (!interrupted && hold && held.length > 0) await ending.stdinOrSignal();
  for (const descriptor of held) descriptor.dispose();
  if (interrupted) return ending.complainOfInterruption();
  return failures === 0 ? 0 : 1;
}

/** @throws MediaError invalid_options, file_unreadable for the file of sources */
async function parseArguments(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      video: { type: "string" },
      image: { type: "string" },
      audio: { type: "string" },
      input: { type: "string" },
      "allow-internal": { type: "boolean", default: false },
      "hash-video": { type: "boolean", default: false },
      "no-hold": { type: "boolean", default: false },
    },
  });
  const listed = values.input === undefined ? [] : await readSources(values.input);
  const sources = [...positionals.map(sourceOf), ...listed];
  if (sources.length === 0) throw new MediaError("invalid_options", "describe needs at least one path or URL");
  const options = {
    image: jsonOption("image", values.image),
    video: jsonOption("video", values.video),
    audio: jsonOption("audio", values.audio),
    hashVideo: values["hash-video"],
    fetch: values["allow-internal"] ? INTERNAL : undefined,
    maxHoldMs: LONGEST_HOLD_MS,
  };
  return { sources, options: withoutUndefined(options), hold: !values["no-hold"] };
}

/** Loads a few sources at a time, and yields their labels and outcomes in order. */
async function* loadAll(
  loader: MediaLoader,
  sources: readonly Source[],
  signal: AbortSignal,
): AsyncGenerator<[string, Outcome]> {
  const ahead = loader.childPids.length + 1;
  const outcomes: Promise<Outcome>[] = [];
  for (const [index, { label }] of sources.entries()) {
    for (const { source } of sources.slice(outcomes.length, index + ahead)) {
      outcomes.push(
        loader.load(source, { signal }).then(
          (descriptor) => ({ descriptor }),
          (error: unknown) => ({ error }),
        ),
      );
    }
    const outcome = await outcomes[index];
    if (outcome) yield [label, outcome];
  }
}

/** What ends the command: one of {@link SIGNALS} at any time, or the end of stdin while memory is held. */
function untilEnded() {
  const controller = new AbortController();
  const signalled = Promise.withResolvers<void>();
  let first: EndingSignal = "SIGINT";
  let ended = 0;
  const end = (signal: EndingSignal): void => {
    // npm forwards what the terminal sent already, so the same Ctrl-C may come twice; a later one is meant.
    if (controller.signal.aborted && performance.now() - ended > REPEATED_SIGNAL_MS) process.exit(SIGNALS[signal]);
    if (controller.signal.aborted) return;
    first = signal;
    ended = performance.now();
    controller.abort();
    signalled.resolve();
  };
  for (const signal of Object.keys(SIGNALS) as EndingSignal[]) process.on(signal, () => end(signal));
  return {
    signal: controller.signal,
    stdinOrSignal: () => Promise.race([signalled.promise, endOfStdin()]),
    /** @returns the exit code */
    complainOfInterruption: (): number => {
      complain(`nixl-media: interrupted by ${first} before all media were described`);
      return SIGNALS[first];
    },
  };
}

/** What is typed means nothing; only the end does. A stdin that cannot be read has ended. */
async function endOfStdin(): Promise<void> {
  try {
    for await (const _ of Bun.stdin.stream()) {
      // nothing to do
    }
  } catch {
    // ended
  }
}
