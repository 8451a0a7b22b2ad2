/** Which Bun the launchers take. Other versions are stand-ins: programs that print a version. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { endOf, makeProject, pathWithoutBun, start, writeBunOfVersion, writeFiles } from "./launcher.ts";

const MODULES_BUN = "node_modules/.bin/bun";
let project: string;
let tools: string;

beforeAll(() => {
  project = makeProject({ installed: true });
  tools = pathWithoutBun(project);
});
afterAll(() => rmSync(project, { recursive: true, force: true }));

/** A package folder of its own below the project, whose package.json wants Bun 1.4.0 or newer. */
function packageFolder(name: string): string {
  const folder = join(project, "packages", name);
  writeFiles(folder, { "package.json": '{\n  "engines": {\n    "bun": ">=1.4.0"\n  }\n}\n' });
  return folder;
}

async function findBun(folder: string, path: string[] = [], environment: Record<string, string> = {}): Promise<string> {
  const program = `. "${project}/scripts/find_bun.sh"; find_bun "$1"`;
  const env = { PATH: [...path, tools].join(":"), BUN_INSTALL: join(folder, "nothing"), ...environment };
  const found = await endOf(start(["sh", "-euc", program, "sh", folder], project, env));
  expect(found.stderr).toBe("");
  expect(found.exitCode).toBe(found.stdout === "" ? 1 : 0);
  return found.stdout.trim();
}

test("without any Bun there is none", async () => {
  expect(await findBun(packageFolder("none"))).toBe("");
});

test("the machine's own goes before the one in node_modules", async () => {
  const folder = packageFolder("both");
  writeBunOfVersion(join(folder, "machine/bun"), "1.4.0");
  writeBunOfVersion(join(folder, MODULES_BUN), "1.4.5");
  expect(await findBun(folder, [join(folder, "machine")])).toBe(join(folder, "machine/bun"));
});

test("a node_modules/.bin on PATH, as npm sets it, is not the machine's own", async () => {
  const folder = packageFolder("npm-path");
  const machine = join(folder, "machine dir with spaces");
  writeBunOfVersion(join(folder, MODULES_BUN), "1.4.5");
  writeBunOfVersion(join(machine, "bun"), "1.5.0");
  expect(await findBun(folder, [join(folder, "node_modules/.bin"), machine])).toBe(join(machine, "bun"));
});

test("one where Bun's installer puts it is found without PATH", async () => {
  const folder = packageFolder("installer");
  writeBunOfVersion(join(folder, "bun/bin/bun"), "1.10.0");
  expect(await findBun(folder, [], { BUN_INSTALL: join(folder, "bun") })).toBe(join(folder, "bun/bin/bun"));
});

test("versions are compared as numbers, and previews count as their version", async () => {
  const folder = packageFolder("versions");
  writeBunOfVersion(join(folder, MODULES_BUN), "1.4.5");
  const suitable = ["1.4.0", "1.4.1-canary.20+abcdef", "1.10.0", "2.0.0"];
  const unsuitable = ["1.3.99", "0.9.9", "1.4", "", "not a version", "Error: 1.5.0", "1.x.0"];
  for (const version of [...suitable, ...unsuitable]) {
    writeBunOfVersion(join(folder, "machine/bun"), version);
    // "1.4" is completed to 1.4.0.
    const taken = suitable.includes(version) || version === "1.4";
    const expected = join(folder, taken ? "machine/bun" : MODULES_BUN);
    expect({ version, bun: await findBun(folder, [join(folder, "machine")]) }).toEqual({ version, bun: expected });
  }
});

test("a package whose install script did not run gives way to the program in its platform package", async () => {
  const folder = packageFolder("no-install-script");
  writeFiles(folder, { [MODULES_BUN]: "Error: Bun's postinstall script was not run." });
  const program = join(folder, "node_modules/@oven/bun-linux-x64-baseline/bin/bun");
  writeBunOfVersion(program, "1.4.5");
  expect(await findBun(folder)).toBe(program);
});

test("a platform package that does not run here is passed over", async () => {
  const folder = packageFolder("platforms");
  writeFiles(folder, { "node_modules/@oven/bun-linux-aarch64/bin/bun": "for another machine" });
  const program = join(folder, "node_modules/@oven/bun-linux-x64/bin/bun");
  writeBunOfVersion(program, "1.4.5");
  expect(await findBun(folder)).toBe(program);
});

test("installed in another project, that project's Bun is found", async () => {
  const consumer = packageFolder("consumer");
  const folder = join(consumer, "node_modules/nixl-media");
  writeFiles(folder, { "package.json": '{ "engines": { "bun": ">=1.4.0" } }' });
  writeBunOfVersion(join(consumer, MODULES_BUN), "1.4.5");
  expect(await findBun(folder)).toBe(join(consumer, MODULES_BUN));
});

test("a folder that is called bun is none", async () => {
  const folder = packageFolder("folder");
  mkdirSync(join(folder, "machine/bun"), { recursive: true });
  expect(await findBun(folder, [join(folder, "machine")])).toBe("");
});
