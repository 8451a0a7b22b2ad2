/**
 * Writes the tables of README.md and docs/deviations.md from the source, between `<!-- table: name -->` and `<!-- end -->`. With --check it only
 * tells whether they are current.
 */
import { join } from "node:path";
import { z } from "zod";
import { DEVIATIONS } from "../bench/parity/deviations.ts";
import { ENVIRONMENT } from "../ffi/environment.ts";
import { audioOptionsSchema } from "../src/decode/audio/options.ts";
import { imageOptionsSchema } from "../src/decode/image/options.ts";
import { videoOptionsSchema } from "../src/decode/video/options.ts";
import { ERROR_CODES } from "../src/errors.ts";
import { fetchPolicySchema } from "../src/fetch/index.ts";
import { loadMessagesOptionsSchema, mediaLoaderOptionsSchema } from "../src/loader/index.ts";
import { mediaReaderOptionsSchema, readOptionsSchema } from "../src/nixl/index.ts";

const PROJECT = join(import.meta.dir, "..");
/** Files that have tables. */
export const DOCUMENTS = ["README.md", "docs/deviations.md"] as const;

interface JsonSchema {
  readonly type?: string;
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Record<string, JsonSchema>;
  readonly anyOf?: readonly JsonSchema[];
}

const TABLES: Record<string, () => string> = {
  loader: () => optionsTable(mediaLoaderOptionsSchema, { image: true, video: true, audio: true, fetch: true }),
  fetch: () => optionsTable(fetchPolicySchema, {}),
  load: () => optionsTable(loadMessagesOptionsSchema, { mediaIoKwargs: true }),
  read: () => optionsTable(readOptionsSchema, {}),
  reader: () => optionsTable(mediaReaderOptionsSchema, {}),
  image: () => optionsTable(imageOptionsSchema, {}),
  video: () => optionsTable(videoOptionsSchema, {}),
  audio: () => optionsTable(audioOptionsSchema, {}),
  deviations: () =>
    table(
      ["files", "from", "difference", "reason"],
      DEVIATIONS.map(({ files, against, difference, code: refusal, ffmpeg, reason }) => [
        files.map(code).join(", "),
        against,
        `${difference}${refusal === undefined ? "" : ` (${code(refusal)})`}${ffmpeg === undefined ? "" : ", not with ffmpeg 5.1"}`,
        reason,
      ]),
    ),
  environment: () =>
    table(
      ["variable", "default", "meaning"],
      Object.entries(ENVIRONMENT).map(([name, entry]) => [
        code(name),
        entry.default === null ? "" : code(entry.default),
        entry.meaning,
      ]),
    ),
  errors: () =>
    table(
      ["code", "HTTP status", "retryable", "meaning"],
      Object.entries(ERROR_CODES).map(([name, entry]) => [
        code(name),
        String(entry.status),
        entry.retryable ? "yes" : "",
        entry.meaning,
      ]),
    ),
};

/** A document with its tables as the source has them now. */
export async function current(document: string): Promise<string> {
  const text = await Bun.file(join(PROJECT, document)).text();
  return text.replace(
    /(<!-- table: (\w+) -->\n)[\s\S]*?(<!-- end -->)/g,
    (_, start: string, name: string, end: string) => {
      const print = TABLES[name];
      if (!print) throw new Error(`${document} wants a table that there is not: ${name}`);
      return `${start}${print()}${end}`;
    },
  );
}

/** A row for each option, those of nested objects with their path. `leaveOut` names objects that have tables of their own. */
function optionsTable(schema: z.ZodType, leaveOut: Record<string, true>): string {
  const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as JsonSchema;
  return table(["option", "default", "meaning"], rows(json, "", leaveOut));
}

function rows(schema: JsonSchema, prefix: string, leaveOut: Record<string, true>): string[][] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, property]) => {
    const path = `${prefix}${name}`;
    const object = [property, ...(property.anyOf ?? [])].find((candidate) => candidate.properties);
    const row = [code(path), defaultOf(property, object !== undefined), property.description ?? ""];
    if (!object) return [row];
    return [row, ...(leaveOut[name] ? [] : rows(object, `${path}.`, leaveOut))];
  });
}

function defaultOf(property: JsonSchema, isObject: boolean): string {
  return property.default === undefined || isObject ? "" : code(JSON.stringify(property.default));
}

function table(heads: string[], lines: string[][]): string {
  const print = (cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  return print(heads) + print(heads.map(() => "---")) + lines.map(print).join("");
}

function code(text: string): string {
  return `\`${text}\``;
}

if (import.meta.main) {
  for (const document of DOCUMENTS) {
    const path = join(PROJECT, document);
    const [before, after] = [await Bun.file(path).text(), await current(document)];
    if (!process.argv.includes("--check")) await Bun.write(path, after);
    else if (before !== after) {
      console.error(`${document} is not current: npm run docs`);
      process.exitCode = 1;
    }
  }
}
