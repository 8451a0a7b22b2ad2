import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  canonicalContentHash,
  DecodedMedia,
  getNixlAgent,
  getNixlMetadata,
  hashVideoContent,
  intoRdmaDescriptor,
  MediaDescriptor,
  MediaReader,
  type NixlAgent,
  SlabPool,
} from "../../src/index.ts";

const MEBIBYTE = 1024 * 1024;
let agent: NixlAgent;
let pool: SlabPool;
let reader: MediaReader;

beforeAll(async () => {
  agent = getNixlAgent();
  pool = new SlabPool({ slabBytes: 4 * MEBIBYTE, budgetBytes: 16 * MEBIBYTE });
  pool.register(agent);
  reader = await MediaReader.open({ landingBytes: 32 * MEBIBYTE });
});

afterAll(() => {
  reader.dispose();
  pool.dispose();
  agent.dispose();
});

/** A picture whose bytes depend on `seed`, hashed. */
function picture(height: number, width: number, seed: number): DecodedMedia {
  const bytes = Uint8Array.from({ length: height * width * 3 }, (_, i) => (i * seed + (i >> 8)) & 255);
  const shape = [height, width, 3];
  return DecodedMedia.fromTypedArray(bytes, shape, {
    metadata: { Image: { format: "Png", color_type: "Rgb8", layout: "HWC" } },
    contentHash: canonicalContentHash(shape, "UINT8", bytes),
  });
}

describe("a reader that has nothing but the JSON", () => {
  test("gets the same bytes and finds them verified", async () => {
    const media = picture(300, 400, 3);
    using descriptor = intoRdmaDescriptor(media, pool);
    using read = await reader.read(descriptor.toWire());
    expect(read.verified).toBe(true);
    expect(read.shape).toEqual([300, 400, 3]);
    expect(read.metadata).toEqual(media.info.metadata);
    expect(Buffer.compare(read.bytes, media.bytes)).toBe(0);
  });

  test("reads into the caller's typed array", async () => {
    const samples = Float32Array.from({ length: 5000 }, (_, i) => Math.sin(i));
    using descriptor = intoRdmaDescriptor(DecodedMedia.fromTypedArray(samples, [5000, 1]), pool);
    const into = new Float32Array(5000);
    using read = await reader.read(JSON.parse(JSON.stringify(descriptor)), { into });
    expect(read.verified).toBeNull();
    expect(into).toEqual(samples);
  });

  test("checks a clip's hash, which covers its metadata", async () => {
    const bytes = new Uint8Array(2 * 4 * 4 * 3).fill(8);
    const metadata = { Video: { source_fps: 24, source_duration: 10, sampled_timestamps: [0, 5.1] } };
    const contentHash = hashVideoContent([2, 4, 4, 3], "UINT8", metadata, bytes);
    using descriptor = intoRdmaDescriptor(
      DecodedMedia.fromTypedArray(bytes, [2, 4, 4, 3], { metadata, contentHash }),
      pool,
    );
    using read = await reader.read(descriptor.toWire());
    expect(read.verified).toBe(true);
    const other = { ...descriptor.toJSON(), metadata: { Video: { ...metadata.Video, source_fps: 25 } } };
    using forged = await reader.read(other);
    expect(forged.verified).toBe(false);
  });

  test("says so when the memory holds something else by now", async () => {
    const media = picture(40, 40, 5);
    using descriptor = intoRdmaDescriptor(media, pool);
    descriptor.localPayload?.fill(0, 100, 101);
    descriptor.localPayload?.fill(1, 101, 102);
    using read = await reader.read(descriptor.toWire());
    expect(read.verified).toBe(false);
    using unchecked = await reader.read(descriptor.toWire(), { verify: false });
    expect(unchecked.verified).toBeNull();
  });

  test("reads many at once, and one many times", async () => {
    const descriptors = Array.from({ length: 12 }, (_, i) => intoRdmaDescriptor(picture(100 + i, 100, i + 1), pool));
    const lines = descriptors.flatMap((descriptor) => [descriptor.toWire(), descriptor.toWire()]);
    const reads = await Promise.all(lines.map((line) => reader.read(line)));
    expect(reads.every((read) => read.verified === true)).toBe(true);
    for (const disposable of [...reads, ...descriptors]) disposable.dispose();
  });

  test("verifies media of more than 256 KiB without holding up the event loop's thread", async () => {
    using descriptor = intoRdmaDescriptor(picture(1000, 1000, 7), pool);
    for (let i = 0; i < 5; i++) {
      using read = await reader.read(descriptor.toWire());
      expect(read.verified).toBe(true);
    }
  });

  test("says null when it does not know what a kind of metadata is hashed with", async () => {
    const media = picture(10, 10, 6);
    using descriptor = intoRdmaDescriptor(media, pool);
    for (const metadata of [{ Audio: { sample_rate: 16_000 } }, {}]) {
      using read = await reader.read({ ...descriptor.toJSON(), metadata });
      expect(read.verified).toBeNull();
    }
    using bare = await reader.read({ ...descriptor.toJSON(), metadata: null });
    expect(bare.verified).toBe(true); // no metadata: hashed like an image
  });

  test.each([
    ["a misspelt key", { verfiy: false }],
    ["verify that is no boolean", { verify: "no" }],
    ["an array of another type", { into: new Uint16Array(150) }],
    ["a notification that is no text", { notification: 7 }],
  ])("refuses %s in the options", async (_, options) => {
    using descriptor = intoRdmaDescriptor(picture(10, 10, 1), pool);
    await expect(reader.read(descriptor.toWire(), options as never)).rejects.toMatchObject({ code: "invalid_options" });
  });

  test("has a budget, and can read again after disposing", async () => {
    using small = await MediaReader.open({ landingBytes: 2 * MEBIBYTE });
    using descriptor = intoRdmaDescriptor(picture(600, 600, 2), pool);
    const first = await small.read(descriptor.toWire());
    await expect(small.read(descriptor.toWire())).rejects.toMatchObject({ code: "no_room" });
    first.dispose();
    using again = await small.read(descriptor.toWire());
    expect(again.verified).toBe(true);
  });
});

