/** Fetching npm packages with Bun: the pinned one from the user's registry, and a small one from a registry made here. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findTurboJpeg, type SearchScope } from "../../ffi/locate.ts";
import { type NativeNpmPackage, TURBOJPEG_PACKAGE } from "../../ffi/native_packages.ts";
import { provision } from "../../ffi/provision.ts";
import { openTurboJpeg } from "../../ffi/turbojpeg.ts";
import { refusal } from "../support/refusal.ts";

/** Fetching takes a tenth of a second, on a busy machine or a slow network much longer. */
const FETCH_TIMEOUT_MS = 60_000;
const FOLDER = "part-1.0.0";
const FILES = ["LICENSE", "lib/part.so", "package.json"];

const root = mkdtempSync(join(tmpdir(), "nixl-media-npm-"));
const home = join(root, "home");
const scriptRan = join(root, "script-ran");
let folders = 0;

interface Request {
  readonly path: string;
  readonly authorization: string | null;
}
let requests: Request[] = [];
/** What the registry does with a request for the tarball. */
let answer: () => Response | Promise<Response>;
let registry: ReturnType<typeof startRegistry>;
let tarball: Uint8Array<ArrayBuffer>;
let native: NativeNpmPackage;

function startRegistry() {
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request) => {
      requests.push({ path: new URL(request.url).pathname, authorization: request.headers.get("authorization") });
      return answer();
    },
  });
}

beforeAll(async () => {
  mkdirSync(home);
  registry = startRegistry();
  const manifest = {
    name: "@native/part",
    version: "1.0.0",
    dependencies: { "not-to-be-fetched": "1.0" },
    scripts: { install: `touch ${scriptRan}`, postinstall: `touch ${scriptRan}` },
  };
  const archive = new Bun.Archive(
    {
      "package/package.json": JSON.stringify(manifest),
      "package/LICENSE": "terms",
      "package/lib/part.so": "content",
      "package/lib/for_another_system.so": "content",
    },
    { compress: "gzip" },
  );
  tarball = await archive.bytes();
  native = {
    registry: "npm",
    name: "@native/part",
    version: "1.0.0",
    megabytes: 1,
    integrity: `sha512-${new Bun.CryptoHasher("sha512").update(tarball).digest("base64")}`,
    file: "lib/part.so",
    alsoKept: ["package.json", "LICENSE"],
    override: "TURBOJPEG_PATH",
  };
});
beforeEach(() => {
  requests = [];
  answer = () => new Response(tarball);
});
afterAll(async () => {
  await registry.stop(true);
  rmSync(root, { recursive: true, force: true });
});

/** A native folder of its own on a machine without programs, and the registry made here. */
function scopeOfItsOwn(more: Record<string, string> = {}): { scope: SearchScope; folder: string } {
  const folder = join(root, `native-${folders++}`);
  const environment = {
    HOME: home,
    PATH: join(root, "nothing"),
    NO_PROXY: "127.0.0.1",
    NPM_CONFIG_REGISTRY: `${registry.url}npm/`,
    NIXL_MEDIA_NATIVE_DIR: folder,
    ...more,
  };
  return { scope: { environment, packageRoot: root, systemRoot: root }, folder };
}

function filesIn(folder: string): string[] {
  return [...new Bun.Glob("**").scanSync({ cwd: folder, dot: true })].sort();
}

const quiet = (): void => {};

test(
  "the pinned libturbojpeg is fetched without npm, is found, can be opened, and is not fetched again",
  async () => {
    const folder = join(root, "turbojpeg");
    const environment = { ...process.env, PATH: "", LD_LIBRARY_PATH: "", TURBOJPEG_PATH: "" };
    const scope = {
      environment: { ...environment, NIXL_MEDIA_NATIVE_DIR: folder },
      packageRoot: root,
      systemRoot: root,
    };
    expect(findTurboJpeg(scope).path).toBeNull();
    const path = await provision(TURBOJPEG_PACKAGE, { scope, progress: quiet });
    expect(findTurboJpeg(scope)).toEqual({ path, source: "project", version: null });
    expect(readdirSync(folder)).toEqual(["jpeg-turbo-3.0.1"]);

    const photo = readFileSync(join(import.meta.dir, "../media/jpg420.jpg"));
    const library = openTurboJpeg(path);
    const header = library.readHeader(photo);
    if (header === null) throw new Error("the library cannot read the header");
    expect(
      library.decodeInto(photo, header, new Uint8Array(header.width * header.height * header.channels)),
    ).toBeNull();

    const lines: string[] = [];
    expect(await provision(TURBOJPEG_PACKAGE, { scope, progress: (line) => lines.push(line) })).toBe(path);
    expect(lines).toEqual([]);
  },
  FETCH_TIMEOUT_MS,
);

test(
  "of a package only the wanted files are kept; no script is run, no dependency asked for",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const lines: string[] = [];
    const path = await provision(native, { scope, progress: (line) => lines.push(line) });
    expect(path).toBe(join(folder, FOLDER, "lib/part.so"));
    expect(readFileSync(path, "utf8")).toBe("content");
    expect(filesIn(folder)).toEqual(FILES.map((file) => `${FOLDER}/${file}`));
    expect(existsSync(scriptRan)).toBe(false);
    expect(requests.map((request) => request.path)).toEqual(["/npm/@native/part/-/part-1.0.0.tgz"]);
    expect(lines[0]).toContain("@native/part 1.0.0 (1 MB)");
  },
  FETCH_TIMEOUT_MS,
);

