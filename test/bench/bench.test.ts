/** That the benchmarks run and say what they promise; what they measure is no test's business. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { percentile } from "../../bench/support/statistics.ts";
import { PROJECT } from "../support/cli.ts";
import { mediaPath } from "../support/media.ts";

const figure = expect.any(Number);
const stages = { decode_ms: figure, hash_ms: figure, register_ms: figure, total_ms: figure };

async function bench(name: string, args: string[]): Promise<{ code: number; lines: object[]; stderr: string }> {
  const run = Bun.spawn([process.execPath, join(PROJECT, "bench", `${name}.ts`), ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr, code] = await Promise.all([run.stdout.text(), run.stderr.text(), run.exited]);
  return {
    code,
    stderr,
    lines: stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
  };
}

/** A program that answers as the reference does, for how its lines are read. */
function reference(lines: object[]): { path: string; dispose: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "reference-"));
  const path = join(folder, "reference");
  writeFileSync(path, `#!/bin/sh\ncat <<'END'\n${lines.map((line) => JSON.stringify(line)).join("\n")}\nEND\n`, {
    mode: 0o755,
  });
  return { path, dispose: () => rmSync(folder, { recursive: true }) };
}

describe("pipeline", () => {
  test("prints a line of medians for each file", async () => {
    const files = [mediaPath("odd.jpg"), mediaPath("h264.mp4")];
    const { code, lines } = await bench("pipeline", [
      ...files,
      "--iters",
      "2",
      "--rounds",
      "1",
      "--video",
      '{"num_frames":4}',
    ]);
    expect(code).toBe(0);
    expect(lines).toEqual(files.map((file) => ({ file, ours: stages })));
  });

  test("beside a reference, and by how much ours differs", async () => {
    const stage = (name: string, ms: number) => ({ stage: name, iters: 3, min_ms: 1, median_ms: ms, max_ms: 9 });
    const names = ["decode", "hash", "register+descriptor", "json", "drop"];
    const peer = reference([...names.map((name) => stage(name, 2)), stage("total", 1000), { stage: "info", live: 0 }]);
    const { lines } = await bench("pipeline", [mediaPath("odd.jpg"), "--iters", "2", "--peer", peer.path]);
    peer.dispose();
    expect(lines).toMatchObject([
      { reference: { decode_ms: 2, hash_ms: 2, register_ms: 4, total_ms: 1000 }, ratio: figure },
    ]);
  });

  test("says what the reference has against a medium", async () => {
    const peer = reference([{ error: "it does not like it" }]);
    const { code, stderr } = await bench("pipeline", [mediaPath("odd.jpg"), "--iters", "1", "--peer", peer.path]);
    peer.dispose();
    expect(code).toBe(1);
    expect(stderr).toContain("it does not like it");
  });
});

test("throughput prints media a second and processor time for each", async () => {
  const { code, lines } = await bench("throughput", [mediaPath("odd.jpg"), "--seconds", "1", "--rounds", "1"]);
  expect(code).toBe(0);
  expect(lines).toMatchObject([{ ours_items_per_s: figure, ours_cpu_ms_per_item: figure }]);
});

test("live prints what a descriptor costs, and the metadata text's length, which does not grow", async () => {
  const { code, lines } = await bench("live", ["--iters", "8"]);
  expect(code).toBe(0);
  expect(lines).toMatchObject([0, 100, 1000].map((live) => ({ live, ours_ms: figure })));
  expect(new Set(lines.map((line) => (line as { metadata_characters: number }).metadata_characters)).size).toBe(1);
});

test("eventloop prints how late timers are", async () => {
  const { code, lines } = await bench("eventloop", [mediaPath("odd.jpg"), "--seconds", "1"]);
  const late = { p50_ms: figure, p99_ms: figure, max_ms: figure };
  expect(code).toBe(0);
  expect(lines).toMatchObject([{ items_per_s: figure, idle: late, busy: late }]);
});

test("intake prints how late timers are while requests are taken in", async () => {
  const args = [mediaPath("odd.jpg"), "--requests", "2", "--pictures", "3", "--megabytes", "1"];
  const { code, lines } = await bench("intake", args);
  const late = { p50_ms: figure, p99_ms: figure, max_ms: figure };
  expect(code).toBe(0);
  expect(lines).toEqual([
    {
      requests: 2,
      pictures: 3,
      text_bytes: figure,
      request_ms: figure,
      cpu_ms: figure,
      parse_ms: figure,
      idle: late,
      busy: late,
    },
  ]);
});

test("idle prints shares of a core", async () => {
  const { code, lines } = await bench("idle", ["--seconds", "1"]);
  expect(code).toBe(0);
  expect(lines).toMatchObject([{ parent_percent: figure, children_percent: figure, resident_bytes: figure }]);
});

test("memory prints peaks, levels and their spread, on media of its own", async () => {
  const { code, lines } = await bench("memory", ["--media", "40", "--children", "1"]);
  expect(code).toBe(0);
  expect(lines).toContainEqual(expect.objectContaining({ file: "12mp.jpg", peak_bytes: figure }));
  expect(lines).toContainEqual(expect.objectContaining({ media: 40, total_bytes: figure }));
  expect(lines.at(-1)).toMatchObject({ level_from: 4, level_bytes: figure, deviation: figure });
});

