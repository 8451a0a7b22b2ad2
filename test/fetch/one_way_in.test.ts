import { expect, test } from "bun:test";
import { join } from "node:path";
import { Glob } from "bun";

const SOURCE = join(import.meta.dir, "../../src");
/** What opens connections, or looks names up. */
const MODULES = "(?:node:)?(?:http|https|http2|net|tls|dns|dns/promises|dgram|undici|ws)";
const NETWORK = new RegExp(
  [
    "(?<![.#\\w])fetch\\(",
    "\\b(?:globalThis|Bun|self|window)\\.(?:fetch|connect|dns|serve|listen|udpSocket)\\b",
    `(?:from|import\\(|require\\()\\s*["']${MODULES}["']`,
    '\\{[^}]*\\b(?:dns|connect|fetch|listen|serve|udpSocket)\\b[^}]*\\} from "bun"',
    "new (?:WebSocket|EventSource|XMLHttpRequest)\\b",
  ].join("|"),
);

/** Files of the source that reach the network, by their path below src. */
async function filesThat(matches: (text: string) => boolean): Promise<string[]> {
  const found: string[] = [];
  for await (const path of new Glob("**/*.ts").scan(SOURCE)) {
    // The fetcher's own method, where it is declared.
    const text = (await Bun.file(join(SOURCE, path)).text()).replaceAll(/async fetch\(|^ {2}fetch\(/gm, "");
    if (matches(text)) found.push(path);
  }
  return found.sort();
}

test("nothing outside the fetcher's folder reaches the network", async () => {
  const files = await filesThat((text) => NETWORK.test(text));
  expect(files.filter((path) => !path.startsWith("fetch/"))).toEqual([]);
  expect(files).toContain("fetch/connection.ts"); // what is looked for is found where it is
});

test.each([
  ["fetch(url)"],
  ["await globalThis.fetch(url)"],
  ["Bun.fetch(url)"],
  ['import { dns, connect } from "bun"'],
  ['await import("node:net")'],
  ['require("http")'],
  ["new EventSource(url)"],
])("%s would be noticed", (text) => {
  expect(NETWORK.test(text)).toBe(true);
});

test("connections are made in one file, after its callers had every address judged", async () => {
  const files = await filesThat((text) => /\b(?:net|tls|http)\.(?:connect|request|get)\(/.test(text));
  expect(files).toEqual(["fetch/connection.ts", "fetch/proxy.ts"]);
});
