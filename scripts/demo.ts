/**
 * The main job, end to end: sets up what is missing, describes a photo and a clip in one process, and reads both in another
 * one that is given nothing but the descriptors.
 */
import { join } from "node:path";
import { runSetup } from "../src/cli/setup.ts";
import { MediaDescriptor } from "../src/tensor/index.ts";

const PROJECT = join(import.meta.dir, "..");
const MAIN = join(PROJECT, "src/cli/main.ts");
const FILES = ["test/media/odd.jpg", "test/media/h264.mp4"].map((file) => join(PROJECT, file));
const VIDEO = JSON.stringify({ num_frames: 4 });

const setup = await runSetup({ print: (line) => console.log(line) });
if (setup !== 0) process.exit(setup);

const holder = Bun.spawn([process.execPath, MAIN, "describe", ...FILES, "--hash-video", "--video", VIDEO], {
  stdio: ["pipe", "pipe", "inherit"],
});
const lines = (await holder.stdout.text()).trim().split("\n");
if (lines.length !== FILES.length) fail("not every medium was described");

console.log("\nThe process that decoded printed these descriptors (metadata text shortened), and holds the tensors:");
for (const line of lines) console.log(`  ${shortened(line)}`);

const reader = Bun.spawn([process.execPath, MAIN, "read"], { stdio: ["pipe", "pipe", "inherit"] });
reader.stdin.write(lines.join("\n"));
await reader.stdin.end();
const results = (await reader.stdout.text()).trim().split("\n");

console.log("\nA second process, given these lines alone, read the tensors over UCX:");
for (const result of results) console.log(`  ${result}`);

await holder.stdin.end();
const [readerCode, holderCode] = [await reader.exited, await holder.exited];
if (readerCode !== 0 || holderCode !== 0) fail(`the processes ended with ${readerCode} and ${holderCode}`);
if (results.length !== lines.length || !results.every(isVerified)) fail("what was read is not what was decoded");
console.log("\nBoth are what their content hashes say.");

function isVerified(result: string): boolean {
  return JSON.parse(result).verified === true;
}

/** A descriptor line without the metadata text, which is long and a secret. */
function shortened(line: string): string {
  return line.replace(MediaDescriptor.parse(line).nixlMetadata, "b64:…");
}

function fail(reason: string): never {
  console.error(`demo: ${reason}`);
  process.exit(1);
}
