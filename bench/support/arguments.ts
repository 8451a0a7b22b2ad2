/** Command lines of the benchmarks: files, then `--name value`; a mistake ends the program with its usage. */

/** Options by name, each given at most once, and everything else. */
export interface BenchArguments {
  readonly files: readonly string[];
  readonly options: Readonly<Record<string, string>>;
}

/** @param names options that there are, without dashes; each takes a value */
export function benchArguments(usage: string, names: readonly string[], mostFiles: number): BenchArguments {
  const files: string[] = [];
  const options: Record<string, string> = {};
  const words = process.argv.slice(2);
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? "";
    const name = word.startsWith("--") ? word.slice(2) : null;
    if (name === null) files.push(word);
    else {
      const value = words[++at];
      if (!names.includes(name) || value === undefined || name in options) fail(usage);
      options[name] = value;
    }
  }
  if (files.length > mostFiles) fail(usage);
  return { files, options };
}

/** A whole number above 0 out of an option. */
export function countOption(usage: string, value: string | undefined, fallback: number): number {
  const number = value === undefined ? fallback : Number(value);
  if (!Number.isInteger(number) || number < 1) fail(usage);
  return number;
}

export function fail(usage: string): never {
  console.error(`usage: ${usage}`);
  process.exit(2);
}
