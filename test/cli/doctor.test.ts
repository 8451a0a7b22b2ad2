/** What `doctor` and `setup` report. Set-up has run before the tests, so the machine has every part. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { locateFfmpeg, locateNixl } from "../../ffi/locate.ts";
import { describeTurboJpeg, type PartReport, runDoctor } from "../../src/cli/doctor.ts";
import { runSetup } from "../../src/cli/setup.ts";
import { MediaError } from "../../src/errors.ts";
import { runCli } from "../support/cli.ts";

const REQUIRED = ["bun", "native shim", "libnixl", "ffmpeg", "sharp"];
const REPORT = z.object({
  ok: z.boolean(),
  parts: z.array(
    z.strictObject({
      name: z.string(),
      required: z.boolean(),
      ok: z.boolean(),
      version: z.string().nullable(),
      source: z.string().nullable(),
      path: z.string().nullable(),
      note: z.string().nullable(),
    }),
  ),
});

/** Nobody listens on the port of tcpmux (RFC 1078): the registry cannot be reached, and Bun does not try again. */
const OFFLINE = { NPM_CONFIG_REGISTRY: "http://127.0.0.1:1/", BUN_CONFIG_HTTP_RETRY_COUNT: "0", NO_PROXY: "127.0.0.1" };

const empty = mkdtempSync(join(tmpdir(), "nixl-media-doctor-"));
afterAll(() => rmSync(empty, { recursive: true, force: true }));

async function report(
  probeAgent?: () => Promise<string>,
): Promise<{ code: number; ok: boolean; part(name: string): PartReport }> {
  const lines: string[] = [];
  const code = await runDoctor((line) => lines.push(line), { json: true, ...(probeAgent ? { probeAgent } : {}) });
  expect(lines).toHaveLength(1);
  const { ok, parts } = REPORT.parse(JSON.parse(lines[0] ?? ""));
  const part = (name: string): PartReport => {
    const found = parts.find((candidate) => candidate.name === name);
    if (!found) throw new Error(`the report has no part ${name}`);
    return found;
  };
  return { code, ok, part };
}

test("every part that the main job needs is reported with where it is from", async () => {
  const { code, ok, part } = await report(async () => "created");
  expect({ code, ok }).toEqual({ code: 0, ok: true });
  for (const name of REQUIRED) expect(part(name)).toMatchObject({ required: true, ok: true });
  expect(part("bun").version).toBe(Bun.version);
  expect(part("ffmpeg").version).toMatch(/^\S+$/);
  expect(part("sharp").note).toContain("libvips");
  expect(part("libnixl").path).toEndWith("/libnixl_capi.so");
  expect(part("agent").note).toBe("created");
});

test("an agent that cannot be created means that the main job cannot run, and the cause is told", async () => {
  const cause = new Error("NIXL_ERR_BACKEND");
  const { code, ok, part } = await report(async () => {
    throw new MediaError("nixl_failed", "no backend", { cause });
  });
  expect({ code, ok }).toEqual({ code: 1, ok: false });
  expect(part("agent")).toMatchObject({ ok: false, note: "no backend: NIXL_ERR_BACKEND" });
});

test("without a probe nothing is said of an agent", async () => {
  const { part } = await report();
  expect(() => part("agent")).toThrow("no part agent");
});

test("the command prints a line a part and a verdict, and ends 0", async () => {
  const { code, stdout } = await runCli(["doctor"]);
  const lines = stdout.trim().split("\n");
  expect(lines.at(-1)).toBe("The main job can run.");
  for (const name of [...REQUIRED, "agent"]) {
    expect(lines.some((line) => line.startsWith("ok ") && line.includes(` ${name} `))).toBe(true);
  }
  expect(code).toBe(0);
});

test("a variable that names a part that is not there ends the command 1, with the variable's name", async () => {
  for (const [name, part] of [
    ["NIXL_CAPI_PATH", "libnixl"],
    ["FFMPEG_BIN", "ffmpeg"],
    ["TURBOJPEG_PATH", "libturbojpeg"],
  ] as const) {
    const { code, stdout } = await runCli(["doctor"], { env: { [name]: join(empty, "missing") } });
    const line = stdout.split("\n").find((text) => text.includes(` ${part} `));
    expect(line).toStartWith("MISSING");
    expect(line).toContain(name);
    expect(stdout).toContain("The main job cannot run");
    expect(code).toBe(1);
  }
});

