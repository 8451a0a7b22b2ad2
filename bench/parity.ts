/**
 * File by file, what this module makes of a folder of media beside what the reference and Pillow make of them.
 *
 *   npm run bench:parity -- FOLDER [--vectors FILE] [--json FILE]
 *
 * Prints a table with a row for each file, and for each set of options of a clip: shape, hash or error code, the verdict
 * against the reference and against Pillow, the time and the most memory of a decoder or of its ffmpeg. The last line is
 * {"cases","same","explained","unexplained","stale","slowest_ms","largest_bytes",…}. Ends with 1 when a difference is not
 * among those of bench/parity/deviations.ts, or when one of those that it could meet did not occur. Clips are exact with
 * ffmpeg 5.1: FFMPEG_BIN=/usr/bin/ffmpeg on Debian 12. --json writes all rows.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { locateFfmpeg } from "../ffi/locate.ts";
import { MediaDecoder } from "../src/loader/index.ts";
import { differenceFromPillow, differenceFromReference, explain, type Observed } from "./parity/compare.ts";
import { DEVIATIONS, type Deviation } from "./parity/deviations.ts";
import { type Measured, measure, type OurOutcome } from "./parity/measure.ts";
import { OPTION_SETS, readVectors, type Vectors } from "./parity/vectors.ts";
import { benchArguments, fail } from "./support/arguments.ts";
import { rounded } from "./support/statistics.ts";

const USAGE = "bench/parity.ts FOLDER [--vectors FILE] [--json FILE]";
const VECTORS = join(import.meta.dir, "../test/vectors/media.json");

/** Damage that is to be refused whatever the reference does; in this one it is inside a complete file, and skipped. */
const BAD_BUT_DECODED = "bad_video_zeroed.mp4";

interface Row {
  readonly file: string;
  readonly options: string;
  readonly ours: string;
  readonly metadata: string;
  readonly reference: string;
  readonly pillow: string;
  readonly ms: number;
  readonly peak_mb: number;
}

const { files: folders, options } = benchArguments(USAGE, ["vectors", "json"], 1);
const [folder] = folders;
if (folder === undefined) fail(USAGE);
const vectors = await readVectors(options.vectors ?? VECTORS);
const ffmpegVersion = await versionOf(locateFfmpeg().path);
const isJudgingFfmpeg = ffmpegVersion?.startsWith("5.1") ?? false;

const rows: Row[] = [];
const met = new Set<Deviation>();
const present = new Set<string>();
const unexplained: Pick<Observed, "file" | "against" | "difference">[] = [];

{
  await using decoder = await MediaDecoder.open({ hashVideo: true, decoders: { children: 1 } });
  for (const file of readdirSync(folder).sort()) {
    present.add(file);
    await compareFile(decoder, file);
  }
}

console.table(rows.map(({ metadata: _, ...row }) => row));
const stale = DEVIATIONS.filter(
  (deviation) =>
    !met.has(deviation) && deviation.files.every((file) => present.has(file)) && deviation.ffmpeg === undefined,
).map(({ files, against }) => ({ files, against }));
for (const difference of unexplained) console.log(JSON.stringify({ unexplained: difference }));
for (const deviation of stale) console.log(JSON.stringify({ stale: deviation }));
const isSame = ({ reference }: Row): boolean => reference === "same";
if (options.json !== undefined) await Bun.write(options.json, JSON.stringify(rows, null, 1));
const bad = rows.filter(({ file }) => file.startsWith("bad_"));
console.log(
  JSON.stringify({
    ffmpeg: ffmpegVersion,
    cases: rows.length,
    same: rows.filter(isSame).length,
    explained: rows.filter(({ reference }) => reference.startsWith("explained")).length,
    without_reference: rows.filter(({ reference }) => reference === "").length,
    unexplained: unexplained.length,
    stale: stale.length,
    slowest_ms: Math.max(0, ...rows.map(({ ms }) => ms)),
    largest_mb: Math.max(0, ...rows.map((row) => row.peak_mb)),
    slowest_bad_ms: Math.max(0, ...bad.map(({ ms }) => ms)),
    largest_bad_mb: Math.max(0, ...bad.map((row) => row.peak_mb)),
  }),
);
process.exit(unexplained.length + stale.length > 0 ? 1 : 0);

async function compareFile(decoder: MediaDecoder, file: string): Promise<void> {
  const vector: Vectors[string] | undefined = vectors[file];
  const path = join(folder ?? "", file);
  if (vector?.kind === "image") {
    const measured = await measure(decoder, path, {});
    const ours = measured.outcome;
    const verdicts = {
      reference: verdict(file, "reference", ours, differenceFromReference(ours, vector.reference)),
      pillow: verdict(file, "Pillow", ours, differenceFromPillow(ours, vector.pillow)),
    };
    addRow(file, "", measured, verdicts);
    return;
  }
  for (const [name, settings] of Object.entries(vector ? OPTION_SETS : { default: {} })) {
    const measured = await measure(decoder, path, settings);
    const outcome = vector?.reference[name];
    const ours = measured.outcome;
    const reference = outcome ? verdict(file, "reference", ours, differenceFromReference(ours, outcome)) : "";
    addRow(file, name, measured, { reference, pillow: "" });
  }
}

function addRow(
  file: string,
  name: string,
  { outcome, ms, peakBytes }: Measured,
  verdicts: Pick<Row, "reference" | "pillow">,
): void {
  const isRefused = "code" in outcome;
  if (file.startsWith("bad_") && !isRefused && file !== BAD_BUT_DECODED) {
    unexplained.push({ file, against: "reference", difference: "ours decodes" });
  }
  rows.push({
    file,
    options: name,
    ours: isRefused ? outcome.code : `${outcome.shape.join("x")} ${outcome.hash}`,
    metadata: isRefused ? "" : outcome.metadata,
    ...verdicts,
    ms: rounded(ms),
    peak_mb: Math.round(peakBytes / 2 ** 20),
  });
}

/** "same", "explained: …", or "UNEXPLAINED: …". */
function verdict(
  file: string,
  against: Deviation["against"],
  ours: OurOutcome,
  difference: ReturnType<typeof differenceFromPillow>,
): string {
  if (difference === "same") return "same";
  const code = "code" in ours ? ours.code : null;
  const deviation = explain({ file, against, difference, code, isJudgingFfmpeg });
  if (deviation) {
    met.add(deviation);
    return `explained: ${difference}`;
  }
  unexplained.push({ file, against, difference });
  return `UNEXPLAINED: ${difference}`;
}

/** As the program says it: "5.1.8-0+deb12u1". */
async function versionOf(ffmpeg: string | null): Promise<string | null> {
  if (ffmpeg === null) return null;
  const run = Bun.spawn([ffmpeg, "-version"], { stdio: ["ignore", "pipe", "ignore"] });
  const text = await run.stdout.text();
  return /^ffmpeg version (\S+)/.exec(text)?.[1] ?? null;
}
