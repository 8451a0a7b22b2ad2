import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { closeSync, constants, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MediaDescriptor } from "../../src/index.ts";
import { linesOf, PROJECT, runCli, startCli } from "../support/cli.ts";
import { mediaBytes, mediaPath } from "../support/media.ts";
import { descendantsOf, eventually, isAlive } from "../support/processes.ts";
import references from "../vectors/media.json" with { type: "json" };

const MAIN = ["src/cli/main.ts", "describe"];
const folder = mkdtempSync(join(tmpdir(), "describe-"));
const started: { kill: (signal: "SIGKILL") => void }[] = [];

afterEach(() => {
  for (const process of started.splice(0)) process.kill("SIGKILL");
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("describe", () => {
  test("prints a line per medium in the order of the files, and nothing else on stdout or stderr", async () => {
    const files = ["h264.mp4", "odd.jpg", "rgba.png"];
    const run = await runCli([
      "describe",
      ...files.map(mediaPath),
      "--no-hold",
      "--hash-video",
      "--video",
      '{"num_frames":4}',
    ]);
    const descriptors = run.stdout.trim().split("\n").map(MediaDescriptor.parse);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(descriptors.map((descriptor) => descriptor.contentHash)).toEqual([
      references["h264.mp4"].reference.num_frames_4.content_hash,
      references["odd.jpg"].reference.content_hash,
      references["rgba.png"].reference.content_hash,
    ]);
  });

  test("prints the wire form to the letter", async () => {
    const { stdout } = await runCli([
      "describe",
      mediaPath("h264.mp4"),
      "--no-hold",
      "--hash-video",
      "--video",
      '{"num_frames":1}',
    ]);
    const line = stdout.trim();
    expect(MediaDescriptor.parse(line).toWire()).toBe(line);
    expect(line).toContain('"metadata":{"Video":{"source_fps":30.0,');
  });

  test("holds the memory until stdin closes, with stdout closed after the last line", async () => {
    const process = startCli(["describe", mediaPath("odd.jpg")]);
    started.push(process);
    const lines = await Array.fromAsync(linesOf(process.stdout)); // ends only when stdout is closed
    expect(lines).toHaveLength(1);
    expect(process.exitCode).toBeNull();
    const read = await runCli(["read"], { stdin: lines.join("\n") });
    expect(JSON.parse(read.stdout)).toMatchObject({ shape: [333, 501, 3], dtype: "UINT8", verified: true });
    await process.stdin.end();
    expect(await process.exited).toBe(0);
  });

  test("goes on after bad files: a line with the code for each on stderr, exit code 1", async () => {
    const run = await runCli([
      "describe",
      mediaPath("missing.jpg"),
      mediaPath("rgb.png"),
      mediaPath("bad_text.jpg"),
      "--no-hold",
    ]);
    expect(run.code).toBe(1);
    expect(run.stdout.trim().split("\n")).toHaveLength(1);
    const complaints = run.stderr.trim().split("\n");
    expect(complaints).toHaveLength(2);
    expect(complaints[0]).toContain("[file_unreadable]");
    expect(complaints[1]).toContain("[media_unsupported]");
  });

  test("does not hold when there is nothing to hold", async () => {
    const process = startCli(["describe", mediaPath("missing.jpg")]);
    started.push(process);
    expect(await process.exited).toBe(1); // though stdin is open
  });

  test("survives that nobody reads its output", async () => {
    const process = startCli(["describe", ...Array.from({ length: 3 }, () => mediaPath("rgb.png")), "--no-hold"]);
    started.push(process);
    await process.stdout.cancel();
    await process.exited;
    expect(process.signalCode).toBeNull();
    expect(await process.stderr.text()).toBe("");
  });
});

describe("a signal", () => {
  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)(
    "%s before all media are described ends with exit code %d and one line that says so",
    async (signal, code) => {
      const many = Array.from({ length: 300 }, () => mediaPath("h264.mp4"));
      const process = startCli(["describe", mediaPath("missing.jpg"), mediaPath("rgb.png"), ...many]);
      started.push(process);
      const lines = linesOf(process.stdout);
      expect((await lines.next()).value).toContain("nixl_descriptor");
      process.kill(signal);
      const rest = await Array.fromAsync(lines);
      expect(await process.exited).toBe(code);
      expect(rest.length).toBeLessThan(many.length);
      for (const line of rest) expect(MediaDescriptor.parse(line).contentHash).toBeNull(); // whole lines only
      const complaints = (await process.stderr.text()).trim().split("\n");
      expect(complaints).toHaveLength(2); // of the missing file, and of the interruption
      expect(complaints[1]).toContain(signal);
    },
  );

  test("ends the command also while nobody takes what it prints", async () => {
    const { path, close } = fullPipe();
    try {
      const stdout = openSync(path, "r+");
      const process = Bun.spawn(
        [globalThis.process.execPath, ...MAIN, mediaPath("missing.jpg"), mediaPath("rgb.png")],
        {
          cwd: PROJECT,
          stdio: ["pipe", stdout, "pipe"],
        },
      );
      closeSync(stdout);
      started.push(process);
      const complaints = linesOf(process.stderr);
      expect((await complaints.next()).value).toContain("[file_unreadable]");
      await Bun.sleep(300); // by now it waits for room in the pipe
      process.kill("SIGTERM");
      expect((await complaints.next()).value).toContain("SIGTERM");
      expect(await process.exited).toBe(143);
    } finally {
      close();
    }
  });

  test.each([
    ["SIGINT", 0, [mediaPath("rgb.png")]],
    ["SIGTERM", 1, [mediaPath("missing.jpg"), mediaPath("rgb.png")]],
  ] as const)("%s during the hold is its normal end: exit code %d", async (signal, code, files) => {
    const process = startCli(["describe", ...files]);
    started.push(process);
    expect(await Array.fromAsync(linesOf(process.stdout))).toHaveLength(1); // ends when stdout is closed
    process.kill(signal);
    expect(await process.exited).toBe(code);
    expect((await process.stderr.text()).trim().split("\n").filter(Boolean)).toHaveLength(code);
  });
});

describe("the streams of the command", () => {
  test("stdout that takes nothing is one line on stderr with a code, exit code 2", async () => {
    const full = openSync("/dev/full", "w");
    const process = Bun.spawn([globalThis.process.execPath, ...MAIN, mediaPath("rgb.png"), "--no-hold"], {
      cwd: PROJECT,
      stdio: ["ignore", full, "pipe"],
    });
    closeSync(full);
    started.push(process);
    expect(await process.exited).toBe(2);
    const complaint = await process.stderr.text();
    expect(complaint.trim().split("\n")).toHaveLength(1);
    expect(complaint).toContain("[output_unwritable]");
  });

  test("stderr that takes nothing changes no exit code", async () => {
    const full = openSync("/dev/full", "w");
    const process = Bun.spawn([globalThis.process.execPath, ...MAIN, mediaPath("missing.jpg")], {
      cwd: PROJECT,
      stdio: ["ignore", "pipe", full],
    });
    closeSync(full);
    started.push(process);
    expect(await process.exited).toBe(1);
  });

  test("a file name cannot move the cursor, change colours, or begin a line of its own", async () => {
    const name = "x\u001b[2J\r\nnixl-media: all is well\u009b1m\u202e.png";
    const run = await runCli(["describe", name]);
    expect(run).toMatchObject({ code: 1, stdout: "" });
    expect(run.stderr).toMatch(/^[ -~]*\n$/);
    expect(run.stderr).toContain("x\\u001b[2J\\u000d\\nnixl-media");
  });

  test("a terminal as stdin holds the memory until its end is typed", async () => {
    let shown = "";
    const terminal = new Bun.Terminal({
      data: (_, bytes) => {
        shown += Buffer.from(bytes).toString();
      },
    });
    try {
      const process = Bun.spawn([globalThis.process.execPath, ...MAIN, mediaPath("rgb.png")], {
        cwd: PROJECT,
        terminal,
      });
      started.push(process);
      await eventually("the descriptor is shown", () => shown.includes("content_hash"), 10_000);
      expect(process.exitCode).toBeNull();
      terminal.write("typed\n");
      terminal.write("\u0004");
      expect(await process.exited).toBe(0);
    } finally {
      terminal.close();
    }
  });
});

describe("bad input is one line on stderr with the error's code, exit code 1 and nothing on stdout", () => {
  test.each([
    ["an empty file", async () => new Uint8Array(0), "media_empty"],
    ["text", async () => Buffer.from("hello\nworld\n"), "media_unsupported"],
    ["half a JPEG", async () => (await mediaBytes("odd.jpg")).slice(0, 13_000), "media_corrupt"],
    ["an MP4 cut at 60 %", async () => (await mediaBytes("h264.mp4")).slice(0, 25_408), "media_corrupt"],
    ["a missing file", null, "file_unreadable"],
  ])("%s", async (name, bytes, code) => {
    const path = join(folder, name.replaceAll(/\W/g, "_"));
    if (bytes) await Bun.write(path, await bytes());
    const run = await runCli(["describe", path]);
    expect(run).toMatchObject({ code: 1, stdout: "" });
    expect(run.stderr.trim().split("\n")).toHaveLength(1);
    expect(run.stderr).toContain(`[${code}]`);
    expect(run.stderr).toContain(path);
  });
});

describe("what keeps the command from running is one line on stderr, exit code 2", () => {
  const file = mediaPath("rgb.png");
  test.each([
    ["no file", ["describe"], "invalid_options"],
    ["an unknown option", ["describe", file, "--holdd"], "invalid_options"],
    ["video settings that are no JSON", ["describe", file, "--video", "{"], "invalid_options"],
    ["a misspelt video setting", ["describe", file, "--video", '{"num_framez":1}'], "invalid_options"],
    ["a misspelt image setting", ["describe", file, "--image", '{"limit":{}}'], "invalid_options"],
    ["an unknown command", ["descrybe"], "invalid_options"],
  ])("%s", async (_, args, code) => {
    const run = await runCli(args);
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr.trim().split("\n")).toHaveLength(1);
    expect(run.stderr).toContain(`[${code}]`);
  });

  test("libnixl that is named but not there", async () => {
    const run = await runCli(["describe", file], { env: { NIXL_CAPI_PATH: join(folder, "nowhere.so") } });
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr.trim().split("\n")).toHaveLength(1);
    expect(run.stderr).toContain("NIXL_CAPI_PATH");
    expect(run.stderr).not.toMatch(/^\s+at /m);
  });

  test.each([
    ["no library", async () => Buffer.from("not a library"), "native_missing"],
    ["another library", async () => Bun.file(await pathOfLibc()).bytes(), "nixl_unavailable"],
  ])("libnixl that is %s", async (name, bytes, code) => {
    const path = join(folder, name.replace(" ", "_"), "libnixl_capi.so");
    await Bun.write(path, await bytes());
    const run = await runCli(["describe", file], { env: { NIXL_CAPI_PATH: path } });
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr).toContain(`[${code}]`);
    expect(run.stderr.trim().split("\n")).toHaveLength(1);
  });
});