describe("landing memory", () => {
  test("that lies idle in other sizes never keeps a tensor out", async () => {
    using small = await MediaReader.open({ landingBytes: 4 * MEBIBYTE });
    using little = intoRdmaDescriptor(picture(10, 30, 1), pool);
    using large = intoRdmaDescriptor(picture(1024, 1020, 1), pool);
    for (const descriptor of [little, large, little, large]) {
      using read = await small.read(descriptor.toWire());
      expect(read.verified).toBe(true);
    }
  });

  test("is taken in sizes that come close to what is needed", async () => {
    using small = await MediaReader.open({ landingBytes: 3 * MEBIBYTE });
    using descriptor = intoRdmaDescriptor(picture(830, 1024, 1), pool); // 2.43 MiB
    using read = await small.read(descriptor.toWire());
    expect(read.verified).toBe(true);
  });

  test("that could never hold a tensor says so", async () => {
    using small = await MediaReader.open({ landingBytes: MEBIBYTE });
    using descriptor = intoRdmaDescriptor(picture(600, 600, 1), pool);
    await expect(small.read(descriptor.toWire())).rejects.toMatchObject({
      code: "medium_exceeds_pool",
      retryable: false,
    });
  });
});

describe("a reader that is disposed", () => {
  test("refuses to read, and is not disposed twice", async () => {
    const other = await MediaReader.open();
    using descriptor = intoRdmaDescriptor(picture(10, 10, 1), pool);
    other.dispose();
    other.dispose();
    await expect(other.read(descriptor.toWire())).rejects.toMatchObject({ code: "closed" });
  });

  // Step n ends before, in, or after one of the waits in a read, wherever they are.
  test.each(Array.from({ length: 16 }, (_, step) => step))(
    "in the middle of a read, at step %d, never passes its zeroed memory off as the tensor",
    async (step) => {
      const media = picture(8, 8, 3);
      using descriptor = intoRdmaDescriptor(media, pool);
      const other = await MediaReader.open();
      (await other.read(descriptor.toWire())).dispose(); // connects, so that the next read is over at once
      const into = new Uint8Array(media.bytes.byteLength);
      const reading = other.read(descriptor.toWire(), { into }).then(
        () => Buffer.compare(into, media.bytes) === 0,
        (error) => error.code,
      );
      for (let i = 0; i < step; i++) await null;
      other.dispose();
      expect([true, "closed"]).toContain(await reading);
    },
  );

  test("while large media are transferred and hashed ends their reads", async () => {
    const other = await MediaReader.open();
    using descriptor = intoRdmaDescriptor(picture(1000, 1000, 7), pool);
    (await other.read(descriptor.toWire())).dispose();
    const reads = Array.from({ length: 4 }, () => other.read(descriptor.toWire()).catch((error) => error.code));
    await Bun.sleep(1);
    other.dispose();
    for (const outcome of await Promise.all(reads)) {
      if (typeof outcome === "string") expect(outcome).toBe("closed");
      else expect(outcome.verified).toBe(true);
    }
  });
});

