import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { PAGE_BYTES } from "../../ffi/memory.ts";
import { MediaError } from "../../src/errors.ts";
import { Flights } from "../../src/loader/flights.ts";
import { SharedTensor } from "../../src/loader/shared_tensor.ts";
import { HOST_OWNER, SlabPool } from "../../src/nixl/index.ts";
import { refusal } from "../support/refusal.ts";

const NOTHING = { rooms: 0, bytes: 0 };
let pool: SlabPool;

beforeEach(() => {
  pool = new SlabPool({ slabBytes: 16 * PAGE_BYTES, budgetBytes: 16 * PAGE_BYTES });
});

afterEach(() => pool.dispose());

/** What work gives: a tensor in a room of the pool, whose occupancy tells whether it was given back. */
function decoded(): SharedTensor {
  return new SharedTensor(pool.take(HOST_OWNER, 12), {
    shape: [2, 2, 3],
    dtype: "UINT8",
    metadata: { Image: { format: "Png", color_type: "Rgb8", layout: "HWC" } },
    byteLength: 12,
    contentHash: null,
  });
}

/** Work that ends when the test says so, and knows how often it was begun and by which signals it is given up. */
function startable() {
  const runs: (PromiseWithResolvers<SharedTensor> & { readonly signal: AbortSignal })[] = [];
  const start = (signal: AbortSignal): Promise<SharedTensor> => {
    const run = { ...Promise.withResolvers<SharedTensor>(), signal };
    runs.push(run);
    return run.promise;
  };
  return { start, runs };
}

describe("work that several want", () => {
  test("is begun at once, runs once, and each who waited has a share", async () => {
    const flights = new Flights();
    const { start, runs } = startable();
    const loads = Array.from({ length: 5 }, () => flights.join("key", start, undefined));
    expect(runs.length).toBe(1);
    expect([flights.size, flights.joined]).toEqual([1, 4]);
    runs[0]?.resolve(decoded());
    const tensors = await Promise.all(loads);
    expect(new Set(tensors).size).toBe(1);
    expect([flights.size, tensors[0]?.users, pool.occupancy.rooms]).toEqual([0, 5, 1]);
    for (const tensor of tensors.slice(1)) tensor.release();
    expect(pool.occupancy.rooms).toBe(1);
    tensors[0]?.release();
    expect(pool.occupancy).toEqual(NOTHING);
  });

  test("is other work under another key", async () => {
    const flights = new Flights();
    const { start, runs } = startable();
    const loads = ["one", "other"].map((key) => flights.join(key, start, undefined));
    expect(runs.length).toBe(2);
    for (const run of runs) run.resolve(decoded());
    const tensors = await Promise.all(loads);
    expect(new Set(tensors).size).toBe(2);
    for (const tensor of tensors) tensor.release();
  });

  test("is begun anew by who comes when it has ended, well or badly", async () => {
    const flights = new Flights();
    const { start, runs } = startable();
    const failing = [flights.join("key", start, undefined), flights.join("key", start, undefined)];
    runs[0]?.reject(new MediaError("media_corrupt", "damaged"));
    for (const load of failing) expect((await refusal(load)).code).toBe("media_corrupt");
    expect(flights.size).toBe(0);
    for (const index of [1, 2]) {
      const load = flights.join("key", start, undefined);
      expect(runs.length).toBe(index + 1);
      runs[index]?.resolve(decoded());
      (await load).release();
    }
    expect(pool.occupancy).toEqual(NOTHING);
  });
});

describe("whoever gives up", () => {
  test("is told at once, and the work goes on for the others", async () => {
    const flights = new Flights();
    const { start, runs } = startable();
    const controller = new AbortController();
    const leaving = flights.join("key", start, controller.signal);
    const staying = flights.join("key", start, undefined);
    controller.abort();
    expect(await refusal(leaving)).toMatchObject({ code: "aborted" });
    expect(runs[0]?.signal.aborted).toBe(false);
    runs[0]?.resolve(decoded());
    const tensor = await staying;
    expect(tensor.users).toBe(1);
    tensor.release();
    expect(pool.occupancy).toEqual(NOTHING);
  });

  test("has begun nothing when the signal came before", async () => {
    const flights = new Flights();
    const { start, runs } = startable();
    expect(await refusal(flights.join("key", start, AbortSignal.abort()))).toMatchObject({ code: "aborted" });
    expect([runs.length, flights.size]).toEqual([0, 0]);
  });

  test("as the last one ends the work, waits for its end, and what still comes of it is given back", async () => {
    const flights = new Flights();
    const { start, runs } = startable();
    const controllers = [new AbortController(), new AbortController()];
    let isOver = false;
    const loads = controllers.map(({ signal }) => refusal(flights.join("key", start, signal)));
    const last = loads[1]?.then((error) => {
      isOver = true;
      return error;
    });
    controllers[0]?.abort();
    expect(await loads[0]).toMatchObject({ code: "aborted" });
    controllers[1]?.abort();
    await Bun.sleep(1);
    expect(runs[0]?.signal.aborted).toBe(true);
    expect(isOver).toBe(false);
    runs[0]?.resolve(decoded()); // the signal came too late for it
    expect(await last).toMatchObject({ code: "aborted" });
    expect(pool.occupancy).toEqual(NOTHING);
  });

  test("leaves nothing to those who come later, not even while the old work still ends", async () => {
    const flights = new Flights();
    const { start, runs } = startable();
    const controller = new AbortController();
    const first = refusal(flights.join("key", start, controller.signal));
    controller.abort();
    await Bun.sleep(1);
    const second = flights.join("key", start, undefined);
    expect(runs.length).toBe(2);
    runs[0]?.reject(new MediaError("aborted", "given up"));
    expect(await first).toMatchObject({ code: "aborted" });
    expect(flights.size).toBe(1); // the old end does not end the new work
    runs[1]?.resolve(decoded());
    (await second).release();
    expect(pool.occupancy).toEqual(NOTHING);
  });

  test("at the moment at which the work ends has either a share or none, and nothing leaks", async () => {
    const flights = new Flights();
    for (const abortsFirst of [true, false]) {
      const { start, runs } = startable();
      const controllers = Array.from({ length: 3 }, () => new AbortController());
      const loads = controllers.map(({ signal }) => flights.join("key", start, signal).catch(() => null));
      const abort = () => {
        for (const controller of controllers) controller.abort();
      };
      if (abortsFirst) abort();
      runs[0]?.resolve(decoded());
      if (!abortsFirst) abort();
      const tensors = await Promise.all(loads);
      for (const tensor of tensors) tensor?.release();
      expect(pool.occupancy).toEqual(NOTHING);
      expect(flights.size).toBe(0);
    }
  });
});
