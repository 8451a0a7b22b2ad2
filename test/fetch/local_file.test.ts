import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isEncodedFile } from "../../src/encoded.ts";
import { MediaFetcher } from "../../src/fetch/index.ts";
import { readLocalFile } from "../../src/fetch/local_file.ts";
import { eventually, openDescriptors } from "../support/processes.ts";

const MEBIBYTE = 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), "local-file-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A file that begins with what its name says. */
function fileOf(name: string, byteLength: number): string {
  const path = join(folder, name);
  writeFileSync(path, name);
  truncateSync(path, byteLength);
  return path;
}

describe("a local file", () => {
  test("of up to 16 MiB comes as bytes", async () => {
    const encoded = await readLocalFile(fileOf("limit", 16 * MEBIBYTE), 64 * MEBIBYTE);
    expect(encoded).toBeInstanceOf(Uint8Array);
    expect(encoded.byteLength).toBe(16 * MEBIBYTE);
  });

  test("that is larger comes open, with its beginning, and is closed by whoever got it", async () => {
    const path = fileOf("larger", 16 * MEBIBYTE + 1);
    const before = openDescriptors();
    const encoded = await readLocalFile(path, 64 * MEBIBYTE);
    if (!isEncodedFile(encoded)) throw new Error("it came as bytes");
    expect(encoded.byteLength).toBe(16 * MEBIBYTE + 1);
    expect(encoded.start.byteLength).toBe(64 * 1024);
    expect(Buffer.from(encoded.start.subarray(0, 6)).toString()).toBe("larger");
    expect(openDescriptors()).toBe(before + 1);
    encoded.dispose();
    encoded.dispose();
    await eventually("it is closed", () => openDescriptors() === before);
  });

  test("over the limit, missing or no file is refused, and nothing stays open", async () => {
    const before = openDescriptors();
    const cases = [
      [fileOf("too-large", 17 * MEBIBYTE), "media_too_large"],
      [join(folder, "missing"), "file_unreadable"],
      [folder, "file_unreadable"],
      ["/dev/null", "file_unreadable"],
    ] as const;
    for (const [path, code] of cases) {
      await expect(readLocalFile(path, 16 * MEBIBYTE)).rejects.toMatchObject({ code });
    }
    await eventually("all are closed", () => openDescriptors() === before);
  });

  test.each([
    ["missing", "missing"],
    ["too large", fileOf("given-up-too-large", 65 * MEBIBYTE)],
    ["large", fileOf("given-up", 32 * MEBIBYTE)],
  ])("that is %s is nobody's any more once the caller has given up: no error, no descriptor", async (_, path) => {
    const before = openDescriptors();
    using fetcher = new MediaFetcher({ max_local_bytes: 64 * MEBIBYTE });
    for (let i = 0; i < 20; i++) {
      const controller = new AbortController();
      const fetching = fetcher.fetch({ path }, { signal: controller.signal });
      controller.abort();
      await expect(fetching).rejects.toMatchObject({ code: "aborted" });
    }
    await eventually("all are closed", () => openDescriptors() === before);
  });
});
