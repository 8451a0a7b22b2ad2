/** Fetching wheels with the machine's pip, from a folder instead of the network: a small wheel made here. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SearchScope } from "../../ffi/locate.ts";
import type { NativeWheel } from "../../ffi/native_packages.ts";
import { provision } from "../../ffi/provision.ts";
import { refusal } from "../support/refusal.ts";

/** pip itself takes half a second, on a busy machine several. */
const PIP_TIMEOUT_MS = 60_000;

const root = mkdtempSync(join(tmpdir(), "nixl-media-provision-"));
let wheel: NativeWheel;
let folders = 0;

/** A wheel is a zip archive with three files about itself (PyPA's binary distribution format). */
const MAKE_WHEEL = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    archive.writestr("native_part/part.so", "content")
    info = "native_part-1.0.dist-info/"
    archive.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: native-part\\nVersion: 1.0\\nRequires-Dist: not-to-be-fetched\\n")
    archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    archive.writestr(info + "RECORD", "")
`;

beforeAll(() => {
  mkdirSync(join(root, "index"));
  const path = join(root, "index/native_part-1.0-py3-none-any.whl");
  const made = Bun.spawnSync(["python3", "-c", MAKE_WHEEL, path], { stderr: "inherit" });
  if (!made.success) throw new Error("python3 is needed to make a wheel");
  const sha256 = new Bun.CryptoHasher("sha256").update(readFileSync(path)).digest("hex");
  wheel = {
    registry: "pypi",
    name: "native-part",
    version: "1.0",
    megabytes: 1,
    sha256: [sha256, "0".repeat(64)],
    file: "native_part/*.so",
    override: "FFMPEG_BIN",
  };
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A native folder of its own, and pip told to look nowhere but in the folder with the wheel. */
function scopeOfItsOwn(more: Record<string, string> = {}): { scope: SearchScope; folder: string } {
  const folder = join(root, `native-${folders++}`);
  const environment = {
    ...process.env,
    PIP_NO_INDEX: "1",
    PIP_FIND_LINKS: join(root, "index"),
    NIXL_MEDIA_NATIVE_DIR: folder,
    ...more,
  };
  return { scope: { environment, packageRoot: root, systemRoot: root }, folder };
}

const quiet = (): void => {};

test(
  "a wheel is unpacked under its name and version, without its dependencies, and nothing else is left",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const lines: string[] = [];
    const path = await provision(wheel, { scope, progress: (line) => lines.push(line) });
    expect(path).toBe(join(folder, "native-part-1.0/native_part/part.so"));
    expect(readFileSync(path, "utf8")).toBe("content");
    expect(readdirSync(folder)).toEqual(["native-part-1.0"]);
    expect(lines[0]).toContain("native-part 1.0 (1 MB)");
  },
  PIP_TIMEOUT_MS,
);

test(
  "a wheel that is there is not fetched again",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    mkdirSync(join(folder, "native-part-1.0/native_part"), { recursive: true });
    writeFileSync(join(folder, "native-part-1.0/native_part/part.so"), "there before");
    const path = await provision(wheel, {
      scope: { ...scope, environment: { ...scope.environment, PATH: "" } },
      progress: quiet,
    });
    expect(readFileSync(path, "utf8")).toBe("there before");
  },
  PIP_TIMEOUT_MS,
);

test(
  "of several at the same time all get the same file, and no other is left",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const paths = await Promise.all([1, 2, 3].map(() => provision(wheel, { scope, progress: quiet })));
    expect(new Set(paths)).toEqual(new Set([join(folder, "native-part-1.0/native_part/part.so")]));
    expect(readdirSync(folder)).toEqual(["native-part-1.0"]);
  },
  PIP_TIMEOUT_MS,
);

test(
  "settings of pip that forbid installing into a folder do not matter",
  async () => {
    const { scope } = scopeOfItsOwn({ PIP_USER: "1", PIP_REQUIRE_VIRTUALENV: "1" });
    expect(existsSync(await provision(wheel, { scope, progress: quiet }))).toBe(true);
  },
  PIP_TIMEOUT_MS,
);

test(
  "a folder that lost its file is replaced",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    mkdirSync(join(folder, "native-part-1.0/native_part"), { recursive: true });
    writeFileSync(join(folder, "native-part-1.0/leftover"), "");
    expect(readFileSync(await provision(wheel, { scope, progress: quiet }), "utf8")).toBe("content");
    expect(readdirSync(folder)).toEqual(["native-part-1.0"]);
    expect(existsSync(join(folder, "native-part-1.0/leftover"))).toBe(false);
  },
  PIP_TIMEOUT_MS,
);

test(
  "a wheel whose bytes are not the pinned ones is refused, and nothing of it is left",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const other = { ...wheel, sha256: ["1".repeat(64)] };
    const error = await refusal(provision(other, { scope, progress: quiet }));
    expect(error.code).toBe("setup_failed");
    expect(error.message).toContain("FFMPEG_BIN");
    expect(readdirSync(folder)).toEqual([]);
  },
  PIP_TIMEOUT_MS,
);

test(
  "pip's complaint is the cause, cut down to one line",
  async () => {
    const { scope } = scopeOfItsOwn();
    const error = await refusal(provision({ ...wheel, version: "9.9" }, { scope, progress: quiet }));
    expect(error.code).toBe("setup_failed");
    const complaint = error.cause instanceof Error ? error.cause.message : "";
    expect(complaint).toStartWith("ERROR:");
    expect(complaint).not.toContain("\n");
    expect(complaint.length).toBeLessThanOrEqual(300);
  },
  PIP_TIMEOUT_MS,
);

test(
  "a wheel without the expected file is refused",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const error = await refusal(provision({ ...wheel, file: "native_part/*.dll" }, { scope, progress: quiet }));
    expect(error.code).toBe("setup_failed");
    expect(readdirSync(folder)).toEqual([]);
  },
  PIP_TIMEOUT_MS,
);

test(
  "an interrupted fetch says so and leaves nothing",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const abort = new AbortController();
    const progress = (): void => void setTimeout(() => abort.abort(), 50);
    const error = await refusal(provision(wheel, { scope, progress, signal: abort.signal }));
    expect(error.code).toBe("aborted");
    expect(readdirSync(folder)).toEqual([]);
  },
  PIP_TIMEOUT_MS,
);

test("without a Python the error says what to install and which variable names a copy of one's own", async () => {
  const { scope } = scopeOfItsOwn({ PATH: join(root, "nothing") });
  const error = await refusal(provision(wheel, { scope, progress: quiet }));
  expect(error.code).toBe("setup_failed");
  expect(error.message).toContain("Python with pip");
  expect(error.message).toContain("FFMPEG_BIN");
});

test(
  "a folder that cannot be made is an error that names the variable",
  async () => {
    const { scope } = scopeOfItsOwn({
      NIXL_MEDIA_NATIVE_DIR: join(root, "index/native_part-1.0-py3-none-any.whl/below"),
    });
    const error = await refusal(provision(wheel, { scope, progress: quiet }));
    expect(error.code).toBe("setup_failed");
    expect(error.message).toContain("NIXL_MEDIA_NATIVE_DIR");
  },
  PIP_TIMEOUT_MS,
);

test(
  "what a killed set-up left is removed once it is old; a younger one may still be at work",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    mkdirSync(join(folder, ".partial-old/wheel"), { recursive: true });
    mkdirSync(join(folder, ".partial-young"));
    const twoHoursAgo = Date.now() / 1000 - 7200;
    utimesSync(join(folder, ".partial-old"), twoHoursAgo, twoHoursAgo);
    await provision(wheel, { scope, progress: quiet });
    expect(readdirSync(folder).sort()).toEqual([".partial-young", "native-part-1.0"]);
  },
  PIP_TIMEOUT_MS,
);