describe("what is no descriptor", () => {
  test.each([
    ["text", "hello"],
    ["null", "null"],
    ["an empty object", "{}"],
  ])("%s is refused", async (_, text) => {
    await expect(reader.read(text)).rejects.toMatchObject({ code: "descriptor_invalid", status: 400 });
  });

  test("a size that shape and dtype do not make is refused before anything is read", async () => {
    using descriptor = intoRdmaDescriptor(picture(10, 10, 1), pool);
    const wire = descriptor.toJSON();
    const lying = { ...wire, nixl_descriptor: { ...wire.nixl_descriptor, size: 299 } };
    await expect(reader.read(lying)).rejects.toMatchObject({ code: "descriptor_invalid" });
  });

  test.each(["", "b64:", "b64:AAAA", "eJwDAAAAAAE="])("nixl_metadata %p is refused", async (metadata) => {
    using descriptor = intoRdmaDescriptor(picture(10, 10, 1), pool);
    await expect(reader.read({ ...descriptor.toJSON(), nixl_metadata: metadata })).rejects.toMatchObject({
      code: "descriptor_invalid",
    });
  });

  test("metadata that unpacks to nonsense is an error of NIXL's, and the reader goes on", async () => {
    using descriptor = intoRdmaDescriptor(picture(10, 10, 1), pool);
    const nonsense = `b64:${Buffer.from(Bun.deflateSync(Buffer.from("nonsense"), { windowBits: 15 } as never)).toString("base64")}`;
    await expect(reader.read({ ...descriptor.toJSON(), nixl_metadata: nonsense })).rejects.toThrow();
    using read = await reader.read(descriptor.toWire());
    expect(read.verified).toBe(true);
  });

  test("memory outside of what is registered cannot be read by an honest reader", async () => {
    using descriptor = intoRdmaDescriptor(picture(10, 10, 1), pool);
    const wire = descriptor.toJSON();
    const outside = { ...wire, nixl_descriptor: { ...wire.nixl_descriptor, addr: 4096 } };
    await expect(reader.read(outside)).rejects.toMatchObject({ code: "read_failed", retryable: true });
    using read = await reader.read(descriptor.toWire());
    expect(read.verified).toBe(true);
  });
});

