/** The launcher behind the npm scripts, in small projects without dependencies; npm and Bun are the machine's. */
import { afterEach, expect, test } from "bun:test";
import { existsSync, lstatSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { eventually } from "../support/processes.ts";
import { endOf, installBun, makeProject, processesOf, start, writeFiles } from "./launcher.ts";

/** npm takes a second; on a busy machine several. */
const NPM_TIMEOUT_MS = 60_000;
const ECHO =
  "console.log(JSON.stringify({ arguments: process.argv.slice(2), folder: process.cwd(), pid: process.pid }));";
const WAIT = 'process.on("SIGTERM", () => process.exit(7)); console.log("ready"); setInterval(() => {}, 1000);';

const projects: string[] = [];
afterEach(() => {
  for (const project of projects.splice(0)) {
    for (const pid of processesOf(project)) process.kill(pid, "SIGKILL");
    rmSync(project, { recursive: true, force: true });
  }
});

function project(options: Parameters<typeof makeProject>[0]): string {
  const root = makeProject(options);
  projects.push(root);
  return root;
}

/** Starts the launcher, with the Bun that runs the tests as the machine's own. */
function launch(root: string, args: string[], environment: Record<string, string> = {}) {
  const bun = existsSync(join(root, "bun-install")) ? join(root, "bun-install") : installBun(root);
  return start(["sh", join(root, "scripts/run.sh"), ...args], root, { BUN_INSTALL: bun, ...environment });
}

function lockOf(root: string): string {
  return join(root, ".native/install.lock");
}

test("arguments reach the program as they are, and nothing else is printed", async () => {
  const root = project({ installed: true, files: { "echo.ts": ECHO } });
  const args = ["a b", "", '{"num_frames": 4}', "$HOME", "--in-callers-folder", "ü"];
  const ended = await endOf(launch(root, ["echo.ts", ...args]));
  expect(JSON.parse(ended.stdout)).toMatchObject({ arguments: args, folder: root });
  expect(ended).toMatchObject({ stderr: "", exitCode: 0 });
});

test("the program takes the launcher's place, so signals reach it and its exit code is what the caller sees", async () => {
  const root = project({ installed: true, files: { "wait.ts": WAIT, "echo.ts": ECHO } });
  const echo = launch(root, ["echo.ts"]);
  expect(JSON.parse((await endOf(echo)).stdout).pid).toBe(echo.pid);
  const wait = launch(root, ["wait.ts"]);
  await wait.stdout.getReader().read();
  wait.kill("SIGTERM");
  await wait.exited;
  expect(wait.exitCode).toBe(7);
});

test("--in-callers-folder runs the program where npm was called", async () => {
  const root = project({ installed: true, files: { "echo.ts": ECHO, "caller's folder/x": "" } });
  const folder = join(root, "caller's folder");
  const ran = async (args: string[], environment: Record<string, string>) =>
    JSON.parse((await endOf(launch(root, args, environment))).stdout);
  expect(await ran(["--in-callers-folder", "echo.ts"], { INIT_CWD: folder })).toMatchObject({ folder, arguments: [] });
  expect(await ran(["echo.ts"], { INIT_CWD: folder })).toMatchObject({ folder: root });
  expect(await ran(["--in-callers-folder", "echo.ts"], { INIT_CWD: join(root, "gone") })).toMatchObject({
    folder: root,
  });
});

test("settings and variables that lie in the caller's folder do not reach the program", async () => {
  const root = project({
    installed: true,
    files: {
      "show.ts": 'console.log(process.env.PLANTED ?? "clean");',
      "caller/bunfig.toml": 'preload = ["./planted.ts"]',
      "caller/tsconfig.json": '{"compilerOptions":{"paths":{"*":["./planted.ts"]}}}',
      "caller/planted.ts": 'console.log("planted code ran");',
      "caller/.env": "PLANTED=planted",
    },
  });
  const ended = await endOf(launch(root, ["--in-callers-folder", "show.ts"], { INIT_CWD: join(root, "caller") }));
  expect(ended.stdout).toBe("clean\n");
});

test("a shell script is run as one, with the Bun that was found on its PATH", async () => {
  const root = project({ installed: true, files: { "scripts/other.sh": '#!/bin/sh\nbun --version; echo "$1"\n' } });
  Bun.spawnSync(["chmod", "+x", join(root, "scripts/other.sh")]);
  const ended = await endOf(launch(root, ["scripts/other.sh", "--torch"]));
  expect(ended.stdout).toBe(`${Bun.version}\n--torch\n`);
});

test(
  "on a fresh clone packages and native parts come first, told on stderr; stdout is the program's",
  async () => {
    const root = project({
      installed: false,
      postinstall: "echo ran >> installs",
      files: { "src/cli/main.ts": ECHO, "sub/x": "" },
    });
    const bun = installBun(root);
    const started = start(["npm", "run", "-s", "cli", "--", "x.jpg"], join(root, "sub"), {
      BUN_INSTALL: bun,
      HOME: root,
    });
    const ended = await endOf(started);
    expect(JSON.parse(ended.stdout)).toMatchObject({ arguments: ["x.jpg"], folder: join(root, "sub") });
    expect(ended.stderr).toContain("installing packages with npm");
    expect(ended.stderr).toContain("set-up ran");
    expect(existsSync(lockOf(root))).toBe(false);

    const again = await endOf(launch(root, ["src/cli/main.ts"]));
    expect(again).toMatchObject({ stderr: "", exitCode: 0 });
    expect(readFileSync(join(root, "installs"), "utf8")).toBe("ran\n");
  },
  NPM_TIMEOUT_MS,
);

test(
  "a lockfile that changed since is installed anew",
  async () => {
    const root = project({ installed: true, postinstall: "echo ran >> installs", files: { "echo.ts": ECHO } });
    const lockfile = join(root, "package-lock.json");
    await Bun.sleep(20);
    writeFileSync(lockfile, readFileSync(lockfile));
    expect((await endOf(launch(root, ["echo.ts"]))).exitCode).toBe(0);
    expect((await endOf(launch(root, ["echo.ts"]))).exitCode).toBe(0);
    expect(readFileSync(join(root, "installs"), "utf8")).toBe("ran\n");
  },
  NPM_TIMEOUT_MS,
);

test(
  "several at the same time on a fresh clone install once, and all run",
  async () => {
    const root = project({
      installed: false,
      postinstall: "echo ran >> installs && sleep 1",
      files: { "echo.ts": ECHO },
    });
    const all = await Promise.all([1, 2, 3].map((index) => endOf(launch(root, ["echo.ts", String(index)]))));
    expect(all.map((ended) => JSON.parse(ended.stdout).arguments)).toEqual([["1"], ["2"], ["3"]]);
    expect(all.map((ended) => ended.exitCode)).toEqual([0, 0, 0]);
    expect(readFileSync(join(root, "installs"), "utf8")).toBe("ran\n");
  },
  NPM_TIMEOUT_MS,
);

test(
  "production settings of npm do not keep the development packages away",
  async () => {
    const shows = "node -p process.env.npm_config_include > included";
    const root = project({ installed: false, postinstall: shows, files: { "echo.ts": ECHO } });
    const ended = await endOf(launch(root, ["echo.ts"], { NODE_ENV: "production", npm_config_omit: "dev" }));
    expect(ended.exitCode).toBe(0);
    expect(readFileSync(join(root, "included"), "utf8")).toContain("dev");
  },
  NPM_TIMEOUT_MS,
);

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
  test(
    `an installation that ${signal} interrupts leaves no process and no lock, and the next one is whole`,
    async () => {
      const root = project({
        installed: false,
        postinstall: "test -e finish || { touch started; sleep 300; }",
        files: { "echo.ts": ECHO },
      });
      const started = launch(root, ["echo.ts"]);
      await eventually("the installation is at work", () => existsSync(join(root, "started")), 30_000);
      started.kill(signal);
      const ended = await endOf(started);
      expect(ended).toMatchObject({ stdout: "", signal });
      await eventually("all its processes have ended", () => processesOf(root).length === 0);
      expect(existsSync(lockOf(root))).toBe(false);
      writeFiles(root, { finish: "" });
      expect((await endOf(launch(root, ["echo.ts"]))).exitCode).toBe(0);
    },
    NPM_TIMEOUT_MS,
  );
}

