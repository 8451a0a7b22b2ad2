import { describe, expect, test } from "bun:test";
import { readlinkSync } from "node:fs";
import { join } from "node:path";
import {
  createFile,
  inheritedEnvironment,
  isProgramUnusable,
  type ProcessEnd,
  type SpawnOptions,
  spawn,
} from "../../ffi/process.ts";
import { PROJECT } from "../support/cli.ts";
import { descendantsOf, eventually, isAlive } from "../support/processes.ts";

const UNLIMITED: Omit<SpawnOptions, "descriptors"> = { memoryLimitBytes: 0, cpuSeconds: 0, fileSizeLimitBytes: 0 };

/** Runs a shell command to its end; what it wrote to descriptor 1. */
function shell(command: string, limits: Partial<SpawnOptions> = {}): { end: ProcessEnd; output: string } {
  using output = createFile("output", 65_536);
  const process = spawn("/bin/sh", ["-c", command], {
    descriptors: [null, output.fd, output.fd],
    ...UNLIMITED,
    ...limits,
  });
  let end = process.wait(10_000);
  if (end === null) {
    process.kill();
    end = process.wait(10_000);
  }
  if (end === null) throw new Error("the process could not be reaped");
  const text = Buffer.from(output.bytes).toString();
  return { end, output: text.slice(0, text.indexOf("\0")) };
}

function failureOf(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("it did not fail");
}

describe("a started program", () => {
  test("a program that writes more than it may is refused, not killed", () => {
    using log = createFile("log", 4096);
    const options = { descriptors: [null, null, log.fd], memoryLimitBytes: 0, cpuSeconds: 0, fileSizeLimitBytes: 4096 };
    const child = spawn("/bin/sh", ["-c", "exec head -c 10000 /dev/zero >&2"], options);
    let end = child.wait(1000);
    while (end === null) end = child.wait(1000);
    expect(end).toEqual({ exitCode: 1, signal: null });
  });

  test("says how it ended", () => {
    expect(shell("exit 7").end).toEqual({ exitCode: 7, signal: null });
    expect(shell("kill -9 $$").end).toEqual({ exitCode: null, signal: 9 });
  });

  test("writes to the descriptors it was given", () => {
    expect(shell("echo one; echo two >&2").output).toBe("one\ntwo\n");
  });

  test("has these descriptors and no others, whatever is open here", () => {
    using extra = createFile("extra", 100);
    expect(readlinkSync(`/proc/self/fd/${extra.fd}`)).toContain("extra");
    expect(shell("for f in /proc/self/fd/*; do readlink $f; done | grep -c memfd:extra").output).toBe("0\n");
    expect(shell("for f in 0 1 2 3 4 5 6 7 8 9 64 65; do [ -e /proc/$$/fd/$f ] && echo $f; done").output).toBe(
      "0\n1\n2\n",
    );
  });

  test("can be given descriptors in any order", () => {
    using first = createFile("first", 10);
    using second = createFile("second", 10);
    using output = createFile("output", 100);
    const descriptors = [null, second.fd, first.fd, output.fd, first.fd];
    const process = spawn("/bin/sh", ["-c", "echo a >&1; echo b >&2; echo c >&3; echo d >&4"], {
      descriptors,
      ...UNLIMITED,
    });
    while (process.wait(1000) === null);
    const textOf = (file: { bytes: Uint8Array }) => Buffer.from(file.bytes).toString().replaceAll("\0", "");
    expect([textOf(second), textOf(first), textOf(output)]).toEqual(["a\n", "b\nd\n", "c\n"]);
  });

  test("inherits no variable but those it needs", () => {
    process.env.NIXL_MEDIA_TEST_SECRET = "secret";
    const { output } = shell("env");
    delete process.env.NIXL_MEDIA_TEST_SECRET;
    expect(output).not.toContain("secret");
    expect(output).toContain("PATH=");
  });

  test("cannot gain privileges", () => {
    expect(shell("grep NoNewPrivs /proc/self/status").output).toMatch(/:\s*1/);
  });

  test("does not ignore SIGPIPE, though Bun does", () => {
    const ignored = /SigIgn:\s*([0-9a-f]+)/.exec(shell("cat /proc/self/status").output)?.[1] ?? "";
    expect(BigInt(`0x${ignored}`) & (1n << 12n)).toBe(0n);
  });

  test("is stopped by its limits", () => {
    expect(shell("ulimit -v; ulimit -t; ulimit -c", { memoryLimitBytes: 1 << 30, cpuSeconds: 5 }).output).toBe(
      "1048576\n5\n0\n",
    );
  });

  test("is told by SIGXCPU that its processor time is up, and killed a second later", () => {
    expect(shell("while :; do :; done", { cpuSeconds: 1 }).end).toEqual({ exitCode: null, signal: 24 });
    expect(shell("trap '' XCPU; while :; do :; done", { cpuSeconds: 1 }).end).toEqual({ exitCode: null, signal: 9 });
  });

  test("cannot write more than its file takes", () => {
    using small = createFile("small", 4096);
    const process = spawn("/bin/sh", ["-c", "head -c 10000 /dev/zero"], {
      descriptors: [null, small.fd, null],
      ...UNLIMITED,
    });
    let end = process.wait(5000);
    while (end === null) end = process.wait(5000);
    expect(end.exitCode).not.toBe(0);
    expect(small.bytes.byteLength).toBe(4096);
  });

  test("that is killed is reaped once, and killing it again does nothing", () => {
    const process = spawn("/bin/sleep", ["100"], { descriptors: [null, null, null], ...UNLIMITED });
    expect(process.wait(1)).toBeNull();
    process.kill();
    const end = process.wait(5000);
    expect(end).toEqual({ exitCode: null, signal: 9 });
    process.kill();
    expect(process.wait(0)).toEqual(end);
    expect(isAlive(process.pid)).toBe(false);
  });

  test("dies with the process that started it", async () => {
    const script = `const { spawn } = await import(${JSON.stringify(join(PROJECT, "ffi/process.ts"))});
      spawn("/bin/sleep", ["100"], { descriptors: [null, null, null], memoryLimitBytes: 0, cpuSeconds: 0, fileSizeLimitBytes: 0 });
      await Bun.sleep(100_000);`;
    const parent = Bun.spawn([process.execPath, "-e", script], { stdio: ["ignore", "ignore", "inherit"] });
    await eventually("it starts its child", () => descendantsOf(parent.pid).length > 0);
    const [child = 0] = descendantsOf(parent.pid);
    parent.kill("SIGKILL");
    await eventually("the child is gone", () => !isAlive(child));
  });
});

