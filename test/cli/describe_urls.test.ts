import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { MediaDescriptor } from "../../src/index.ts";
import { linesOf, type Run, runCli, startCli } from "../support/cli.ts";
import { mediaBytes, mediaPath } from "../support/media.ts";
import { answer, type Origin, startOrigin } from "../support/origin.ts";
import { eventually } from "../support/processes.ts";
import references from "../vectors/media.json" with { type: "json" };

const HASH = references["rgba.png"].reference.content_hash;
const folder = mkdtempSync(join(tmpdir(), "describe-urls-"));
const png = Buffer.from(await mediaBytes("rgba.png"));
const dataUrl = `data:image/png;base64,${png.toString("base64")}`;
const started: { kill: (signal: "SIGKILL") => void }[] = [];
let origin: Origin;

beforeAll(async () => {
  copyFileSync(mediaPath("rgba.png"), join(folder, "a b.png"));
  origin = await startOrigin((socket, request) => {
    const path = request.split(" ")[1] ?? "";
    if (path === "/hangs") return;
    if (path.startsWith("/missing")) socket.end(answer("not here", { status: 404 }));
    else if (path.startsWith("/text")) socket.end(answer("hello"));
    else socket.end(answer(png));
  });
});

afterEach(() => {
  for (const process of started.splice(0)) process.kill("SIGKILL");
});

afterAll(() => {
  origin[Symbol.dispose]();
  rmSync(folder, { recursive: true });
});

const hashesOf = (run: Run): (string | null)[] =>
  run.stdout
    .split("\n")
    .filter(Boolean)
    .map((line) => MediaDescriptor.parse(line).contentHash);

describe("describe", () => {
  test("takes paths, URLs and data URLs, and names one picture by one hash", async () => {
    const sources = [dataUrl, origin.url("/a.png?x=1"), mediaPath("rgba.png"), origin.url().replace("http", "HTTP")];
    const run = await runCli(["describe", "--allow-internal", "--no-hold", ...sources]);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(hashesOf(run)).toEqual([HASH, HASH, HASH, HASH]);
  });

  test("connects to nothing inside unless it is told that it may", async () => {
    const before = origin.connections;
    const urls = [origin.url("/a.png"), `http://localhost:${origin.port}/a.png`, "http://localhost/"];
    const run = await runCli(["describe", "--no-hold", ...urls, dataUrl]);
    expect(run.code).toBe(1);
    expect(hashesOf(run)).toEqual([HASH]);
    const complaints = run.stderr.trim().split("\n");
    expect(complaints).toHaveLength(urls.length);
    for (const [i, line] of complaints.entries()) {
      expect(line).toStartWith(`${urls[i]}: `);
      expect(line).toEndWith("[url_refused]");
    }
    expect(origin.connections).toBe(before);
  });

  test("goes by the policy that the environment sets", async () => {
    const url = pathToFileURL(join(folder, "a b.png")).href;
    const sources = [url, origin.url("/a.png"), `file://${folder}/../secret`];
    const env = { DYN_MM_ALLOW_INTERNAL: "1", DYN_MM_LOCAL_PATH: folder };
    const run = await runCli(["describe", "--no-hold", ...sources], { env });
    expect(hashesOf(run)).toEqual([HASH, HASH]);
    expect(run.stderr.trim()).toMatch(/^file:\S+: .*\[url_refused\]$/);
    expect(run.code).toBe(1);
    const refused = await runCli(["describe", "--no-hold", url]);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toContain("Only HTTP(S) and data URLs are allowed [url_refused]");
  });

  test("takes a file whose name begins like a URL as ./", async () => {
    copyFileSync(mediaPath("rgba.png"), join(folder, "http:a.png"));
    const run = await runCli(["describe", "--no-hold", `${folder}/./http:a.png`]);
    expect(run).toMatchObject({ code: 0, stderr: "" });
  });

  test("holds what came over the network as it holds the rest", async () => {
    const process = startCli(["describe", "--allow-internal", origin.url("/a.png")]);
    started.push(process);
    const lines = await Array.fromAsync(linesOf(process.stdout));
    const read = await runCli(["read"], { stdin: lines.join("\n") });
    expect(JSON.parse(read.stdout)).toMatchObject({ content_hash: HASH, verified: true });
    await process.stdin.end();
    expect(await process.exited).toBe(0);
  });

  test("is ended by a signal while an origin keeps it waiting", async () => {
    const process = startCli(["describe", "--allow-internal", origin.url("/hangs")]);
    started.push(process);
    await eventually("the origin is asked", () => origin.requests.at(-1)?.startsWith("GET /hangs ") === true, 20_000);
    process.kill("SIGTERM");
    expect(await process.exited).toBe(143);
    expect((await process.stderr.text()).trim().split("\n")).toHaveLength(1);
    await eventually("the connection is closed", () => origin.open === 0);
  });
});

