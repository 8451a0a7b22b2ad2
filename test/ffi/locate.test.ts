/** Where the native parts are searched, and in which order. Nothing found here is ever opened: the libraries are headers. */
import { afterAll, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import {
  findFfmpeg,
  findNixl,
  findTurboJpeg,
  findUcxPlugin,
  type LocatedPart,
  nativeFolders,
  type SearchScope,
} from "../../ffi/locate.ts";
import { FFMPEG_WHEEL, NIXL_WHEEL, packageFolderName, TURBOJPEG_PACKAGE } from "../../ffi/native_packages.ts";
import { MediaError } from "../../src/errors.ts";

const NIXL = "libnixl_capi.so";
const CU12_FOLDER = ".nixl_cu12.mesonpy.libs";
const THIS_MACHINE = process.arch === "arm64" ? 183 : 62;
const OTHER_MACHINE = process.arch === "arm64" ? 62 : 183;

const worlds: string[] = [];
afterAll(() => {
  for (const world of worlds) rmSync(world, { recursive: true, force: true });
});

/** An empty machine: nothing in the environment, nothing installed. */
function world(): { root: string; scope: SearchScope; withEnvironment(more: Record<string, string>): SearchScope } {
  const root = mkdtempSync(join(tmpdir(), "nixl-media-locate-"));
  worlds.push(root);
  const scope = {
    environment: { HOME: join(root, "home") },
    packageRoot: join(root, "package"),
    systemRoot: join(root, "system"),
  };
  const withEnvironment = (more: Record<string, string>): SearchScope => ({
    ...scope,
    environment: { ...scope.environment, ...more },
  });
  return { root, scope, withEnvironment };
}

function file(path: string, content: string | Uint8Array): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
}

/** The start of a 64-bit little-endian ELF shared object. */
function library(path: string, machine = THIS_MACHINE): string {
  const header = Buffer.alloc(64);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  header.writeUInt16LE(3, 16);
  header.writeUInt16LE(machine, 18);
  return file(path, header);
}

/** A libturbojpeg of version 3: it names a function that older ones do not have. */
function turboJpeg3(path: string): string {
  return file(path, Buffer.concat([readFileSync(library(path)), Buffer.from("\0tj3SetCroppingRegion\0")]));
}

function program(path: string): string {
  file(path, "#!/bin/sh\n");
  chmodSync(path, 0o755);
  return path;
}

/** site-packages with an installed wheel of libnixl. */
function installNixlWheel(packages: string, name: string, version: string): string {
  mkdirSync(join(packages, `${name}-${version}.dist-info`), { recursive: true });
  return library(join(packages, `.${name}.mesonpy.libs`, NIXL));
}

function refusal(search: () => LocatedPart): MediaError {
  try {
    search();
  } catch (error) {
    if (error instanceof MediaError) return error;
  }
  throw new Error("the search was not refused with a MediaError");
}

test("a machine without anything gets one remedy a part, which names the variable", () => {
  const { scope } = world();
  const remedies = [findNixl(scope), findFfmpeg(scope), findTurboJpeg(scope)].map((part) => {
    expect(part.path).toBeNull();
    return part.path === null ? part.remedy : "";
  });
  for (const [index, name] of ["NIXL_CAPI_PATH", "FFMPEG_BIN", "TURBOJPEG_PATH"].entries()) {
    expect(remedies[index]).toContain(name);
    expect(remedies[index]).not.toContain("\n");
  }
});

test("NIXL_CAPI_PATH names the library or the folder that holds it", () => {
  const { root, withEnvironment } = world();
  const path = library(join(root, "own", NIXL));
  for (const named of [path, dirname(path)]) {
    expect(findNixl(withEnvironment({ NIXL_CAPI_PATH: named }))).toEqual({
      path,
      source: "environment",
      version: null,
    });
  }
});

test("a library that is named inside an unpacked wheel has the wheel's version", () => {
  const { root, withEnvironment } = world();
  const path = installNixlWheel(join(root, "unpacked"), "nixl_cu13", "1.4.2");
  expect(findNixl(withEnvironment({ NIXL_CAPI_PATH: path }))).toMatchObject({
    source: "environment",
    version: "1.4.2",
  });
});

