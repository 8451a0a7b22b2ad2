import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT, runCli } from "../support/cli.ts";
import { mediaPath } from "../support/media.ts";

const folder = mkdtempSync(join(tmpdir(), "shim-"));
const library = join(folder, "libnixl_media_shim.so");
const hasCompiler = Bun.which("cc") !== null;
let build: { exitCode: number | null; stderr: string };

beforeAll(async () => {
  const process = Bun.spawn(["sh", join(PROJECT, "scripts/build_shim.sh")], {
    env: { ...globalThis.process.env, NIXL_MEDIA_NATIVE_DIR: folder },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stderr = await process.stderr.text();
  await process.exited;
  build = { exitCode: process.exitCode, stderr };
});

afterAll(() => rmSync(folder, { recursive: true }));

test("building the shim ahead makes a library, without a warning; where there is no compiler it says so", () => {
  expect(existsSync(library)).toBe(hasCompiler);
  expect(build.exitCode).toBe(hasCompiler ? 0 : 1);
  if (hasCompiler) expect(build.stderr).toBe("");
  else expect(build.stderr).toContain("no compiler");
});

describe("NIXL_MEDIA_SHIM_PATH", () => {
  const describeWith = (path: string) =>
    runCli(["describe", mediaPath("rgb.png"), "--no-hold"], { env: { NIXL_MEDIA_SHIM_PATH: path } });

  test("that names a built shim does the whole job with it, in parent and children", async () => {
    const run = await describeWith(library);
    expect(run.code).toBe(hasCompiler ? 0 : 2);
    expect(run.stdout.split("\n").length).toBe(hasCompiler ? 2 : 1);
  });

  test("that names nothing is an error", async () => {
    const run = await describeWith(join(folder, "missing.so"));
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr).toContain("[native_missing]");
  });

  test("that names another library is an error with the remedy", async () => {
    const other = join(folder, "other.so");
    await Bun.write(other, "no library");
    const run = await describeWith(other);
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr).toContain("npm run build:shim");
    expect(run.stderr.trim().split("\n")).toHaveLength(1);
  });
});
