/**
 * The long form of test/loader/soak.test.ts: a thousand loads of each part, or as many as are said, and a tenth of that in killed readers.
 *
 *   npm run test:soak -- [COUNT]
 *
 * Prints a JSON line four times in each part; ends 1 when something was left behind.
 */
import { soakWithOrigin } from "./run.ts";

const count = Number(process.argv[2] ?? 1000);
if (!Number.isSafeInteger(count) || count < 4) throw new Error("usage: npm run test:soak -- [COUNT, at least 4]");
try {
  await soakWithOrigin(count, (state) => console.log(JSON.stringify(state)));
  console.log(JSON.stringify({ level: true }));
} catch (error) {
  console.log(JSON.stringify({ level: false, reason: String(error) }));
  process.exitCode = 1;
}
