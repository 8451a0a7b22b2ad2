/** Where Python interpreters are, and where they keep installed packages. Only looks at files: starting a Python takes longer than all the rest. */
import { readdirSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Environment } from "./environment.ts";
import { foldersOf, isExecutable } from "./files.ts";

const INTERPRETER_NAMES = ["python3", "python"];
/** Where a Python below a prefix keeps `python3.N/site-packages` (everywhere) or `dist-packages` (Debian). */
const LIBRARY_FOLDERS = ["lib", "lib64", "local/lib"];
const PACKAGE_FOLDERS = ["site-packages", "dist-packages"];
/** Where version managers keep their Pythons, beside their folder of shims: pyenv, asdf. */
const SHIM_FOLDER = "shims";
const VERSION_FOLDERS = ["versions", "installs/python"];

/** Every Python on PATH, the one that a shell would start first. */
export function pythonInterpreters(environment: Environment): string[] {
  const folders = foldersOf(environment.PATH);
  const paths = INTERPRETER_NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [...new Set(paths)].filter(isExecutable);
}

/**
 * The folders in which Python packages stand: what PYTHONPATH names, then those of a virtual environment, of conda, of
 * the first Python on PATH, and of the user. Where that Python is a version manager's shim, those of all its Pythons, the
 * newest first: which one is active only the shim knows, and a library does not care.
 */
export function pythonPackageFolders(environment: Environment): string[] {
  const prefixes = foldersOf(`${environment.VIRTUAL_ENV ?? ""}:${environment.CONDA_PREFIX ?? ""}`);
  const [interpreter] = pythonInterpreters(environment);
  // Not resolved: the python3 of a virtual environment is a link to the system's.
  if (interpreter !== undefined) prefixes.push(...prefixesOf(dirname(interpreter)));
  prefixes.push(join(environment.HOME || homedir(), ".local"));
  const found = prefixes.flatMap((prefix) =>
    LIBRARY_FOLDERS.flatMap((folder) => packageFoldersIn(join(prefix, folder))),
  );
  return [...new Set([...foldersOf(environment.PYTHONPATH), ...found])];
}

function prefixesOf(programFolder: string): string[] {
  const root = dirname(programFolder);
  if (basename(programFolder) !== SHIM_FOLDER) return [root];
  const newestFirst = (a: string, b: string): number => b.localeCompare(a, "en", { numeric: true });
  return VERSION_FOLDERS.flatMap((folder) => {
    const versions = join(root, folder);
    return namesIn(versions)
      .sort(newestFirst)
      .map((version) => join(versions, version));
  });
}

function packageFoldersIn(libraryFolder: string): string[] {
  const versions = namesIn(libraryFolder).filter((name) => name.startsWith("python3"));
  return versions.flatMap((version) => PACKAGE_FOLDERS.map((folder) => join(libraryFolder, version, folder)));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // there is no such folder
  }
}
