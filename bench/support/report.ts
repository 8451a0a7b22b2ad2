/** What a benchmark prints: JSON lines where a program reads, a table where a person does. */

/** Prints one result as it comes. */
export function report(result: object): void {
  if (process.stdout.isTTY) console.table([flattened(result)]);
  else console.log(JSON.stringify(result));
}

/** `{ours: {total_ms: 1}}` as `{"ours.total_ms": 1}`. */
function flattened(value: object, prefix = ""): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, entry]) =>
      typeof entry === "object" && entry !== null && !Array.isArray(entry)
        ? Object.entries(flattened(entry, `${prefix}${name}.`))
        : [[`${prefix}${name}`, entry]],
    ),
  );
}
