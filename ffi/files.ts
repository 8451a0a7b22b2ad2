/** What a path is, without opening it as a library or a program. */
import { accessSync, closeSync, constants, openSync, readSync, statSync } from "node:fs";

/** ELF header fields, as in elf(5): 64-bit class, shared object, and e_machine of the two machines supported. */
const ELF_MAGIC = 0x464c457f;
const ELF_CLASS_64 = 2;
const ELF_TYPE_SHARED_OBJECT = 3;
const ELF_MACHINES: Partial<Record<NodeJS.Architecture, number>> = { x64: 62, arm64: 183 };

export function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  } catch {
    return false; // a part of the path is no folder, or may not be entered
  }
}

export function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    return false; // a part of the path is no folder, or may not be entered
  }
}

/** Whether this user may run the file. */
export function isExecutable(path: string): boolean {
  if (!isFile(path)) return false;
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether the file is a shared library for this machine, judged by its header: caches and folders may mix architectures. */
export function isSharedLibrary(path: string): boolean {
  if (!isFile(path)) return false;
  const header = Buffer.alloc(20);
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, "r");
    if (readSync(descriptor, header) < header.length) return false;
  } catch {
    return false;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
  return (
    header.readUInt32LE(0) === ELF_MAGIC &&
    header[4] === ELF_CLASS_64 &&
    header.readUInt16LE(16) === ELF_TYPE_SHARED_OBJECT &&
    header.readUInt16LE(18) === ELF_MACHINES[process.arch]
  );
}

/** The absolute folders of a list like PATH; empty and relative entries mean the current folder and are left out. */
export function foldersOf(list: string | undefined): string[] {
  return (list ?? "").split(":").filter((folder) => folder.startsWith("/"));
}