describe("a holding process ends without leaving a child", () => {
  /** Starts a hold and waits for the first line. */
  async function hold(command: string[]) {
    const process = Bun.spawn(command, { cwd: PROJECT, stdio: ["pipe", "pipe", "pipe"] });
    started.push(process);
    const lines = linesOf(process.stdout);
    expect((await lines.next()).value).toContain("nixl_descriptor");
    const children = descendantsOf(process.pid);
    expect(children.length).toBeGreaterThan(0);
    return { process, children };
  }

  const direct = [process.execPath, "src/cli/main.ts", "describe", mediaPath("rgb.png")];
  const throughNpm = ["npm", "run", "-s", "cli", "--", "describe", mediaPath("rgb.png")];

  test.each([
    ["SIGINT", direct],
    ["SIGTERM", direct],
    ["SIGINT", throughNpm],
    ["SIGTERM", throughNpm],
  ] as const)("on %s to %p", async (signal, command) => {
    const { process, children } = await hold([...command]);
    process.kill(signal);
    await eventually("the process ends", () => !isAlive(process.pid), 2000);
    await eventually("its children end", () => !children.some(isAlive), 2000);
  });

  test("on SIGKILL, which it cannot see", async () => {
    const { process, children } = await hold(direct);
    process.kill("SIGKILL");
    await process.exited;
    await eventually("its children end", () => !children.some(isAlive), 2000);
  });
});