describe("a URL that fails is one line on stderr with the code, exit code 1, and says nothing that is secret", () => {
  const failures: [what: string, url: () => string, label: string, code: string][] = [
    ["a status", () => origin.url("/missing.png?token=secret"), "/missing.png…: ", "origin_refused"],
    ["no medium", () => origin.url("/text#secret"), "/text: ", "media_unsupported"],
    ["credentials", () => origin.url().replace("//", "//user:secret@"), "http://127.0.0.1:", "url_refused"],
    ["nobody there", () => "http://127.0.0.1:1/", "http://127.0.0.1:1/: ", "fetch_failed"],
    ["no URL", () => "http://secret@[", "http:…: ", "url_invalid"],
    ["bad base64", () => "data:image/png;base64,secret!!!", "data:image/png;base64,…: ", "data_url_invalid"],
    ["no base64", () => "data:text/plain,secret", "data:text/plain,…: ", "data_url_invalid"],
    ["no scheme that can be loaded", () => "s3://key:secret@bucket/a?secret", "s3://bucket/a…: ", "url_refused"],
    ["white space first", () => "  data:image/png;base64,secret!!!", "data:image/png;base64,…: ", "data_url_invalid"],
    ["too long for a path", () => `A${"A".repeat(300)}secret`, `${"A".repeat(50)}…: `, "file_unreadable"],
    ["too large", () => `data:;base64,${"secret".repeat(300_000)}`, "data:;base64,…: ", "media_too_large"],
  ];

  test("each, with the others going on", async () => {
    const list = join(folder, "failures");
    // A byte order mark would make a path of the first one.
    writeFileSync(list, `\ufeff${[...failures.map(([, url]) => url()), dataUrl].join("\n")}`);
    const run = await runCli(["describe", "--allow-internal", "--no-hold", "--input", list], {
      env: { DYN_MM_MAX_DATA_URL_MB: "1", DYN_MM_ALLOW_INTERNAL: "0" },
    });
    expect(run.code).toBe(1);
    expect(hashesOf(run)).toEqual([HASH]);
    expect(run.stderr).not.toContain("secret");
    const complaints = run.stderr.trim().split("\n");
    expect(complaints).toHaveLength(failures.length);
    for (const [i, [what, , label, code]] of failures.entries()) {
      expect(`${what}: ${complaints[i]}`).toContain(label);
      expect(complaints[i]).toEndWith(`[${code}]`);
      expect(complaints[i]?.length).toBeLessThan(800);
    }
  });
});

describe("sources in a file", () => {
  test("come after those of the command line, and may be longer than an argument", async () => {
    const long = `data:image/png;base64,${" ".repeat(1_000_000)}${png.toString("base64")}`;
    const list = join(folder, "list");
    writeFileSync(list, `${long}\r\n\n  \n${mediaPath("odd.jpg")}\n`);
    const run = await runCli(["describe", "--no-hold", "--input", list, mediaPath("rgb.png")]);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    const [first, second, third] = ["rgb.png", "rgba.png", "odd.jpg"] as const;
    expect(hashesOf(run)).toEqual([first, second, third].map((name) => references[name].reference.content_hash));
  });

  test("may come out of a pipe, and stdin still ends the hold", async () => {
    const pipe = join(folder, "pipe");
    Bun.spawnSync(["mkfifo", pipe]);
    const process = startCli(["describe", "--input", pipe]);
    started.push(process);
    await Bun.write(join(folder, "line"), dataUrl);
    started.push(Bun.spawn(["sh", "-c", 'cat "$1" > "$2"', "sh", join(folder, "line"), pipe]));
    const lines = await Array.fromAsync(linesOf(process.stdout));
    expect(lines.map((line) => MediaDescriptor.parse(line).contentHash)).toEqual([HASH]);
    expect(process.exitCode).toBeNull();
    await process.stdin.end();
    expect(await process.exited).toBe(0);
  });

  test.each([
    ["that is missing", "missing", "file_unreadable"],
    ["that is empty", "empty", "invalid_options"],
  ])("%s keep the command from running: exit code 2", async (_, name, code) => {
    writeFileSync(join(folder, "empty"), "\n");
    const run = await runCli(["describe", "--input", join(folder, name)]);
    expect(run).toMatchObject({ code: 2, stdout: "" });
    expect(run.stderr.trim().split("\n")).toHaveLength(1);
    expect(run.stderr).toContain(`[${code}]`);
  });
});
