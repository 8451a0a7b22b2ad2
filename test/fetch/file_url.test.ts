import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { isEncodedFile } from "../../src/encoded.ts";
import type { MediaError } from "../../src/errors.ts";
import { readFileUrl } from "../../src/fetch/local_file.ts";
import { eventually, openDescriptors } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";

const MEBIBYTE = 1024 * 1024;
const LIMIT = 64 * MEBIBYTE;
const root = realpathSync(mkdtempSync(join(tmpdir(), "file-url-")));
/** The allowed folder, and its neighbours. */
const data = join(root, "data");
const outside = join(root, "outside");
mkdirSync(join(data, "sub"), { recursive: true });
mkdirSync(outside);
mkdirSync(join(root, "data-evil"));
writeFileSync(join(data, "a b%.png"), "inside");
writeFileSync(join(data, "sub", "deep"), "deep");
writeFileSync(join(outside, "secret"), "secret");
writeFileSync(join(root, "data-evil", "secret"), "secret");
symlinkSync(join(outside, "secret"), join(data, "link-out"));
symlinkSync(join(outside, "missing"), join(data, "link-to-missing"));
symlinkSync(outside, join(data, "folder-out"));
symlinkSync("sub/deep", join(data, "link-inside"));
symlinkSync("link-loop", join(data, "link-loop"));
symlinkSync(data, join(root, "data-link"));
afterAll(() => rmSync(root, { recursive: true }));

async function textOf(url: string, folder: string | null = data): Promise<string> {
  const encoded = await readFileUrl(new URL(url), folder, LIMIT);
  if (isEncodedFile(encoded)) throw new Error("it came as a file");
  return Buffer.from(encoded).toString();
}

const refused = (url: string, folder: string | null = data): Promise<MediaError> =>
  refusal(readFileUrl(new URL(url), folder, LIMIT));

describe("a file: URL is read", () => {
  test.each([
    ["with escaped characters", pathToFileURL(join(data, "a b%.png")).href, "inside"],
    ["in a folder below", `file://${data}/sub/deep`, "deep"],
    ["of this host by name", `FILE://LocalHost${data}/sub/deep`, "deep"],
    ["with dots that stay inside", `file://${data}/sub/../sub/%2e/deep`, "deep"],
    ["with a query and a fragment, which name no file", `file://${data}/sub/deep?x#y`, "deep"],
    ["through a symbolic link that stays inside", `file://${data}/link-inside`, "deep"],
  ])("%s", async (_, url, text) => {
    expect(await textOf(url)).toBe(text);
  });

  test("when the folder is a symbolic link, by its name and by the real one", async () => {
    const link = join(root, "data-link");
    expect(await textOf(`file://${link}/sub/deep`, link)).toBe("deep");
    expect(await textOf(`file://${data}/sub/deep`, link)).toBe("deep");
    expect(await textOf(`file://${data}/sub/deep`, `${data}/`)).toBe("deep");
    expect(await textOf(`file://${data}/sub/deep`, "/")).toBe("deep");
  });

  test("as bytes when it is small, and open when it is large", async () => {
    const path = join(data, "large");
    writeFileSync(path, "large");
    truncateSync(path, 16 * MEBIBYTE + 1);
    const before = openDescriptors();
    const encoded = await readFileUrl(pathToFileURL(path), data, LIMIT);
    if (!isEncodedFile(encoded)) throw new Error("it came as bytes");
    expect(encoded.byteLength).toBe(16 * MEBIBYTE + 1);
    expect(Buffer.from(encoded.start.subarray(0, 5)).toString()).toBe("large");
    expect(openDescriptors()).toBe(before + 1);
    encoded.dispose();
    const tooLarge = await refusal(readFileUrl(pathToFileURL(path), data, 16 * MEBIBYTE));
    expect(tooLarge).toMatchObject({ code: "media_too_large", status: 400 });
    expect(tooLarge.message).not.toContain(root);
    await eventually("all are closed", () => openDescriptors() === before);
  });
});

describe("a file: URL is refused before anything is looked up", () => {
  test.each([
    ["that names a file elsewhere", `file://${outside}/secret`],
    ["that climbs out", `file://${data}/../outside/secret`],
    ["that climbs out in escapes", `file://${data}/%2e%2E/outside/secret`],
    ["that climbs out in mixed escapes", `file://${data}/sub/.%2e/%2e./outside/secret`],
    ["that climbs out by backslashes", `file://${data}\\..\\outside\\secret`],
    ["that climbs out by an encoded slash", `file://${data}/..%2Foutside/secret`],
    ["with an encoded slash that stays inside", `file://${data}/sub%2fdeep`],
    ["with NUL", `file://${data}/sub/deep%00.png`],
    ["of a folder whose name begins like the allowed one", `file://${root}/data-evil/secret`],
    ["of the folder itself", `file://${data}`],
    ["of another machine", `file://example.com${data}/sub/deep`],
    ["of an address of this machine", `file://127.0.0.1${data}/sub/deep`],
    ["that begins with two slashes", `file:///${data}/sub/deep`],
    ["that names no absolute path", "file:sub/deep"],
    ["of another scheme", `ftp://localhost${data}/sub/deep`],
  ])("%s", async (_, url) => {
    const error = await refused(url);
    expect(error).toMatchObject({ code: "url_refused", status: 400 });
    expect(error.message).not.toContain(root);
  });

  test("when no folder is allowed, like any scheme that is not loaded", async () => {
    const error = await refused(`file://${data}/sub/deep`, null);
    expect(error).toMatchObject({ code: "url_refused", message: "Only HTTP(S) and data URLs are allowed" });
  });

  test("with escapes that are none or no UTF-8", async () => {
    expect(await refused(`file://${data}/%zz`)).toMatchObject({ code: "url_invalid" });
    expect(await refused(`file://${data}/%ff`)).toMatchObject({ code: "url_invalid" });
  });
});

