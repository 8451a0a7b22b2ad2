/** The command `nixl-media`. Exit codes: 0 done, 1 a medium failed, 2 the command itself cannot run. */
import { parseArgs } from "node:util";
import packageJson from "../../package.json" with { type: "json" };
import { MediaError } from "../errors.ts";
import { complain, errorLine } from "./output.ts";

const HELP = `nixl-media ${packageJson.version}: decodes media into NIXL-registered memory and describes them

usage: nixl-media describe SOURCE… [--input FILE] [--image JSON] [--video JSON] [--audio JSON] [--hash-video] [--allow-internal] [--no-hold]
         prints one descriptor line per medium, then holds the memory until stdin closes or a signal comes
         SOURCE             a path, or an http:, https:, data: or file: URL
         --input            takes more sources from FILE, one a line: data URLs may be too long for an argument
         --allow-internal   URLs may name addresses and ports, and lead to this machine and private networks
         --image, --video, --audio   settings of this server, e.g. --video '{"num_frames":8,"limits":{"max_alloc":1000000000}}'
         --hash-video       clips get a content hash too (images and sounds always do)
         --no-hold          ends at once after the last line
       nixl-media read [--out FILE]
         reads the media whose descriptor lines come on stdin; FILE.png gets a picture (a contact sheet for a clip),
         any other FILE the raw tensor; the second medium goes to FILE-2, and so on
       nixl-media doctor [--json]
         shows every native part, its version and where it was found; ends 1 when the main job cannot run
       nixl-media setup
         fetches the native parts that are missing
`;

async function run([command, ...args]: string[]): Promise<number> {
  const end = args.indexOf("--");
  const flags = end < 0 ? args : args.slice(0, end); // behind it are sources, whatever they look like
  if (flags.includes("--help") || flags.includes("-h")) return help();
  switch (command) {
    case "describe":
      return (await import("./describe.ts")).runDescribe(args);
    case "read":
      return (await import("./read.ts")).runRead(args);
    case "doctor": {
      const { values } = parseArgs({ args, options: { json: { type: "boolean", default: false } } });
      return (await import("./doctor.ts")).runDoctor(print, { json: values.json, probeAgent });
    }
    case "setup":
      parseArgs({ args, options: {} });
      return (await import("./setup.ts")).runSetup({ print });
    case "--version":
    case "-v":
      print(packageJson.version);
      return 0;
    case "help":
    case "--help":
    case "-h":
      return help();
    default:
      throw new MediaError("invalid_options", `${noCommand(command)}: see nixl-media --help`);
  }
}

/** What was taken for a command may be a URL, credentials and all. */
function noCommand(text: string | undefined): string {
  if (text === undefined) return "no command";
  return /^[\w-]{1,30}$/.test(text) ? text : "no such command";
}

function help(): number {
  print(HELP);
  return 0;
}

function print(line: string): void {
  console.log(line);
}

/** Creates and ends a real agent: what proves that the main job can run. */
async function probeAgent(): Promise<string> {
  const { getNixlAgent } = await import("../nixl/index.ts");
  const started = performance.now();
  using agent = getNixlAgent();
  return `agent ${agent.name} on UCX in ${Math.round(performance.now() - started)} ms`;
}

/** Node's messages on arguments go on with advice on positional ones. */
function firstSentence(message: string): string {
  return message.split(". ")[0] ?? message;
}

try {
  process.exitCode = await run(process.argv.slice(2));
} catch (error) {
  const usage = error instanceof Error && "code" in error && String(error.code).startsWith("ERR_PARSE_ARGS");
  complain(errorLine("nixl-media", usage ? new MediaError("invalid_options", firstSentence(error.message)) : error));
  process.exitCode = 2;
}
process.exit();