test(
  "the registry and the token of the user's .npmrc are gone by, a registry for the package's scope too",
  async () => {
    const address = `${registry.url}private/`;
    const token = `${address.slice("http:".length)}:_authToken=secret`;
    for (const [index, setting] of ["registry", "@native:registry"].entries()) {
      requests = [];
      const ownHome = join(root, `home-${index}`);
      mkdirSync(ownHome);
      writeFileSync(join(ownHome, ".npmrc"), `${setting}=${address}\n${token}\n`);
      const { scope } = scopeOfItsOwn({ HOME: ownHome, NPM_CONFIG_REGISTRY: "" });
      await provision(native, { scope, progress: quiet });
      expect(requests).toEqual([{ path: "/private/@native/part/-/part-1.0.0.tgz", authorization: "Bearer secret" }]);
    }
  },
  FETCH_TIMEOUT_MS,
);

test(
  "a package whose bytes are not the pinned ones is refused, whatever Bun's settings, and nothing of it is left",
  async () => {
    const other = new Bun.Archive({ "package/lib/part.so": "other content" }, { compress: "gzip" });
    const bytes = await other.bytes();
    answer = () => new Response(bytes);
    for (const more of [{}, { BUN_CONFIG_NO_VERIFY: "1" }, { BUN_CONFIG_SKIP_LOAD_LOCKFILE: "1" }]) {
      const { scope, folder } = scopeOfItsOwn(more);
      const error = await refusal(provision(native, { scope, progress: quiet }));
      expect(error.code).toBe("setup_failed");
      expect(error.message).toContain("TURBOJPEG_PATH");
      expect(String(error.cause)).toContain("IntegrityCheckFailed");
      expect(readdirSync(folder)).toEqual([]);
    }
  },
  FETCH_TIMEOUT_MS,
);

test(
  "nothing of a large package is unpacked before all of it is there and was checked",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const noise = crypto.getRandomValues(Buffer.alloc(65_536));
    const files = Array.from({ length: 64 }, (_, index) => [
      `package/noise-${index}`,
      noise.map((byte) => byte ^ index),
    ]);
    const archive = new Bun.Archive(Object.fromEntries([["package/lib/part.so", "other"], ...files]), {
      compress: "gzip",
    });
    const bytes = await archive.bytes();
    let unpacked: string[] | undefined;
    async function* slowly() {
      yield bytes.subarray(0, -1);
      await Bun.sleep(100);
      unpacked = filesIn(folder).filter((file) => file.includes("noise"));
      yield bytes.subarray(-1);
    }
    answer = () => new Response(slowly(), { headers: { "content-length": String(bytes.length) } });
    const error = await refusal(provision(native, { scope, progress: quiet }));
    expect(String(error.cause)).toContain("IntegrityCheckFailed");
    expect(unpacked).toEqual([]);
    expect(readdirSync(folder)).toEqual([]);
  },
  FETCH_TIMEOUT_MS,
);

test(
  "a copy in Bun's cache is not taken: nobody would check it",
  async () => {
    const cache = join(root, "cache");
    const { scope } = scopeOfItsOwn({ BUN_INSTALL_CACHE_DIR: cache });
    await provision(native, { scope, progress: quiet });
    expect(existsSync(cache)).toBe(false);
    const second = scopeOfItsOwn({ BUN_INSTALL_CACHE_DIR: cache });
    await provision(native, { scope: second.scope, progress: quiet });
    expect(requests).toHaveLength(2);
  },
  FETCH_TIMEOUT_MS,
);

test(
  "a package without the expected file is refused",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const error = await refusal(provision({ ...native, file: "lib/none.so" }, { scope, progress: quiet }));
    expect(error.code).toBe("setup_failed");
    expect(error.message).toContain("lib/none.so");
    expect(readdirSync(folder)).toEqual([]);
  },
  FETCH_TIMEOUT_MS,
);

test(
  "a fetch that is interrupted while the registry is silent says so and leaves nothing",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const abort = new AbortController();
    answer = () => {
      abort.abort();
      return new Promise(() => {});
    };
    const error = await refusal(provision(native, { scope, progress: quiet, signal: abort.signal }));
    expect(error.code).toBe("aborted");
    expect(readdirSync(folder)).toEqual([]);
  },
  FETCH_TIMEOUT_MS,
);

test(
  "a registry that is silent for longer than the time limit is a failure that leaves nothing",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    answer = () => new Promise(() => {});
    const error = await refusal(provision(native, { scope, progress: quiet, timeLimitMs: 200 }));
    expect(error.code).toBe("setup_failed");
    expect(error.message).toContain("took too long");
    expect(readdirSync(folder)).toEqual([]);
  },
  FETCH_TIMEOUT_MS,
);

test(
  "of several at the same time all get the same file, and no other is left",
  async () => {
    const { scope, folder } = scopeOfItsOwn();
    const paths = await Promise.all([1, 2, 3].map(() => provision(native, { scope, progress: quiet })));
    expect(new Set(paths)).toEqual(new Set([join(folder, FOLDER, "lib/part.so")]));
    expect(filesIn(folder)).toEqual(FILES.map((file) => `${FOLDER}/${file}`));
  },
  FETCH_TIMEOUT_MS,
);
