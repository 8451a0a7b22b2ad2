/** What `describe` is given: paths and URLs, on the command line or one a line in a file. */
import { readFile } from "node:fs/promises";
import { MediaError } from "../errors.ts";
import { isDataUrl, type MediaSource, shownPath } from "../fetch/index.ts";

/** One medium that is to be described. */
export interface Source {
  readonly source: MediaSource;
  /** What messages call it: short, and without what may be secret. */
  readonly label: string;
}

/**
 * What makes a URL of an argument, white space before it or not; a file whose name begins like that is given as `./http:…`. Schemes
 * that cannot be loaded are refused as such: as a path, what they carry would be shown.
 */
const URL_SCHEME = /^\s*((https?|data|file):|[a-z][a-z\d+.-]*:\/\/)/i;
/** Some editors begin a file with it. */
const BYTE_ORDER_MARK = /^\ufeff/;
/** What a message shows of a data URL's media type, and of any other URL, characters. */
const MOST_TYPE_CHARACTERS = 60;
const MOST_LABEL_CHARACTERS = 200;

/** @param argument a path or a URL */
export function sourceOf(argument: string): Source {
  if (!URL_SCHEME.test(argument)) return { source: { path: argument }, label: shownPath(argument) };
  const url = argument.trim();
  return { source: url, label: isDataUrl(url) ? labelOfDataUrl(url) : labelOfUrl(url) };
}

/** The sources in a file, one a line; empty lines are none. @throws MediaError file_unreadable */
export async function readSources(path: string): Promise<Source[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "unknown error";
    throw new MediaError("file_unreadable", `${shownPath(path)} cannot be read (${code})`, { cause });
  }
  return text
    .replace(BYTE_ORDER_MARK, "")
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