test.each(["uncaught exception", "unhandled rejection", "process.exit"])(
  "%s in user code ends the process and its children",
  async (way) => {
    const script = join(PROJECT, "test/support/user_program.ts");
    const process = Bun.spawn([globalThis.process.execPath, script, way], { stdio: ["ignore", "pipe", "pipe"] });
    started.push(process);
    const lines = linesOf(process.stdout);
    const children: number[] = JSON.parse((await lines.next()).value ?? "[]");
    expect(children.length).toBeGreaterThan(0);
    await eventually("the process ends", () => !isAlive(process.pid), 2000);
    await eventually("its children end", () => !children.some(isAlive), 2000);
    await process.exited;
    expect(process.signalCode).toBeNull();
    expect(process.exitCode).toBe(way === "process.exit" ? 0 : 1);
  },
);

test("a program that neither disposes nor exits ends by itself, with exit code 0", async () => {
  const script = join(PROJECT, "test/support/user_program.ts");
  const process = Bun.spawn([globalThis.process.execPath, script, "nothing"], { stdio: ["ignore", "ignore", "pipe"] });
  started.push(process);
  await eventually("the process ends", () => !isAlive(process.pid), 10_000);
  await process.exited;
  expect([process.exitCode, process.signalCode]).toEqual([0, null]);
});

/** A named pipe that nothing more fits into. */
function fullPipe(): { readonly path: string; readonly close: () => void } {
  const path = join(folder, "full-pipe");
  Bun.spawnSync(["mkfifo", path]);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  try {
    for (;;) writeSync(fd, new Uint8Array(4096));
  } catch {
    // full
  }
  return { path, close: () => closeSync(fd) };
}

/** Where this process has its C library from. */
async function pathOfLibc(): Promise<string> {
  return /\S*\/libc\.so\.6/.exec(await Bun.file("/proc/self/maps").text())?.[0] ?? "libc not found";
}

process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