test(
  "the lock of an installation that was killed is cleared away",
  async () => {
    const root = project({ installed: false, files: { "echo.ts": ECHO, ".native/x": "" } });
    const dead = Bun.spawn(["true"]);
    await dead.exited;
    symlinkSync(`${hostname()}:${dead.pid}`, lockOf(root));
    const all = await Promise.all([1, 2].map(() => endOf(launch(root, ["echo.ts"]))));
    expect(all.map((ended) => ended.exitCode)).toEqual([0, 0]);
    expect(existsSync(lockOf(root))).toBe(false);
  },
  NPM_TIMEOUT_MS,
);

test(
  "the lock of a living process, or of another machine, is waited for",
  async () => {
    for (const holder of [`${hostname()}:${process.pid}`, "another-machine:1"]) {
      const root = project({ installed: false, files: { "echo.ts": ECHO, ".native/x": "" } });
      symlinkSync(holder, lockOf(root));
      const waiting = launch(root, ["echo.ts"]);
      const stderr = waiting.stderr.getReader();
      expect(new TextDecoder().decode((await stderr.read()).value)).toContain("waiting for another installation");
      expect(lstatSync(lockOf(root)).isSymbolicLink()).toBe(true);
      expect(existsSync(join(root, "node_modules"))).toBe(false);
      rmSync(lockOf(root));
      while (!(await stderr.read()).done);
      await waiting.exited;
      expect(waiting.exitCode).toBe(0);
    }
  },
  NPM_TIMEOUT_MS,
);

test("where the lock cannot be made, the launcher says so instead of trying forever", async () => {
  const root = project({ installed: false, files: { "echo.ts": ECHO } });
  symlinkSync("/proc/self", join(root, ".native"));
  const ended = await endOf(launch(root, ["echo.ts"]));
  expect(ended).toMatchObject({ stdout: "", exitCode: 1 });
  expect(ended.stderr).toContain("cannot write to");
});

test(
  "an installation that fails ends the launcher with the reason, and gives the lock back",
  async () => {
    const root = project({ installed: false, postinstall: "echo the reason >&2; exit 3", files: { "echo.ts": ECHO } });
    const ended = await endOf(launch(root, ["echo.ts"]));
    expect(ended).toMatchObject({ stdout: "", exitCode: 1 });
    expect(ended.stderr).toContain("the reason");
    expect(ended.stderr).toContain("npm could not install the packages");
    expect(existsSync(lockOf(root))).toBe(false);
  },
  NPM_TIMEOUT_MS,
);