describe("the agent", () => {
  test("is named media-loader-<uuid v4>", () => {
    expect(agent.name).toMatch(/^media-loader-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  test("has one short metadata text for two hundred live descriptors", () => {
    const descriptors = Array.from({ length: 200 }, (_, i) => intoRdmaDescriptor(picture(20, 20 + (i % 50), 1), pool));
    expect(new Set(descriptors.map((descriptor) => descriptor.nixlMetadata)).size).toBe(1);
    expect(getNixlMetadata(agent)).toBe(descriptors[0]?.nixlMetadata ?? "");
    expect(getNixlMetadata(agent).length).toBeLessThan(1000);
    for (const descriptor of descriptors) descriptor.dispose();
    expect(pool.occupancy.rooms).toBe(0);
  });

  test("finds a notification of each read, and takes them", async () => {
    using descriptor = intoRdmaDescriptor(picture(10, 10, 1), pool);
    await Bun.sleep(50);
    agent.drainNotifications();
    const messages: string[] = [];
    agent.onNotification = ({ message }) => messages.push(Buffer.from(message).toString());
    for (const key of ["first", "second"]) (await reader.read(descriptor.toWire(), { notification: key })).dispose();
    for (let i = 0; i < 100 && messages.length < 2; i++) {
      agent.drainNotifications();
      await Bun.sleep(10);
    }
    agent.onNotification = null;
    expect(messages.toSorted()).toEqual(["first", "second"]);
    expect(agent.notificationsTaken).toBeGreaterThanOrEqual(2);
  });

  test("refuses an empty payload", () => {
    const empty = DecodedMedia.fromTypedArray(new Uint8Array(0), [0, 0, 3]);
    expect(() => intoRdmaDescriptor(empty, pool)).toThrow(
      expect.objectContaining({ code: "registration_failed", status: 500 }),
    );
    expect(pool.occupancy.rooms).toBe(0);
  });

  test("that was disposed refuses to register, and says what happened", () => {
    const other = getNixlAgent();
    other.dispose();
    other.dispose();
    const unregistered = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: MEBIBYTE });
    expect(() => unregistered.register(other)).toThrow(
      expect.objectContaining({ code: "registration_failed", cause: expect.objectContaining({ code: "closed" }) }),
    );
    unregistered.dispose();
  });

  test.each([-1, 1_000_001, 0.5])("refuses a progress delay of %p microseconds", (progressDelayMicroseconds) => {
    expect(() => getNixlAgent({ progressDelayMicroseconds })).toThrow(
      expect.objectContaining({ code: "invalid_options" }),
    );
  });

  test("takes its progress delay from the environment, and refuses nonsense there", () => {
    process.env.DYN_MM_NIXL_PROGRESS_DELAY_US = "soon";
    try {
      expect(() => getNixlAgent()).toThrow(expect.objectContaining({ code: "invalid_options" }));
    } finally {
      delete process.env.DYN_MM_NIXL_PROGRESS_DELAY_US;
    }
  });

  test("names the status and the call when NIXL refuses", () => {
    expect(() => getNixlAgent({ backend: "NO_SUCH_BACKEND" })).toThrow(
      expect.objectContaining({
        code: "nixl_failed",
        cause: expect.objectContaining({
          statusName: expect.stringMatching(/^NIXL_ERR_/),
          attempted: expect.stringContaining("NO_SUCH_BACKEND"),
        }),
      }),
    );
  });
});

test("a reader with the text of before still reads what that text covered, after the agent has registered more", async () => {
  using otherAgent = getNixlAgent();
  const first = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: MEBIBYTE });
  first.register(otherAgent);
  const old = intoRdmaDescriptor(picture(50, 50, 4), first).toWire();
  const second = new SlabPool({ slabBytes: MEBIBYTE, budgetBytes: MEBIBYTE });
  second.register(otherAgent);
  const recent = intoRdmaDescriptor(picture(60, 60, 4), second);
  expect(MediaDescriptor.parse(old).nixlMetadata).not.toBe(recent.nixlMetadata);
  for (const line of [old, recent.toWire(), old, recent.toWire()]) {
    using read = await reader.read(line);
    expect(read.verified).toBe(true);
  }
  second.dispose();
  first.dispose();
});