test("a variable that names something that is not there is an error, even when the part is elsewhere", () => {
  const { root, withEnvironment } = world();
  const elsewhere = join(root, "lib");
  library(join(elsewhere, NIXL));
  library(join(elsewhere, "libturbojpeg.so.0"));
  program(join(elsewhere, "ffmpeg"));
  const environment = { LD_LIBRARY_PATH: elsewhere, PATH: elsewhere };
  const searches = { NIXL_CAPI_PATH: findNixl, FFMPEG_BIN: findFfmpeg, TURBOJPEG_PATH: findTurboJpeg };
  for (const [name, find] of Object.entries(searches)) {
    expect(find(withEnvironment(environment)).path).not.toBeNull();
    for (const named of [join(root, "missing"), join(root, "lib", NIXL, "below-a-file")]) {
      const error = refusal(() => find(withEnvironment({ ...environment, [name]: named })));
      expect(error.code).toBe("native_missing");
      expect(error.message).toContain(`${name} names ${named}`);
    }
  }
});

test("a variable that names a folder without the part is an error", () => {
  const { root, withEnvironment } = world();
  for (const [name, find] of [
    ["NIXL_CAPI_PATH", findNixl],
    ["FFMPEG_BIN", findFfmpeg],
    ["TURBOJPEG_PATH", findTurboJpeg],
  ] as const) {
    expect(refusal(() => find(withEnvironment({ [name]: root }))).code).toBe("native_missing");
  }
});

test("a variable that names a file of the wrong kind is an error that says so", () => {
  const { root, withEnvironment } = world();
  const text = file(join(root, "notes.txt"), "not a library, and longer than an ELF header is");
  const foreign = library(join(root, "foreign.so"), OTHER_MACHINE);
  for (const named of [text, foreign, file(join(root, "empty.so"), "")]) {
    const error = refusal(() => findNixl(withEnvironment({ NIXL_CAPI_PATH: named })));
    expect(error.message).toContain("no shared library");
  }
  expect(refusal(() => findFfmpeg(withEnvironment({ FFMPEG_BIN: text }))).message).toContain("not executable");
});

test("a variable that is set to nothing counts as unset", () => {
  const { scope, withEnvironment } = world();
  const empty = { NIXL_CAPI_PATH: "", FFMPEG_BIN: "", TURBOJPEG_PATH: "", NIXL_MEDIA_NATIVE_DIR: "" };
  expect(findNixl(withEnvironment(empty)).path).toBeNull();
  expect(findFfmpeg(withEnvironment(empty)).path).toBeNull();
  expect(findTurboJpeg(withEnvironment(empty)).path).toBeNull();
  expect(nativeFolders(withEnvironment(empty))).toEqual(nativeFolders(scope));
});

test("a relative path in a variable becomes absolute", () => {
  const { root, withEnvironment } = world();
  const path = program(join(root, "ffmpeg"));
  const up = "../".repeat(process.cwd().split("/").length);
  expect(findFfmpeg(withEnvironment({ FFMPEG_BIN: join(up, path) })).path).toBe(path);
});

test("libnixl is found in the system's library folders and NVIDIA's", () => {
  for (const folder of ["usr/lib64", "usr/local/lib", "opt/nvidia/nvda_nixl/lib64", "usr/local/nixl/lib"]) {
    const { scope } = world();
    const path = library(join(scope.systemRoot, folder, NIXL));
    expect(findNixl(scope)).toEqual({ path, source: "system", version: null });
  }
});

test("the dynamic linker's cache is searched, and what it has for another machine is passed over", () => {
  const { root, scope } = world();
  const foreign = library(join(root, "foreign", NIXL), OTHER_MACHINE);
  const path = library(join(root, "known", NIXL));
  const gone = join(root, "gone", NIXL);
  const strings = ["glibc-ld.so.cache1.1", "\x01\x02binary/", gone, foreign, path, `${path}.5`].join("\0");
  file(join(scope.systemRoot, "etc/ld.so.cache"), `${strings}\0`);
  expect(findNixl(scope)).toEqual({ path, source: "system", version: null });
});

test("an installed wheel is found wherever the active Python keeps packages", () => {
  const places = {
    "a virtual environment": (root: string) => ({ VIRTUAL_ENV: root, packages: "lib/python3.12/site-packages" }),
    conda: (root: string) => ({ CONDA_PREFIX: root, packages: "lib/python3.11/site-packages" }),
    "the first Python on PATH": (root: string) => {
      program(join(root, "bin/python3"));
      return { PATH: `${root}/empty:${root}/bin`, packages: "lib/python3.13/site-packages" };
    },
    "Debian's Python": (root: string) => {
      program(join(root, "bin/python3"));
      return { PATH: `${root}/bin`, packages: "local/lib/python3.11/dist-packages" };
    },
    PYTHONPATH: (root: string) => ({ PYTHONPATH: `relative:${root}/modules`, packages: "modules" }),
    "the user's folder": (root: string) => ({ HOME: root, packages: ".local/lib/python3.10/site-packages" }),
  };
  for (const [place, describePlace] of Object.entries(places)) {
    const { root, withEnvironment } = world();
    const { packages, ...environment } = describePlace(root);
    const path = installNixlWheel(join(root, packages), "nixl_cu12", "1.5.1");
    const found = findNixl(withEnvironment(environment));
    expect({ place, ...found }).toEqual({ place, path, source: "python-wheel", version: "1.5.1" });
  }
});

