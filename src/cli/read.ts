/** `read`: reads the media whose descriptors come on stdin, and says whether they are what they claim to be. */
import { writeFile } from "node:fs/promises";
import { extname } from "node:path";
import { parseArgs } from "node:util";
import { asMediaError } from "../errors.ts";
import { MediaReader, type ReadMedia } from "../nixl/index.ts";
import { complain, errorLine, JsonLines } from "./output.ts";
import { encodePng } from "./png.ts";

/** A line longer than this is no descriptor; the rest of the input is not kept in memory for it. */
const MAXIMUM_LINE_LENGTH = 16 * 1024 * 1024;

/**
 * Prints a line for each descriptor: shape, dtype, content_hash, verified, gb_per_s (payload by the
 * time of its transfer, without connecting), and the file that was written. Stops when stdout is closed.
 * @returns exit code: 0, or 1 when a medium could not be read or is not what its hash says
 * @throws MediaError output_unwritable, file_unreadable when stdout or stdin fail; what keeps the reader from opening
 */
export async function runRead(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { out: { type: "string" } } });
  const output = new JsonLines();
  using reader = await MediaReader.open();
  let failures = 0;
  let number = 0;
  for await (const line of linesOfStdin()) {
    if (line.trim() === "") continue;
    number += 1;
    let result: ReadResult;
    try {
      result = await readOne(reader, line, values.out === undefined ? null : numbered(values.out, number));
    } catch (error) {
      failures += 1;
      complain(errorLine(`descriptor ${number}`, error));
      continue;
    }
    if (result.verified === false) failures += 1;
    if (!(await output.write(JSON.stringify(result)))) break;
  }
  output.close();
  return failures === 0 ? 0 : 1;
}

type ReadResult = ReturnType<typeof summary> & { readonly out?: string };

async function readOne(reader: MediaReader, line: string, file: string | null): Promise<ReadResult> {
  using media = await reader.read(line);
  if (file === null) return summary(media);
  await write(file, media);
  return { ...summary(media), out: file };
}

function summary(media: ReadMedia) {
  const { shape, dtype, contentHash, verified, bytes, transferMs } = media;
  const gigabytesPerSecond = bytes.byteLength / 1e6 / Math.max(transferMs, 1e-3);
  return { shape, dtype, content_hash: contentHash, verified, gb_per_s: Number(gigabytesPerSecond.toPrecision(3)) };
}

/** A PNG when the name says so (a contact sheet for a clip), else the raw tensor. */
async function write(file: string, media: ReadMedia): Promise<void> {
  try {
    // Not Bun.write, which makes missing folders: a misspelt path is to be told.
    await writeFile(file, extname(file).toLowerCase() === ".png" ? await encodePng(media) : media.bytes);
  } catch (error) {
    throw asMediaError(error, "output_unwritable", `${file} cannot be written`);
  }
}

/** out.png, out-2.png, out-3.png … */
function numbered(file: string, number: number): string {
  const extension = extname(file);
  return number === 1 ? file : `${file.slice(0, file.length - extension.length)}-${number}${extension}`;
}

/** @throws MediaError file_unreadable */
async function* linesOfStdin(): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pending = "";
  try {
    for await (const chunk of Bun.stdin.stream()) {
      const lines = (pending + decoder.decode(chunk, { stream: true })).split("\n");
      pending = (lines.pop() ?? "").slice(0, MAXIMUM_LINE_LENGTH);
      yield* lines;
    }
  } catch (error) {
    throw asMediaError(error, "file_unreadable", "stdin cannot be read");
  }
  if (pending !== "") yield pending;
}