test.each([
  ["a program that is not there", "/no/such/program"],
  ["a folder", "/tmp"],
  ["a file that is not executable", join(PROJECT, "package.json")],
])("%s cannot be started, and that is told at once", (_, program) => {
  expect(() => spawn(program, [], { descriptors: [], ...UNLIMITED })).toThrow(
    expect.objectContaining({
      code: "system_failed",
      message: expect.not.stringMatching(/ffmpeg/i),
      cause: expect.objectContaining({ attempted: "execve" }),
    }),
  );
  expect(isProgramUnusable(failureOf(() => spawn(program, [], { descriptors: [], ...UNLIMITED })))).toBe(true);
});

test("a failure of the system is not blamed on the program", () => {
  const endless = ["x".repeat(200_000)];
  const error = failureOf(() => spawn("/bin/true", endless, { descriptors: [], ...UNLIMITED }));
  expect(error).toMatchObject({ code: "system_failed", cause: { attempted: "execve" } });
  expect(isProgramUnusable(error)).toBe(false);
  expect(isProgramUnusable(new Error("another"))).toBe(false);
});

test("a program's environment is a few variables, and those that are named", () => {
  process.env.NIXL_MEDIA_TEST_NAMED = "named";
  process.env.NIXL_MEDIA_TEST_SECRET = "secret";
  try {
    expect(inheritedEnvironment()).not.toHaveProperty("NIXL_MEDIA_TEST_NAMED");
    const environment = inheritedEnvironment(["NIXL_MEDIA_TEST_NAMED", "NIXL_MEDIA_TEST_UNSET"]);
    expect(environment).toMatchObject({ PATH: String(process.env.PATH), NIXL_MEDIA_TEST_NAMED: "named" });
    expect(Object.keys(environment)).not.toContain("NIXL_MEDIA_TEST_UNSET");
    expect(Object.values(environment)).not.toContain("secret");
  } finally {
    delete process.env.NIXL_MEDIA_TEST_NAMED;
    delete process.env.NIXL_MEDIA_TEST_SECRET;
  }
});

test("more descriptors than there is place for are refused", () => {
  const descriptors = Array.from({ length: 17 }, () => null);
  expect(() => spawn("/bin/true", [], { descriptors, ...UNLIMITED })).toThrow();
});

test("two thousand files and mappings are given back when they are disposed of", () => {
  const open = () =>
    Number(
      shell("true").end.exitCode === 0 &&
        [...new Bun.Glob("*").scanSync({ cwd: "/proc/self/fd", onlyFiles: false })].length,
    );
  const before = open();
  for (let i = 0; i < 2000; i++) createFile("short-lived", 1_000_000).dispose();
  expect(open()).toBe(before);
});