test("the python3 of a virtual environment, which is a link, leads to that environment's packages", () => {
  const { root, withEnvironment } = world();
  const system = program(join(root, "usr/bin/python3"));
  mkdirSync(join(root, "venv/bin"), { recursive: true });
  symlinkSync(system, join(root, "venv/bin/python3"));
  const path = installNixlWheel(join(root, "venv/lib/python3.12/site-packages"), "nixl_cu12", "1.5.1");
  expect(findNixl(withEnvironment({ PATH: `${root}/venv/bin` })).path).toBe(path);
});

test("a version manager's shim leads to the packages of its newest Python, without being started", () => {
  const { root, withEnvironment } = world();
  const started = join(root, "started");
  file(join(root, "pyenv/shims/python3"), `#!/bin/sh\ntouch ${started}\n`);
  chmodSync(join(root, "pyenv/shims/python3"), 0o755);
  installNixlWheel(join(root, "pyenv/versions/3.9.18/lib/python3.9/site-packages"), "nixl_cu12", "1.5.0");
  const path = installNixlWheel(join(root, "pyenv/versions/3.12.1/lib/python3.12/site-packages"), "nixl_cu12", "1.5.1");
  expect(findNixl(withEnvironment({ PATH: `${root}/pyenv/shims` }))).toMatchObject({ path, version: "1.5.1" });
  expect(Bun.file(started).size).toBe(0);
});

test("of the wheels for two CUDA versions the tested one is taken", () => {
  const { root, withEnvironment } = world();
  installNixlWheel(join(root, "packages"), "nixl_cu13", "1.5.1");
  const environment = withEnvironment({ PYTHONPATH: join(root, "packages") });
  expect(findNixl(environment).path).toContain("nixl_cu13");
  installNixlWheel(join(root, "packages"), "nixl_cu12", "1.5.1");
  expect(findNixl(environment).path).toContain("nixl_cu12");
});

test("libnixl: a variable goes before the system, the system before a wheel, a wheel before what set-up fetched", () => {
  const { root, scope, withEnvironment } = world();
  const environment: Record<string, string> = {};
  const found: LocatedPart[] = [];
  const look = (): void => void found.push(findNixl(withEnvironment(environment)));
  library(join(scope.packageRoot, ".native", packageFolderName(NIXL_WHEEL), CU12_FOLDER, NIXL));
  look();
  installNixlWheel(join(root, "packages"), "nixl_cu12", "1.5.1");
  environment.PYTHONPATH = join(root, "packages");
  look();
  library(join(scope.systemRoot, "usr/lib", NIXL));
  look();
  environment.NIXL_CAPI_PATH = library(join(root, "own", NIXL));
  look();
  expect(found).toMatchObject(["project", "python-wheel", "system", "environment"].map((source) => ({ source })));
});

test("ffmpeg: a variable goes before ffmpeg-static, that before PATH, PATH before what set-up fetched", () => {
  const { root, scope, withEnvironment } = world();
  const environment: Record<string, string> = {};
  const find = (): LocatedPart => findFfmpeg(withEnvironment(environment));
  const binaries = join(scope.packageRoot, ".native", packageFolderName(FFMPEG_WHEEL), "imageio_ffmpeg/binaries");
  const fetched = program(join(binaries, "ffmpeg-linux-x86_64-v9.0.2"));
  expect(find()).toEqual({ path: fetched, source: "project", version: null });
  const onPath = program(join(root, "bin/ffmpeg"));
  environment.PATH = `${root}/nowhere::${root}/bin`;
  expect(find()).toEqual({ path: onPath, source: "path", version: null });
  const packaged = program(join(scope.packageRoot, "node_modules/ffmpeg-static/ffmpeg"));
  expect(find()).toEqual({ path: packaged, source: "npm", version: null });
  environment.FFMPEG_BIN = program(join(root, "own-ffmpeg"));
  expect(find()).toMatchObject({ source: "environment" });
});

test("ffmpeg-static is found in the project that the package is installed in", () => {
  const { root, scope } = world();
  const path = program(join(root, "project/node_modules/ffmpeg-static/ffmpeg"));
  const installed = { ...scope, packageRoot: join(root, "project/node_modules/nixl-media") };
  expect(findFfmpeg(installed)).toEqual({ path, source: "npm", version: null });
});

