import { expect, test } from "bun:test";
import { join } from "node:path";
import { current, DOCUMENTS } from "../../scripts/docs.ts";
import { PROJECT } from "../support/cli.ts";

test.each(DOCUMENTS)("%s has the tables that the source has (npm run docs)", async (document) => {
  expect(await current(document)).toBe(await Bun.file(join(PROJECT, document)).text());
});

test("only ffi/ touches bun:ffi", async () => {
  const offenders: string[] = [];
  for await (const file of new Bun.Glob("{src,bench,examples,scripts,test}/**/*.ts").scan(PROJECT)) {
    if (/from\s+"bun:ffi"|import\("bun:ffi"\)/.test(await Bun.file(join(PROJECT, file)).text())) offenders.push(file);
  }
  expect(offenders).toEqual([]);
});

test.each([
  ["tensor", ["fetch", "decode", "nixl", "loader", "cli"]],
  ["fetch", ["decode", "nixl", "loader", "cli"]],
  ["decode", ["fetch", "nixl", "loader", "cli"]],
  ["nixl", ["fetch", "decode", "loader", "cli"]],
  ["loader", ["cli"]],
])("src/%s depends on none of %p", async (folder, forbidden) => {
  const imports = new RegExp(`from\\s+"(\\.\\./)+(${forbidden.join("|")})/`);
  const offenders: string[] = [];
  for await (const file of new Bun.Glob(`src/${folder}/**/*.ts`).scan(PROJECT)) {
    if (imports.test(await Bun.file(join(PROJECT, file)).text())) offenders.push(file);
  }
  expect(offenders).toEqual([]);
});
