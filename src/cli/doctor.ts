/** `nixl-media doctor`: every native part, its version and where it is from, and whether the main job can run. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  type FoundPart,
  findUcxPlugin,
  type LocatedPart,
  locateFfmpeg,
  locateLibWebp,
  locateNixl,
  locateTurboJpeg,
} from "../../ffi/locate.ts";
import { shim, shimOrigin } from "../../ffi/native.ts";
import { MediaError } from "../errors.ts";

/** What is known of one part. Printed as is with `--json`, hence the names. */
export interface PartReport {
  readonly name: string;
  /** Whether the main job needs it. */
  readonly required: boolean;
  readonly ok: boolean;
  readonly version: string | null;
  /** Where it is from: a {@link NativeSource}, or in words. */
  readonly source: string | null;
  readonly path: string | null;
  /** What is wrong, with the remedy; or what else is worth knowing. */
  readonly note: string | null;
}

export interface DoctorOptions {
  /** One JSON object instead of lines. */
  readonly json?: boolean;
  /** Opens libnixl and creates an agent, which alone proves that both work; says how that went in a few words. */
  readonly probeAgent?: () => Promise<string>;
}

const PACKAGE_ROOT = join(import.meta.dir, "../..");
/** How long a program may take to say its version. */
const VERSION_TIMEOUT_MS = 10_000;

/**
 * Prints a report on every native part.
 * @returns exit code: 0 when the main job can run, else 1
 */
export async function runDoctor(print: (line: string) => void, options: DoctorOptions = {}): Promise<number> {
  const parts: PartReport[] = [
    await report("bun", true, describeBun),
    await report("native shim", true, describeShim),
    await reportLocated("libnixl", true, locateNixl, async () => ({})),
    // An agent that was created had its plugin; where libnixl looks for it is known only for the usual layouts.
    await report("UCX plugin", options.probeAgent === undefined, describeUcxPlugin),
    ...(options.probeAgent ? [await reportAgent(options.probeAgent)] : []),
    await reportLocated("ffmpeg", true, locateFfmpeg, describeFfmpeg),
    await report("sharp", true, describeSharp),
    await reportLocated("libturbojpeg", false, locateTurboJpeg, describeTurboJpeg),
    await reportLocated("libwebp", false, locateLibWebp, async () => ({})),
  ];
  const missing = parts.filter((part) => part.required && !part.ok).map((part) => part.name);
  const ok = missing.length === 0;
  if (options.json) {
    print(JSON.stringify({ ok, parts }));
  } else {
    for (const part of parts) print(lineOf(part));
    print(ok ? "The main job can run." : `The main job cannot run; not usable: ${missing.join(", ")}.`);
  }
  return ok ? 0 : 1;
}

function lineOf({ name, required, ok, version, source, path, note }: PartReport): string {
  const verdict = ok ? "ok" : required ? "MISSING" : "absent";
  const origin = path === null ? source : `${path}${source === null ? "" : ` (${source})`}`;
  const about = [version, origin, note].filter((text) => text !== null).join("  ");
  return `${verdict.padEnd(8)}${name.padEnd(14)}${about}`;
}

/** The part that a check describes; an error that the check throws becomes the note of a part that is not ok. */
async function report(
  name: string,
  required: boolean,
  check: () => Promise<Partial<PartReport>> | Partial<PartReport>,
): Promise<PartReport> {
  const part: PartReport = { name, required, ok: true, version: null, source: null, path: null, note: null };
  try {
    return { ...part, ...(await check()) };
  } catch (error) {
    // Whatever the part is for: a variable that names nothing is an error wherever it is read.
    const misnamed = error instanceof MediaError && error.code === "native_missing";
    return { ...part, required: required || misnamed, ok: false, note: reasonOf(error) };
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error instanceof MediaError && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return `${error.message}${cause}`;
}

function reportLocated(
  name: string,
  required: boolean,
  locate: () => LocatedPart,
  describe: (part: FoundPart) => Promise<Partial<PartReport>> | Partial<PartReport>,
): Promise<PartReport> {
  return report(name, required, async () => {
    const part = locate();
    if (part.path === null) return { ok: false, note: part.remedy };
    return { path: part.path, source: part.source, version: part.version, ...(await describe(part)) };
  });
}

function reportAgent(probeAgent: () => Promise<string>): Promise<PartReport> {
  return report("agent", true, async () => ({ note: await probeAgent() }));
}

function describeBun(): Partial<PartReport> {
  const manifest = JSON.parse(readFileSync(join(PACKAGE_ROOT, "package.json"), "utf8"));
  const wanted = String(manifest.engines.bun);
  const ok = Bun.semver.satisfies(Bun.version, wanted);
  return { ok, version: Bun.version, path: process.execPath, note: ok ? null : `Bun ${wanted} is needed: update it.` };
}

/** Compiles or opens the shim: whether memory may be executable shows only then. */
function describeShim(): Partial<PartReport> {
  shim();
  return { source: shimOrigin() };
}

function describeUcxPlugin(): Partial<PartReport> {
  const nixl = locateNixl();
  if (nixl.path === null) return { ok: false, note: "It comes with libnixl." };
  const path = findUcxPlugin(nixl.path);
  if (path !== null) return { path };
  return {
    ok: false,
    note: `libplugin_UCX.so is not in ${join(dirname(nixl.path), "plugins")}: install libnixl as a whole, or set NIXL_PLUGIN_DIR.`,
  };
}

/** The first line of `ffmpeg -version` names it. @throws Error when the program does not run */
async function describeFfmpeg({ path }: FoundPart): Promise<Partial<PartReport>> {
  const first = (await outputOf([path, "-version"])).split("\n", 1)[0] ?? "";
  return { version: /^ffmpeg version (\S+)/.exec(first)?.[1] ?? "unknown" };
}

/**
 * libjpeg-turbo's own version, which it writes into the library; opening it would be the other way to know. An npm package
 * that it came in has another, which is noted beside it.
 */
export function describeTurboJpeg({ path, source }: FoundPart): Partial<PartReport> {
  const version = /libjpeg-turbo version (\d[\w.]*)/.exec(readFileSync(path, "latin1"))?.[1] ?? null;
  if (source !== "npm" && source !== "project") return { version };
  const manifestPath = join(dirname(path), "../../package.json");
  if (!existsSync(manifestPath)) return { version };
  const manifest = JSON.parse(readFileSync(manifestPath, "utf8"));
  return { version, note: `out of the npm package ${manifest.name} ${manifest.version}` };
}

/** Loads sharp in a process of its own, as decoding does: this process holds no decoder. */
async function describeSharp(): Promise<Partial<PartReport>> {
  const path = Bun.resolveSync("sharp", PACKAGE_ROOT);
  const program = `console.log(JSON.stringify((await import(${JSON.stringify(path)})).default.versions))`;
  const versions = JSON.parse(await outputOf([process.execPath, "--no-install", "-e", program]));
  return { version: String(versions.sharp), source: "npm", path, note: `libvips ${versions.vips}` };
}

/** What a program prints. @throws Error with the last line of its complaint */
async function outputOf(command: string[]): Promise<string> {
  const child = Bun.spawn(command, {
    cwd: PACKAGE_ROOT,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: VERSION_TIMEOUT_MS,
  });
  const [output, complaint, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (exitCode === 0) return output;
  const reason = complaint.trim().split("\n").at(-1) ?? "";
  throw new Error(`It does not run (exit code ${exitCode})${reason === "" ? "" : `: ${reason.slice(0, 200)}`}.`);
}
