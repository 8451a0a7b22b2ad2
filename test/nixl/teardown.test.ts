import { expect, test } from "bun:test";
import { runEveryStep } from "../../src/nixl/teardown.ts";

test("every step runs, and one error holds what each of them threw", () => {
  const done: string[] = [];
  const failures = [new Error("first"), new Error("third")];
  const step = (name: string, error?: Error) => () => {
    done.push(name);
    if (error) throw error;
  };
  const end = () => runEveryStep("the thing", [step("a", failures[0]), step("b"), step("c", failures[1]), step("d")]);
  expect(end).toThrow(
    expect.objectContaining({
      code: "nixl_failed",
      message: expect.stringContaining("the thing"),
      cause: expect.objectContaining({ errors: failures }),
    }),
  );
  expect(done).toEqual(["a", "b", "c", "d"]);
});

test("steps that all work are no error", () => {
  expect(() => runEveryStep("nothing", [])).not.toThrow();
  expect(() => runEveryStep("the thing", [() => {}])).not.toThrow();
});
