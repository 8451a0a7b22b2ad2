/** What npm would publish. */
import { expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };

const ROOT = join(import.meta.dir, "../..");

/** Sources and type declarations that `exports` names. */
const exported = Object.values(packageJson.exports).flatMap((entry) =>
  typeof entry === "string" ? [entry] : Object.values(entry),
);

async function packedFiles(): Promise<string[]> {
  const npm = Bun.spawn(["npm", "pack", "--dry-run", "--json", "--silent"], {
    cwd: ROOT,
    stdin: "ignore",
    stderr: "inherit",
  });
  const [{ files }] = JSON.parse(await npm.stdout.text());
  return files.map((file: { path: string }) => file.path);
}

test("the package has all that its command and its exports need, and nothing of the workshop", async () => {
  const files = await packedFiles();
  const needed = [
    ...Object.values(packageJson.bin),
    ...exported,
    "src/cli/main.ts",
    "src/cli/setup.ts",
    "src/cli/doctor.ts",
    "ffi/shim.c",
    "scripts/find_bun.sh",
    "scripts/build_shim.sh",
    "bunfig.toml",
    "tsconfig.json",
    "LICENSE",
  ].map((path) => path.replace(/^\.\//, ""));
  expect(files).toEqual(expect.arrayContaining(needed));
  expect(files.filter((path) => /^(test|bench|\.ci|\.native|node_modules)\//.test(path))).toEqual([]);
}, 30_000);

test("the exports and the command are there, and the command may be run", () => {
  for (const path of [...exported, ...Object.values(packageJson.bin)]) {
    expect(existsSync(join(ROOT, path))).toBe(true);
  }
  for (const path of [...Object.values(packageJson.bin), "scripts/run.sh", "scripts/build_shim.sh", ".ci/run"]) {
    expect(statSync(join(ROOT, path)).mode & 0o111).toBe(0o111);
  }
});