describe("parity", () => {
  /** Runs it on a folder with these files (`NAME=AS` under another name); gives its code and its lines that are JSON. */
  async function parity(names: string[], change: (vectors: Record<string, Vector>) => void = () => {}) {
    const folder = mkdtempSync(join(tmpdir(), "parity-"));
    try {
      const vectors: Record<string, Vector> = await Bun.file(join(PROJECT, "test/vectors/media.json")).json();
      change(vectors);
      mkdirSync(join(folder, "media"));
      for (const [name = "", as = name] of names.map((text) => text.split("="))) {
        symlinkSync(mediaPath(name), join(folder, "media", as));
      }
      await Bun.write(join(folder, "vectors.json"), JSON.stringify(vectors));
      const args = [
        join(folder, "media"),
        "--vectors",
        join(folder, "vectors.json"),
        "--json",
        join(folder, "rows.json"),
      ];
      const run = Bun.spawn([process.execPath, join(PROJECT, "bench/parity.ts"), ...args], {
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [text, stderr, code] = await Promise.all([run.stdout.text(), run.stderr.text(), run.exited]);
      const lines = text.split("\n").filter((line) => line.startsWith("{"));
      const rows = Bun.file(join(folder, "rows.json"));
      return {
        code,
        stderr,
        text,
        lines: lines.map((line) => JSON.parse(line)),
        rows: (await rows.exists()) ? await rows.json() : [],
      };
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  interface Vector {
    kind: string;
    reference: { content_hash?: string; error?: string };
  }

  test("same, known to differ, refused, and without a reference value", async () => {
    const names = ["rgb.png", "odd.jpg", "gray.bmp", "bad_crc.png", "tone.ogg", "vp9_1fps_10.mp4"];
    const { code, lines, text, rows } = await parity(names);
    expect(code).toBe(0);
    expect(text).toContain("explained: shape");
    expect(lines).toMatchObject([
      { cases: 10, same: 9, explained: 0, without_reference: 1, unexplained: 0, stale: 0, slowest_bad_ms: figure },
    ]);
    expect(rows).toContainEqual({
      file: "bad_crc.png",
      options: "",
      ours: "media_corrupt",
      metadata: "",
      reference: "same",
      pillow: "same",
      ms: figure,
      peak_mb: figure,
    });
  });

  test("a difference that is not in the list fails", async () => {
    const { code, lines } = await parity(["rgb.png"], (vectors) => {
      const vector = vectors["rgb.png"];
      if (vector) vector.reference.content_hash = "0000000000000000";
    });
    expect(code).toBe(1);
    expect(lines).toContainEqual({ unexplained: { file: "rgb.png", against: "reference", difference: "levels" } });
  });

  test("one in the list that is gone fails", async () => {
    const { code, lines } = await parity(["rgba.avif", "rgb.avif"], (vectors) => {
      for (const name of ["rgb.avif", "rgba.avif"]) delete vectors[name];
    });
    expect(code).toBe(1);
    expect(lines).toContainEqual({ stale: { files: ["rgb.avif", "rgba.avif"], against: "reference" } });
  });

  test("a file that is called damaged and decodes fails, whatever the reference does", async () => {
    const { code, lines } = await parity(["rgb.png=bad_rgb.png"]);
    expect(code).toBe(1);
    expect(lines).toContainEqual({
      unexplained: { file: "bad_rgb.png", against: "reference", difference: "ours decodes" },
    });
  });

  test("vectors of another form end it", async () => {
    const { code, stderr } = await parity(["rgb.png"], (vectors) => {
      vectors["rgb.png"] = { kind: "sound", reference: {} };
    });
    expect(code).not.toBe(0);
    expect(stderr).toContain("kind");
  });
});

test.each([
  ["parity", []],
  ["parity", ["one", "two"]],
  ["pipeline", []],
  ["pipeline", ["a.jpg", "--iters", "0"]],
  ["throughput", ["a.jpg", "b.jpg"]],
  ["throughput", ["a.jpg", "--stage", "other"]],
  ["live", ["a.jpg"]],
  ["intake", ["--megabytes", "0"]],
  ["idle", ["--second", "1"]],
  ["memory", ["--media"]],
])("a mistake in the arguments of %s (%p) is told with the usage", async (name, args) => {
  const { code, stderr } = await bench(name, args);
  expect(code).toBe(2);
  expect(stderr).toStartWith(`usage: bench/${name}.ts`);
});

test("percentiles are of the sorted values, the nearer one between two", () => {
  expect(percentile([3, 1, 2], 0.5)).toBe(2);
  expect(percentile([4, 1, 3, 2, 5], 1)).toBe(5);
  expect(percentile([4, 1, 3, 2, 5], 0)).toBe(1);
  expect(percentile([1, 2], 0.99)).toBe(2);
});