test("an ffmpeg-static whose download was blocked is passed over", () => {
  const { root, scope, withEnvironment } = world();
  file(join(scope.packageRoot, "node_modules/ffmpeg-static/package.json"), '{"name":"ffmpeg-static"}');
  const path = program(join(root, "bin/ffmpeg"));
  expect(findFfmpeg(withEnvironment({ PATH: join(root, "bin") }))).toMatchObject({ path, source: "path" });
});

test("a folder or a file that may not be run is no ffmpeg", () => {
  const { root, withEnvironment } = world();
  mkdirSync(join(root, "a/ffmpeg"), { recursive: true });
  file(join(root, "b/ffmpeg"), "text");
  const path = program(join(root, "c/ffmpeg"));
  expect(findFfmpeg(withEnvironment({ PATH: `${root}/a:${root}/b:${root}/c` })).path).toBe(path);
});

test("libturbojpeg is found with or without the ABI number in its name", () => {
  for (const name of ["libturbojpeg.so.0", "libturbojpeg.so"]) {
    const { scope } = world();
    const path = library(join(scope.systemRoot, "usr/lib64", name));
    expect(findTurboJpeg(scope)).toEqual({ path, source: "system", version: null });
  }
});

test("libturbojpeg: a variable goes before the system's 3.x, that before npm's package, that before what set-up fetched, that before an older one", () => {
  const { root, scope, withEnvironment } = world();
  const find = (more: Record<string, string> = {}): LocatedPart => findTurboJpeg(withEnvironment(more));
  const { name, file: fileInPackage } = TURBOJPEG_PACKAGE;
  const older = library(join(scope.systemRoot, "usr/lib64/libturbojpeg.so.0"));
  expect(find()).toEqual({ path: older, source: "system", version: null });
  const fetched = library(join(scope.packageRoot, ".native", packageFolderName(TURBOJPEG_PACKAGE), fileInPackage));
  expect(find()).toEqual({ path: fetched, source: "project", version: null });
  const packaged = library(join(root, "node_modules", name, fileInPackage));
  expect(find()).toEqual({ path: packaged, source: "npm", version: null });
  const system = turboJpeg3(older);
  expect(find()).toEqual({ path: system, source: "system", version: null });
  const own = library(join(root, "own/libturbojpeg.so.0"));
  expect(find({ TURBOJPEG_PATH: own })).toEqual({ path: own, source: "environment", version: null });
});

test("of npm's package of libturbojpeg only the library for this machine is taken", () => {
  const { root, scope } = world();
  const platform = (name: string): string =>
    join(root, "node_modules", TURBOJPEG_PACKAGE.name, "prebuilds", name, "libturbojpeg.so.0");
  library(platform(process.arch === "arm64" ? "jpeg-turbo-linux-x64" : "jpeg-turbo-linux-arm64"), OTHER_MACHINE);
  expect(findTurboJpeg(scope).path).toBeNull();
  library(join(root, "node_modules", TURBOJPEG_PACKAGE.name, TURBOJPEG_PACKAGE.file), OTHER_MACHINE);
  expect(findTurboJpeg(scope).path).toBeNull();
});

test("fetched parts are searched in the package's folder, then in the user's cache, or only where a variable says", () => {
  const { root, scope, withEnvironment } = world();
  const file = join(packageFolderName(NIXL_WHEEL), CU12_FOLDER, NIXL);
  const inCache = library(join(root, "cache/nixl-media", file));
  const cached = withEnvironment({ XDG_CACHE_HOME: join(root, "cache") });
  expect(findNixl(cached)).toEqual({ path: inCache, source: "project", version: NIXL_WHEEL.version });
  const inPackage = library(join(scope.packageRoot, ".native", file));
  expect(findNixl(cached).path).toBe(inPackage);
  expect(findNixl(withEnvironment({ NIXL_MEDIA_NATIVE_DIR: join(root, "not-there-yet") })).path).toBeNull();
});

test("a fetched part of another version than the pinned one is not taken", () => {
  const { scope } = world();
  library(join(scope.packageRoot, ".native", `${NIXL_WHEEL.name}-0.0.1`, CU12_FOLDER, NIXL));
  expect(findNixl(scope).path).toBeNull();
});

test("the UCX plugin is looked for beside the library, or where NIXL_PLUGIN_DIR says", () => {
  const { root } = world();
  const nixl = library(join(root, "lib", NIXL));
  expect(findUcxPlugin(nixl, {})).toBeNull();
  const beside = library(join(root, "lib/plugins/libplugin_UCX.so"));
  expect(findUcxPlugin(nixl, {})).toBe(beside);
  const own = library(join(root, "own/libplugin_UCX.so"));
  expect(findUcxPlugin(nixl, { NIXL_PLUGIN_DIR: dirname(own) })).toBe(own);
});
