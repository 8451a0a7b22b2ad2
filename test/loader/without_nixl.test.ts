import { expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT, runCli } from "../support/cli.ts";
import { mediaPath } from "../support/media.ts";

/** An environment in which no libnixl is to be found: nothing fetched, no Python. */
function withoutNixl(folder: string): Record<string, string> {
  const { NIXL_CAPI_PATH: _, LD_LIBRARY_PATH: __, ...rest } = process.env;
  return {
    ...(rest as Record<string, string>),
    NIXL_MEDIA_NATIVE_DIR: folder,
    XDG_CACHE_HOME: folder,
    HOME: folder,
    PATH: folder,
  };
}

test("without libnixl the module imports, decodes and hashes, and the agent fails with the remedy", async () => {
  const folder = mkdtempSync(join(tmpdir(), "without-nixl-"));
  mkdirSync(join(folder, "empty"));
  const script = `
    const { MediaDecoder, MediaLoader, canonicalContentHash } = await import(${JSON.stringify(join(PROJECT, "src/index.ts"))});
    await using decoder = await MediaDecoder.open({ decoders: { children: 1 } });
    using decoded = await decoder.decode({ path: ${JSON.stringify(mediaPath("odd.jpg"))} });
    const { shape, dtype } = decoded.media.info;
    const again = canonicalContentHash(shape, dtype, decoded.bytes);
    const error = await MediaLoader.create().catch((error) => error);
    console.log(JSON.stringify({ shape, hash: decoded.media.contentHash, again, code: error.code, message: error.message }));
  `;
  const run = Bun.spawn([process.execPath, "-e", script], {
    env: withoutNixl(folder),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = [await run.stdout.text(), await run.stderr.text()];
  expect(stderr).toBe("");
  const result = JSON.parse(stdout);
  expect(result).toMatchObject({
    shape: [333, 501, 3],
    hash: "bd108c1fc3ab355e",
    again: "bd108c1fc3ab355e",
    code: "nixl_unavailable",
  });
  expect(result.message).toContain("setup");
  rmSync(folder, { recursive: true });
});

test("without libnixl describe ends with one clear line and exit code 2", async () => {
  const folder = mkdtempSync(join(tmpdir(), "without-nixl-"));
  const run = await runCli(["describe", mediaPath("odd.jpg")], { env: withoutNixl(folder) });
  expect(run).toMatchObject({ code: 2, stdout: "" });
  expect(run.stderr.trim().split("\n")).toHaveLength(1);
  expect(run.stderr).toContain("[nixl_unavailable]");
  expect(run.stderr).not.toContain("    at ");
  rmSync(folder, { recursive: true });
});