describe("a stranger cannot tell what exists outside", () => {
  Bun.spawnSync(["mkfifo", join(data, "pipe")]);
  symlinkSync("/dev/zero", join(data, "device"));
  const missing = refused(`file://${data}/missing`);

  test.each([
    ["a symbolic link to a file outside", "link-out"],
    ["a symbolic link to nothing", "link-to-missing"],
    ["a file in a folder outside", "folder-out/secret"],
    ["nothing in a folder outside", "folder-out/missing"],
    ["a file outside, taken for a folder", "folder-out/secret/x"],
    ["a file, taken for a folder", "sub/deep/"],
    ["a folder", "sub"],
    ["the folder itself", ""],
    ["a named pipe, which nobody writes to", "pipe"],
    ["a device, which has no end", "device"],
    ["a symbolic link to itself", "link-loop"],
    ["a name that is too long", "x".repeat(300)],
    ["a name that is encoded twice", "%252e%252e/outside/secret"],
  ])("%s looks like a missing file", async (_, name) => {
    const before = openDescriptors();
    const error = await refused(`file://${data}/${name}`);
    const like = await missing;
    expect(error).toMatchObject({ code: "file_unreadable", status: 400, message: like.message });
    expect(error.message).not.toContain(root);
    await eventually("all is closed", () => openDescriptors() <= before);
  });

  test("also while what is below the folder is swapped for links that lead out", async () => {
    const [file, folder] = [join(data, "swapped"), join(data, "swapped-folder")];
    const swapper = Bun.spawn([process.execPath, "-e", SWAPPER, file, folder, outside, data], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    const seen = new Map<string, number>();
    const isDone = (): boolean => ["deep", "file_unreadable"].every((outcome) => (seen.get(outcome) ?? 0) >= 2000);
    try {
      for (let i = 0; i < 400_000 && !isDone(); i++) {
        const url = `file://${i % 2 === 0 ? file : `${folder}/secret`}`;
        const outcome = await textOf(url).catch((error: MediaError) => error.code);
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      }
    } finally {
      swapper.kill("SIGKILL");
      await swapper.exited;
    }
    expect([...seen.keys()].sort()).toEqual(["deep", "file_unreadable"]);
    expect(isDone()).toBe(true);
  });
});

/** Puts a file and a link out, a folder and a link out, in each other's place until it is killed. */
const SWAPPER = `
  const { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } = require("node:fs");
  const [file, folder, outside, data] = process.argv.slice(-4);
  mkdirSync(data + "/kept");
  writeFileSync(data + "/kept/secret", "deep");
  for (;;) {
    writeFileSync(file + ".new", "deep");
    renameSync(file + ".new", file);
    symlinkSync(data + "/kept", folder + ".new");
    renameSync(folder + ".new", folder);
    symlinkSync(outside + "/secret", file + ".new");
    renameSync(file + ".new", file);
    symlinkSync(outside, folder + ".new");
    renameSync(folder + ".new", folder);
  }
`;

describe("what is this machine's fault is no fault of the URL", () => {
  test("an allowed folder that is not there", async () => {
    const error = await refused(`file://${root}/nowhere/a.png`, join(root, "nowhere"));
    expect(error).toMatchObject({ code: "system_failed", status: 500 });
    expect(error.message).not.toContain(root);
  });

  test("no descriptor left", async () => {
    const script = `
      const { openSync } = require("node:fs");
      const { readFileUrl, readLocalFile } = await import(${JSON.stringify(join(import.meta.dir, "../../src/fetch/local_file.ts"))});
      await readFileUrl(new URL("file://${data}/sub/deep"), "${data}", 100); // whatever is opened once is open
      try { for (;;) openSync("/dev/null"); } catch {}
      const codes = [
        await readFileUrl(new URL("file://${data}/sub/deep"), "${data}", 100).catch((error) => error.code),
        await readLocalFile("${data}/sub/deep", 100).catch((error) => error.code),
      ];
      require("node:fs").writeSync(1, codes.join());
      process.exit();
    `;
    const run = Bun.spawnSync(["sh", "-c", 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, script]);
    expect(run.stdout.toString()).toBe("system_failed,system_failed");
  });
});
