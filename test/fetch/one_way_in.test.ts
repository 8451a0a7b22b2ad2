import { expect, test } from "bun:test";
import { join } from "node:path";
import { Glob } from "bun";

const SOURCE = join(import.meta.dir, "../../src");
/** What opens connections, or looks names up. */
const NETWORK =
  /\bfetch\((?!er\b)|from "(?:node:)?(?:http|https|http2|net|tls|dns|dns\/promises|dgram)"|Bun\.(?:connect|dns|serve|listen)|new WebSocket|XMLHttpRequest/;

/** Files of the source that reach the network, by their path below src. */
async function filesThat(matches: (text: string) => boolean): Promise<string[]> {
  const found: string[] = [];
  for await (const path of new Glob("**/*.ts").scan(SOURCE)) {
    const text = (await Bun.file(join(SOURCE, path)).text()).replaceAll(/\.fetch\(|async fetch\(|^\s+fetch\(/gm, "");
    if (matches(text)) found.push(path);
  }
  return found.sort();
}

test("nothing outside the fetcher's folder reaches the network", async () => {
  const files = await filesThat((text) => NETWORK.test(text));
  expect(files.filter((path) => !path.startsWith("fetch/"))).toEqual([]);
  expect(files).toContain("fetch/connection.ts"); // what is looked for is found where it is
});

test("connections are made in one file, after its callers had every address judged", async () => {
  const files = await filesThat((text) => /\b(?:net|tls|http)\.(?:connect|request|get)\(/.test(text));
  expect(files).toEqual(["fetch/connection.ts", "fetch/proxy.ts"]);
});