test("a program that is no ffmpeg is not taken for one", async () => {
  const { code, stdout } = await runCli(["doctor"], { env: { FFMPEG_BIN: "/bin/false" } });
  expect(stdout).toMatch(/^MISSING\s+ffmpeg\s+It does not run \(exit code 1\)/m);
  expect(code).toBe(1);
});

test("libturbojpeg out of an npm package is reported with its own version, and the package's beside it", () => {
  const library = join(empty, "jpeg-turbo-3.0.1/prebuilds/jpeg-turbo-linux-x64/libturbojpeg.so.0");
  mkdirSync(join(library, ".."), { recursive: true });
  writeFileSync(library, "\0libjpeg-turbo version 3.1.3 (build 20260127)\0");
  writeFileSync(join(empty, "jpeg-turbo-3.0.1/package.json"), '{"name":"@julusian/jpeg-turbo","version":"3.0.1"}');
  const note = "out of the npm package @julusian/jpeg-turbo 3.0.1";
  for (const source of ["npm", "project"] as const) {
    expect(describeTurboJpeg({ path: library, source, version: null })).toEqual({ version: "3.1.3", note });
  }
  expect(describeTurboJpeg({ path: library, source: "system", version: null })).toEqual({ version: "3.1.3" });
});

test("setup finds what is there, fetches nothing, and ends 0", async () => {
  const { code, stdout } = await runCli(["setup"]);
  expect(stdout).toMatch(/^libnixl: \/.*libnixl_capi\.so/m);
  expect(stdout).toMatch(/^ffmpeg: \//m);
  expect(stdout).not.toContain("fetching");
  expect(stdout).toEndWith("set-up is complete\n");
  expect(code).toBe(0);
});

test("setup does not go around a variable that names a part that is not there", async () => {
  const { code, stdout } = await runCli(["setup"], { env: { FFMPEG_BIN: join(empty, "missing") } });
  expect(stdout).toContain("ffmpeg: FFMPEG_BIN names");
  expect(stdout).not.toContain("fetching");
  expect(code).toBe(1);
});

test("setup on a machine without Python or a network says in one sentence a part what to do, and ends 1", async () => {
  const lines: string[] = [];
  const environment = { HOME: empty, PATH: empty, NIXL_MEDIA_NATIVE_DIR: join(empty, "native"), ...OFFLINE };
  const scope = { environment, packageRoot: empty, systemRoot: empty };
  const code = await runSetup({ print: (line) => lines.push(line), scope });
  expect(code).toBe(1);
  const remedies = lines.filter((line) => !line.includes(": fetching "));
  expect(remedies).toHaveLength(5);
  for (const [index, remedy] of ["NIXL_CAPI_PATH", "FFMPEG_BIN", "TURBOJPEG_PATH", "LIBWEBP_PATH"].entries()) {
    expect(remedies[index]).toContain(remedy);
  }
  expect(remedies[4]).toStartWith("set-up is not complete");
});

test("setup without libturbojpeg, and without a network to fetch it from, says so in one line and is complete", async () => {
  const lines: string[] = [];
  const environment = {
    HOME: empty,
    NIXL_CAPI_PATH: locateNixl().path ?? "",
    FFMPEG_BIN: locateFfmpeg().path ?? "",
    NIXL_MEDIA_NATIVE_DIR: join(empty, "native"),
    ...OFFLINE,
  };
  const scope = { environment, packageRoot: empty, systemRoot: empty };
  expect(await runSetup({ print: (line) => lines.push(line), scope })).toBe(0);
  const [failure, ...others] = lines.filter((line) => line.startsWith("libturbojpeg (optional): "));
  expect(failure).toContain("could not be fetched");
  expect(failure).toContain("ConnectionRefused");
  expect(others).toEqual([]);
  expect(lines.at(-1)).toBe("set-up is complete");
});
