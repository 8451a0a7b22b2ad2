/** Takes landing memory 20 times while the process has no descriptor left; prints what came of it. */
import { closeSync, openSync, readFileSync } from "node:fs";
import { NativeAgent } from "../../ffi/agent.ts";
import { MediaError } from "../../src/errors.ts";
import { LandingBuffers } from "../../src/nixl/landing.ts";

const GIBIBYTE = 1024 ** 3;

/** Address space of this process, bytes. */
function addressSpace(): number {
  const kibibytes = /^VmSize:\s+(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  return Number(kibibytes) * 1024;
}

const agent = NativeAgent.create({ name: "without-descriptors", backend: "UCX", progressDelayMicroseconds: 1000 });
const landing = new LandingBuffers(agent, 4 * GIBIBYTE);
const before = addressSpace();
const taken: number[] = [];
/** Other threads of this process, NIXL's, may give descriptors back at any time. */
function takeAllDescriptors(): void {
  try {
    for (;;) taken.push(openSync("/dev/null", "r"));
  } catch {
    // that was the last one
  }
}
takeAllDescriptors();
const codes = Array.from({ length: 20 }, () => {
  takeAllDescriptors();
  try {
    landing.take(0, GIBIBYTE);
    return "taken";
  } catch (error) {
    return error instanceof MediaError ? error.code : String(error);
  }
});
for (const fd of taken) closeSync(fd);
console.log(JSON.stringify({ codes, reservedBytes: addressSpace() - before }));
process.exit();
