import { expect, test } from "bun:test";
import { join } from "node:path";
import { checkLevel, MOST_GROWTH_BYTES, type SoakState } from "../soak/rounds.ts";

const PROGRAM = join(import.meta.dir, "../soak/main.ts");

test("downloads over the cap, loads that are given up, URLs that are refused and readers that are killed leave nothing behind", async () => {
  // In a process of its own: what other tests have left to the collector would count as memory that is given back or is not.
  const child = Bun.spawn([process.execPath, PROGRAM, "100"], { stdout: "pipe" });
  const lines = (await child.stdout.text()).trim().split("\n");
  expect(JSON.parse(lines.pop() ?? "")).toEqual({ level: true });
  expect(await child.exited).toBe(0);
  const states: SoakState[] = lines.map((line) => JSON.parse(line));
  expect(states.map(({ part }) => part)).toEqual(
    ["over_cap", "aborted", "refused", "killed_readers"].flatMap((part) => Array(4).fill(part)),
  );
  for (const state of states) expect(state).toMatchObject({ rooms: 0, quarantined_rooms: 0 });
}, 120_000);

test.each(["rooms", "quarantined_rooms", "descriptors", "processes", "memory_bytes"] as const)(
  "one that leaves %s behind would be noticed",
  (key) => {
    const level = {
      part: "any",
      loads: 0,
      descriptors: 9,
      processes: 3,
      rooms: 0,
      quarantined_rooms: 0,
      memory_bytes: 1e8,
    };
    const states = Array.from({ length: 5 }, () => level);
    expect(() => checkLevel(states)).not.toThrow();
    const risen = { ...level, [key]: level[key] + (key === "memory_bytes" ? MOST_GROWTH_BYTES + 1 : 1) };
    expect(() => checkLevel([...states, risen])).toThrow(key === "memory_bytes" ? "memory" : key);
  },
);
