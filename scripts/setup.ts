/** `npm run setup`. */
import { runSetup } from "../src/cli/setup.ts";

process.exitCode = await runSetup({ print: (line) => console.log(line) });
