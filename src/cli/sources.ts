/** What `describe` is given: paths and URLs, on the command line or one a line in a file. */
import { readFile } from "node:fs/promises";
import { MediaError } from "../errors.ts";
import { isDataUrl, type MediaSource } from "../fetch/index.ts";

/** One medium that is to be described. */
export interface Source {
  readonly source: MediaSource;
  /** What messages call it: short, and without what may be secret. */
  readonly label: string;
}

/** Schemes that make a URL of an argument; a file whose name begins like that is given as `./http:…`. */
const URL_SCHEME = /^(https?|data|file):/i;
/** What a message shows of a data URL's media type, and of any other URL, characters. */
const MOST_TYPE_CHARACTERS = 60;
const MOST_LABEL_CHARACTERS = 200;

/** @param argument a path, or a URL of one of the schemes that can be loaded */
export function sourceOf(argument: string): Source {
  if (!URL_SCHEME.test(argument)) return { source: { path: argument }, label: argument };
  return { source: argument, label: isDataUrl(argument) ? labelOfDataUrl(argument) : labelOfUrl(argument) };
}

/** The sources in a file, one a line; empty lines are none. @throws MediaError file_unreadable */
export async function readSources(path: string): Promise<Source[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown error";
    throw new MediaError("file_unreadable", `${path} cannot be read (${code})`, { cause });
  }
  return text
    .split(/\r?\n/)
    .filter((line) => line.trim() !== "")
    .map(sourceOf);
}

/** Up to the comma; the data are too long for a message, and whose they are is not known. */
function labelOfDataUrl(url: string): string {
  const comma = url.slice(0, MOST_TYPE_CHARACTERS).indexOf(",");
  return `${url.slice(0, comma < 0 ? "data:".length : comma + 1)}…`;
}

/** Without credentials, query and fragment: what signs a URL is there. */
function labelOfUrl(text: string): string {
  const url = URL.parse(text);
  if (!url) return `${text.slice(0, text.indexOf(":"))}:…`;
  const label = `${url.protocol}//${url.host}${url.pathname}`;
  const shown = label.slice(0, MOST_LABEL_CHARACTERS);
  return shown === label && url.search === "" ? shown : `${shown}…`;
}
