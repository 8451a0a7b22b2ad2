/** bin/nixl-media, as npm links it into a project. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { endOf, installBun, makeProject, pathWithoutBun, start, writeFiles } from "./launcher.ts";

const SHOW =
  "console.log(JSON.stringify([process.cwd(), process.env.PLANTED ?? null, ...process.argv.slice(2)])); process.exit(5);";
let root: string;
let bun: string;
let link: string;

beforeAll(() => {
  root = makeProject({ installed: true, files: { "src/cli/main.ts": SHOW } });
  bun = installBun(root);
  // Two links, one relative and one absolute, as with a linked package in a global folder.
  mkdirSync(join(root, "links/deep"), { recursive: true });
  symlinkSync("../../bin/nixl-media", join(root, "links/deep/relative"));
  link = join(root, "links/nixl-media");
  symlinkSync(join(root, "links/deep/relative"), link);
  writeFiles(root, {
    "caller/bunfig.toml": 'preload = ["./planted.ts"]',
    "caller/tsconfig.json": '{"compilerOptions":{"paths":{"*":["./planted.ts"]}}}',
    "caller/planted.ts": 'console.log("planted code ran");',
    "caller/.env": "PLANTED=planted",
  });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

test("the command finds its package through links, and runs in the caller's folder without taking settings from it", async () => {
  const started = start(["sh", "-c", 'cd caller && exec "$0" "$@"', link, "describe", "a b.jpg"], root, {
    BUN_INSTALL: bun,
  });
  const ended = await endOf(started);
  expect(JSON.parse(ended.stdout)).toEqual([join(root, "caller"), null, "describe", "a b.jpg"]);
  expect(ended).toMatchObject({ stderr: "", exitCode: 5 });
});

test("without a Bun the command says in one line what to do, and installs nothing", async () => {
  const environment = { PATH: pathWithoutBun(root), BUN_INSTALL: join(root, "nothing") };
  const ended = await endOf(start([link, "describe"], root, environment));
  expect(ended).toMatchObject({ stdout: "", exitCode: 127 });
  expect(ended.stderr.trim().split("\n")).toHaveLength(1);
  expect(ended.stderr).toContain("install it");
});
