import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type LoadedMessages, MediaLoader, MediaReader } from "../../src/index.ts";
import { madeClip } from "../decode/video/clips.ts";
import { mediaBytes } from "../support/media.ts";
import { LOCAL, pathOf, startMediaOrigin } from "../support/media_origin.ts";
import { answer, type Origin, redirect, startOrigin } from "../support/origin.ts";
import { eventually, openDescriptors } from "../support/processes.ts";
import { refusal } from "../support/refusal.ts";
import references from "../vectors/media.json" with { type: "json" };

let loader: MediaLoader;
let reader: MediaReader;
let origin: Origin;

beforeAll(async () => {
  loader = await MediaLoader.create({ ...LOCAL, video: { num_frames: 4 } });
  reader = await MediaReader.open();
  origin = await startMediaOrigin();
});

afterAll(async () => {
  expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
  expect(loader.stats).toMatchObject({ holds: { held: 0 }, fetches: { active: 0, waiting: 0 } });
  origin[Symbol.dispose]();
  reader.dispose();
  await loader.dispose();
});

function image(url: string, more: object = {}) {
  return { type: "image_url", image_url: { url, detail: "high" }, ...more };
}

function video(url: string, more: object = {}) {
  return { type: "video_url", video_url: { url }, ...more };
}

function user(...content: unknown[]) {
  return { messages: [{ role: "user", content }] };
}

async function dataUrl(name: string): Promise<string> {
  return `data:image/png;base64,${Buffer.from(await mediaBytes(name)).toString("base64")}`;
}

/** As a worker gets it: the wire's own text, parsed. */
function wireOf(loaded: LoadedMessages) {
  return JSON.parse(loaded.toWire());
}

const hashOf = (name: "rgb.png" | "odd.jpg" | "gray.png") => references[name].reference.content_hash;

describe("a request with text, three images and a clip", () => {
  test("becomes the worker's map, in order, and every tensor is what its hash says", async () => {
    const inline = await dataUrl("rgb.png");
    const request = user(
      { type: "text", text: "What do these show?" },
      image(origin.url("/odd.jpg")),
      image(inline),
      video(origin.url("/h264.mp4")),
      image(origin.url("/gray.png")),
    );
    const before = structuredClone(request);
    using loaded = await loader.loadMessages(request, { hashVideo: true });
    const wire = wireOf(loaded);
    const clip = references["h264.mp4"].reference.num_frames_4;

    expect(Object.keys(wire)).toEqual(["multi_modal_data", "extra_args"]);
    expect(wire.multi_modal_data).toMatchObject({
      image_url: [
        { Decoded: { content_hash: hashOf("odd.jpg"), dtype: "UINT8" } },
        { Decoded: { content_hash: hashOf("rgb.png") } },
        { Decoded: { content_hash: hashOf("gray.png") } },
      ],
      video_url: [{ Decoded: clip }],
    });
    expect(Object.keys(wire.multi_modal_data)).toEqual(["image_url", "video_url"]);
    expect(Object.keys(wire.multi_modal_data.image_url[0].Decoded)).toEqual([
      "nixl_metadata",
      "nixl_descriptor",
      "shape",
      "dtype",
      "metadata",
      "content_hash",
    ]);
    expect(wire.extra_args.mm_hashes).toBeUndefined();
    expect(wire.extra_args.mm_hashes_by_modality).toEqual({
      image: [hashOf("odd.jpg"), hashOf("rgb.png"), hashOf("gray.png")],
      video: [clip.content_hash],
    });
    expect(wire.extra_args.messages).toEqual(
      user(
        { type: "text", text: "What do these show?" },
        image(origin.url("/odd.jpg")),
        image(""),
        video(origin.url("/h264.mp4")),
        image(origin.url("/gray.png")),
      ).messages,
    );
    expect(request).toEqual(before);
    expect(wire).toEqual(JSON.parse(JSON.stringify(loaded)));
    expect(loaded.toWire()).toContain('"source_fps":30.0,');
    for (const descriptor of [...wire.multi_modal_data.image_url, ...wire.multi_modal_data.video_url]) {
      using read = await reader.read(descriptor.Decoded);
      expect(read.verified).toBe(true);
    }
  });

  test("has its media in the order of the parts, whichever comes first", async () => {
    const delays = { "/odd.jpg": 120, "/gray.png": 0, "/rgb.png": 60 } as const;
    const answered: string[] = [];
    using slow = await startOrigin((socket, request) => {
      const path = pathOf(request) as keyof typeof delays;
      setTimeout(async () => {
        answered.push(path);
        socket.end(answer(await mediaBytes(path.slice(1))));
      }, delays[path]);
    });
    const paths = ["/odd.jpg", "/gray.png", "/rgb.png"] as const;
    using loaded = await loader.loadMessages(user(...paths.map((path) => image(slow.url(path)))));
    expect(answered).toEqual(["/gray.png", "/rgb.png", "/odd.jpg"]);
    expect(loaded.extra_args.mm_hashes).toEqual([hashOf("odd.jpg"), hashOf("gray.png"), hashOf("rgb.png")]);
  });

  test("gives all memory back when it is disposed of", async () => {
    const loaded = await loader.loadMessages(user(image(origin.url("/odd.jpg")), video(origin.url("/h264.mp4"))));
    expect(loader.occupancy.rooms).toBe(2);
    expect(loaded.renew()).toBe(true);
    loaded.dispose();
    loaded.dispose();
    expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
    expect(loaded.renew()).toBe(false);
  });
});

describe("hashes", () => {
  test("of images alone are a list", async () => {
    using loaded = await loader.loadMessages(user(image(origin.url("/odd.jpg")), image(origin.url("/rgb.png"))));
    expect(loaded.extra_args.mm_hashes).toEqual([hashOf("odd.jpg"), hashOf("rgb.png")]);
    expect(loaded.extra_args.mm_hashes_by_modality).toBeUndefined();
  });

  test.each([
    ["a clip has none", () => user(image(origin.url("/odd.jpg")), video(origin.url("/h264.mp4")))],
    [
      "a user names a medium",
      () => user(image(origin.url("/odd.jpg")), image(origin.url("/rgb.png"), { uuid: "mine" })),
    ],
    ["there are no media", () => user({ type: "text", text: "hello" })],
  ])("are left out when %s", async (_, request) => {
    using loaded = await loader.loadMessages(request());
    expect(Object.keys(loaded.extra_args)).toEqual(["messages"]);
  });
});

describe("names that users give", () => {
  test("go along in the shape of the data; one without a URL is left to the worker's cache", async () => {
    using loaded = await loader.loadMessages(
      user(
        image(origin.url("/odd.jpg"), { uuid: "first" }),
        { type: "image_url", image_url: null, uuid: "second" },
        { type: "image_url", image_url: { url: origin.url("/rgb.png") } },
        { type: "video_url", video_url: { uuid: "third" } },
      ),
    );
    const { multi_modal_data, multi_modal_uuids } = wireOf(loaded);
    expect(multi_modal_uuids).toEqual({ image_url: ["first", "second", null], video_url: ["third"] });
    expect(multi_modal_data.image_url[0].Decoded.content_hash).toBe(hashOf("odd.jpg"));
    expect(multi_modal_data.image_url[1]).toEqual({ UuidOnly: "second" });
    expect(multi_modal_data.video_url).toEqual([{ UuidOnly: "third" }]);
  });

  test("are no media for load()", async () => {
    const error = await refusal(loader.load({ type: "image_url", uuid: "mine" }));
    expect(error).toMatchObject({ code: "request_invalid", status: 400 });
  });
});

describe("requests that are not formed as they should be", () => {
  test.each([
    ["null", null],
    ["a number", 5],
    ["no messages", {}],
    ["messages that are no list", { messages: "hello" }],
    ["a message that is none", { messages: [null] }],
    ["a part without URL and uuid", user({ type: "image_url" })],
    ["an empty URL", user({ type: "image_url", image_url: { url: "" } })],
    ["a URL that is no text", user({ type: "video_url", video_url: { url: 5 } })],
    ["a uuid that is no text", user({ type: "video_url", video_url: { url: "x" }, uuid: {} })],
  ])("%s", async (_, request) => {
    expect(await refusal(loader.loadMessages(request))).toMatchObject({ code: "request_invalid", status: 400 });
  });

  test("what is no medium is let through: text, unknown parts, no content, other roles", async () => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "assistant", content: null, tool_calls: [] },
      { role: "tool", content: [{ type: "image_url", image_url: origin.url("/rgb.png") }] },
      { role: "user", content: [null, 5, { type: "__proto__" }, { type: "constructor" }, { text: "no type" }] },
    ];
    using loaded = await loader.loadMessages({ model: "any", messages });
    expect(loaded.descriptors.map(({ contentHash }) => contentHash)).toEqual([hashOf("rgb.png")]);
    expect(loaded.extra_args.messages).toEqual(messages);
  });

  test("inline media are taken out of what the worker is sent, however they are written", async () => {
    const inline = await dataUrl("rgb.png");
    const shouted = inline.replace("data:image/png;base64", "DATA:IMAGE/PNG;x=y;BASE64");
    using loaded = await loader.loadMessages(user({ type: "image_url", image_url: shouted }, image(inline)));
    expect(JSON.stringify(loaded.extra_args)).not.toMatch(/base64/i);
  });
});

describe("sound", () => {
  const inline = async (name: string) => Buffer.from(await mediaBytes(name)).toString("base64");

  test("comes by URL, out of a clip, and in the request itself, in order, each with its hash", async () => {
    const request = user(
      { type: "audio_url", audio_url: { url: origin.url("/tone.ogg") } },
      image(origin.url("/rgb.png")),
      { type: "input_audio", input_audio: { data: await inline("tone44k_mono.mp3"), format: "mp3" } },
      { type: "audio_url", audio_url: { url: origin.url("/av.mp4") } },
    );
    using loaded = await loader.loadMessages(request);
    const { multi_modal_data, extra_args } = wireOf(loaded);
    const lengths = multi_modal_data.audio_url.map((slot: { Decoded: { shape: number[] } }) => slot.Decoded.shape[0]);
    expect(lengths.slice(0, 2)).toEqual([24_000, 24_000]);
    expect(lengths[2]).toBeWithin(48_000, 48_017); // three seconds, and a millisecond for the rounding of the edit list
    expect(multi_modal_data.audio_url[0].Decoded).toMatchObject({
      dtype: "FLOAT32",
      metadata: { sample_rate: 16_000 },
    });
    const hashes = loaded.descriptors.map(({ contentHash }) => contentHash);
    const { image: images, audio } = extra_args.mm_hashes_by_modality;
    expect([...audio, ...images].sort()).toEqual([...hashes].sort());
    expect(extra_args.messages[0].content[2].input_audio).toEqual({ data: "", format: "mp3" });
    for (const slot of multi_modal_data.audio_url) {
      using read = await reader.read(slot.Decoded);
      expect(read.verified).toBe(true);
    }
  });

  test("has settings of its own in a request", async () => {
    const request = user({ type: "audio_url", audio_url: origin.url("/tone48k_stereo.wav") });
    const media_io_kwargs = { audio: { sample_rate: 8000, channels: 2, max_duration: 0.25 } };
    using loaded = await loader.loadMessages({ ...request, media_io_kwargs });
    expect(loaded.descriptors[0]?.shape).toEqual([2000, 2]);
  });

  test.each([{}, { data: "" }, { data: 5 }, null, 5])(
    "in the request itself is refused when it is %p",
    async (sound) => {
      const error = await refusal(loader.loadMessages(user({ type: "input_audio", input_audio: sound })));
      expect(error).toMatchObject({ code: "request_invalid", status: 400 });
    },
  );

  test("that the worker knows by name needs no data", async () => {
    using loaded = await loader.loadMessages(
      user(
        ...[null, {}, { data: "", format: "wav" }].map((input_audio) => ({
          type: "input_audio",
          input_audio,
          uuid: "a",
        })),
      ),
    );
    expect(wireOf(loaded).multi_modal_data).toEqual({ audio_url: Array(3).fill({ UuidOnly: "a" }) });
  });

  test("is what bytes are that hold nothing else", async () => {
    for (const name of ["tone.ogg", "tone.m4a", "tone16k.flac", "tone44k_mono.mp3", "tone48k_stereo.wav"]) {
      using descriptor = await loader.load(await mediaBytes(name));
      expect(descriptor.dtype).toBe("FLOAT32");
    }
  });
});

describe("a clip with its sound", () => {
  const withAudio = { media_io_kwargs: { video: { num_frames: 2, with_audio: true }, audio: { sample_rate: 8000 } } };

  test("is fetched once, and the sound stands among the sounds where the clip does among the parts", async () => {
    using canary = await startMediaOrigin();
    const parts = [
      { type: "audio_url", audio_url: { url: canary.url("/tone.ogg") } },
      video(canary.url("/av.mp4")),
      { type: "audio_url", audio_url: { url: canary.url("/tone16k.flac") } },
    ];
    using loaded = await loader.loadMessages({ ...user(...parts), ...withAudio }, { hashVideo: true });
    expect(canary.requests.map(pathOf).sort()).toEqual(["/av.mp4", "/tone.ogg", "/tone16k.flac"]);
    const { multi_modal_data, extra_args } = wireOf(loaded);
    expect(multi_modal_data.video_url.length).toBe(1);
    expect(multi_modal_data.video_url[0].Decoded.shape).toEqual([2, 120, 160, 3]);
    const lengths = multi_modal_data.audio_url.map((slot: { Decoded: { shape: number[] } }) => slot.Decoded.shape[0]);
    expect([lengths[0], lengths[2]]).toEqual([12_000, 12_000]);
    expect(lengths[1]).toBeWithin(24_000, 24_009);
    expect(extra_args.mm_hashes_by_modality.audio.length).toBe(3);
    using plain = await loader.loadMessages({ ...user(parts[1]), media_io_kwargs: { video: { num_frames: 2 } } });
    expect(wireOf(plain).multi_modal_data.audio_url).toBeUndefined();
  });

  test.each(["/h264.mp4", "/animated.gif", "/animated.webp"])("that has none is a clip alone: %s", async (path) => {
    using loaded = await loader.loadMessages({ ...user(video(origin.url(path))), ...withAudio });
    expect(Object.keys(wireOf(loaded).multi_modal_data)).toEqual(["video_url"]);
  });

  test("is cached, frames and sound", async () => {
    await using caching = await MediaLoader.create({ ...LOCAL, cache: { bytes: 2 ** 24 } });
    using canary = await startMediaOrigin();
    const request = { ...user(video(canary.url("/av.mp4"))), ...withAudio };
    using _first = await caching.loadMessages(request);
    using second = await caching.loadMessages(request);
    using plain = await caching.loadMessages({ ...request, media_io_kwargs: { video: { num_frames: 2 } } });
    expect([second.descriptors.length, plain.descriptors.length]).toEqual([2, 1]);
    expect(canary.connections).toBe(1);
    expect(caching.stats.cache).toMatchObject({ misses: 2, hits: 3, entries: 2 });
    expect(caching.occupancy.rooms).toBe(2);
  });

  test("fails as a whole, and gives everything back", async () => {
    const request = { ...user(video(origin.url("/bad_video_moov_missing.mp4"))), ...withAudio };
    expect(await refusal(loader.loadMessages(request))).toMatchObject({ code: "media_corrupt", status: 400 });
    await using small = await MediaLoader.create({ ...LOCAL, tenants: { maxBytes: 150_000 } });
    const good = { ...user(video(origin.url("/av.mp4"))), ...withAudio };
    const error = await refusal(small.loadMessages(good, { tenant: "alice" }));
    expect(error).toMatchObject({ code: "quota_exceeded", status: 429 });
    expect(small.occupancy).toEqual({ rooms: 0, bytes: 0 });
    expect(small.usageOf("alice")).toEqual({ loads: 0, bytes: 0 });
    await using deaf = await MediaLoader.create({ ...LOCAL, audio: null });
    expect(await refusal(deaf.loadMessages(good))).toMatchObject({ code: "modality_not_enabled" });
  });

  test("that is large goes by a file that both decoders read, and is closed", async () => {
    const clip = await madeClip("avi", [
      ...["-f", "lavfi", "-i", "testsrc2=s=640x480:r=25:d=4", "-f", "lavfi", "-i", "sine=d=4"],
      ...["-c:v", "rawvideo", "-pix_fmt", "yuv420p", "-c:a", "pcm_s16le"],
    ]);
    expect(clip.byteLength).toBeGreaterThan(17 * 2 ** 20);
    using large = await startOrigin((socket) => socket.end(answer(clip)));
    const before = openDescriptors();
    {
      using loaded = await loader.loadMessages({ ...user(video(large.url())), ...withAudio });
      expect(loaded.descriptors.map(({ shape }) => shape.length)).toEqual([4, 2]);
    }
    await eventually("the file is closed", () => openDescriptors() <= before);
  });
});

describe("a request with many media", () => {
  test("has them loaded a few at a time", async () => {
    await using narrow = await MediaLoader.create({ ...LOCAL, requests: { concurrency: 3 } });
    let most = 0;
    using slow = await startOrigin((socket) => {
      most = Math.max(most, slow.open);
      setTimeout(async () => socket.end(answer(await mediaBytes("rgb.png"))), 20);
    });
    using loaded = await narrow.loadMessages(user(...Array.from({ length: 12 }, (_, n) => image(slow.url(`/${n}`)))));
    expect(loaded.descriptors.length).toBe(12);
    expect(slow.connections).toBe(12);
    expect(most).toBe(3);
  });

  test("is refused at once when they are too many, and nothing is fetched", async () => {
    using canary = await startMediaOrigin();
    const request = user(...Array.from({ length: 1001 }, () => image(canary.url("/rgb.png"))));
    const error = await refusal(loader.loadMessages(request));
    expect(error).toMatchObject({ code: "request_invalid", status: 400 });
    expect(canary.connections).toBe(0);
  });

  test("has all of them for the whole time that descriptors are held, from the last one on", async () => {
    await using brief = await MediaLoader.create({ ...LOCAL, maxHoldMs: 150 });
    using slow = await startOrigin((socket) =>
      setTimeout(async () => socket.end(answer(await mediaBytes("gray.png"))), 400),
    );
    using loaded = await brief.loadMessages(user(image(origin.url("/rgb.png")), image(slow.url())));
    expect(loaded.descriptors.map(({ localPayload }) => localPayload === null)).toEqual([false, false]);
    expect(brief.stats.holds).toMatchObject({ held: 2, leaked: 0 });
  });
});

test("a request may be changed by its owner as soon as it was handed over", async () => {
  const request = user(image(origin.url("/rgb.png")), { type: "text", text: "Is it red?" });
  const before = structuredClone(request);
  const loading = loader.loadMessages(request);
  const [message] = request.messages;
  message?.content.splice(0);
  if (message) message.role = "system";
  using loaded = await loading;
  expect(loaded.extra_args.messages).toEqual(before.messages);
});

describe("a request's own settings", () => {
  const clip = () => user(video(origin.url("/h264.mp4")));

  test("change what is decoded", async () => {
    using server = await loader.loadMessages(clip());
    using request = await loader.loadMessages({ ...clip(), media_io_kwargs: { video: { num_frames: 2 } } });
    expect([server, request].map(({ descriptors }) => descriptors[0]?.shape[0])).toEqual([4, 2]);
  });

  test("replace the server's as a whole", async () => {
    using loaded = await loader.loadMessages({ ...clip(), media_io_kwargs: { video: { max_frames: 7 } } });
    expect(loaded.descriptors[0]?.shape[0]).toBe(7); // with the server's num_frames it would be an error
    using all = await loader.loadMessages({ ...clip(), media_io_kwargs: { video: {} } });
    expect(all.descriptors[0]?.shape[0]).toBe(90);
  });

  test.each([[{ max_alloc: 1 }], [{ max_alloc: 2 ** 50 }], [null], [{ max_aloc: 5 }], ["none"]])(
    "cannot change limits: %p",
    async (limits) => {
      await using strict = await MediaLoader.create({ ...LOCAL, image: { limits: { max_image_width: 100 } } });
      const kwargs = { image: { limits }, video: { num_frames: 1, limits } };
      using small = await strict.loadMessages({ ...user(image(origin.url("/rgb.png"))), media_io_kwargs: kwargs });
      expect(small.descriptors.length).toBe(1);
      const large = { ...user(image(origin.url("/odd.jpg"))), media_io_kwargs: kwargs };
      expect(await refusal(strict.loadMessages(large))).toMatchObject({ code: "limit_exceeded", status: 400 });
    },
  );

  test.each([
    [{ video: { num_framez: 2 } }],
    [{ vidoe: {} }],
    [{ video: 5 }],
    [{ video: { fps: 1, num_frames: 1 } }],
    ["none"],
  ])("are refused when they make no sense: %p", async (media_io_kwargs) => {
    const error = await refusal(loader.loadMessages({ ...clip(), media_io_kwargs }));
    expect(error).toMatchObject({ code: "invalid_options", status: 400 });
  });

  test("are refused when they make no sense, media or not", async () => {
    const error = await refusal(loader.loadMessages({ ...user({ type: "text" }), media_io_kwargs: { vidoe: {} } }));
    expect(error).toMatchObject({ code: "invalid_options", status: 400 });
    const secret = `data:image/png;base64,${"QUJD".repeat(20)}`;
    const quoting = await refusal(loader.loadMessages({ ...clip(), media_io_kwargs: { image: { [secret]: 1 } } }));
    expect(quoting.message).not.toContain("QUJD");
  });

  test.each([[null], [undefined], [{}], [{ video: null, image: null, audio: { sample_rate: 8000 } }]])(
    "may be none: %p",
    async (media_io_kwargs) => {
      using loaded = await loader.loadMessages({ ...clip(), media_io_kwargs });
      expect(loaded.descriptors[0]?.shape[0]).toBe(4);
    },
  );
});

describe("a modality that is not enabled", () => {
  test("is refused before anything is fetched", async () => {
    await using textOnly = await MediaLoader.create({ ...LOCAL, image: null, video: null, audio: null });
    using canary = await startMediaOrigin();
    for (const [part, name] of [
      [image(canary.url("/rgb.png")), "image"],
      [video(canary.url("/h264.mp4")), "video"],
      [{ type: "audio_url", audio_url: { url: canary.url("/tone.ogg") } }, "audio"],
    ] as const) {
      const error = await refusal(textOnly.loadMessages(user(part)));
      expect(error).toMatchObject({ code: "modality_not_enabled", status: 400 });
      expect(error.message).toBe(`Model does not support ${name} inputs`);
    }
    expect(canary.connections).toBe(0);
    expect(await refusal(textOnly.load(await mediaBytes("rgb.png")))).toMatchObject({ code: "modality_not_enabled" });
  });
});

describe("when one medium fails", () => {
  test("the others are given up, all is given back, and the first failure is told", async () => {
    using stuck = await startOrigin((socket) => socket.write("HTTP/1.1 200 OK\r\n"));
    using failing = await startOrigin((socket) => setTimeout(() => socket.end(answer("", { status: 403 })), 150));
    const request = user(
      image(stuck.url("/a")),
      image(await dataUrl("odd.jpg")),
      image(failing.url("/b")),
      video(stuck.url("/c")),
    );
    const error = await refusal(loader.loadMessages(request));
    expect(error).toMatchObject({ code: "origin_refused", status: 400 });
    expect(error.message).toContain("403");
    await eventually("the siblings' connections are closed", () => stuck.open === 0);
    expect(stuck.connections).toBe(2);
    expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
  });

  test("the caller's signal gives up all of them", async () => {
    using stuck = await startOrigin((socket) => socket.write("HTTP/1.1 200 OK\r\n"));
    const controller = new AbortController();
    const request = user(image(stuck.url("/a")), image(origin.url("/odd.jpg")));
    const loading = refusal(loader.loadMessages(request, { signal: controller.signal }));
    await eventually("the origin is asked", () => stuck.connections === 1);
    controller.abort();
    expect(await loading).toMatchObject({ code: "aborted", status: 400 });
    await eventually("the connection is closed", () => stuck.open === 0);
    expect(loader.occupancy).toEqual({ rooms: 0, bytes: 0 });
    expect(await refusal(loader.loadMessages(request, { signal: AbortSignal.abort() }))).toMatchObject({
      code: "aborted",
    });
  });
});

describe("passing on what cannot be decoded here", () => {
  const passthrough = { onDecodeError: "passthrough" } as const;

  test("leaves the worker its URL, inline media too, and no list of hashes", async () => {
    const text = `data:image/png;base64,${Buffer.from("this is no picture").toString("base64")}`;
    const damaged = origin.url("/bad_truncated.jpg");
    using loaded = await loader.loadMessages(
      user(image(origin.url("/odd.jpg")), image(damaged), image(text)),
      passthrough,
    );
    const { multi_modal_data, extra_args } = wireOf(loaded);
    expect(multi_modal_data.image_url.slice(1)).toEqual([{ Url: damaged }, { Url: text }]);
    expect(multi_modal_data.image_url[0].Decoded.content_hash).toBe(hashOf("odd.jpg"));
    expect(extra_args.mm_hashes).toBeUndefined();
  });

  test("is not done unless it is asked for", async () => {
    const error = await refusal(loader.loadMessages(user(image(origin.url("/bad_truncated.jpg")))));
    expect(error).toMatchObject({ code: "media_corrupt", status: 400 });
  });

  test("leaves sound that is not taken here to the worker once its URL was judged", async () => {
    const audio = (url: string) => user({ type: "audio_url", audio_url: { url } });
    await using deaf = await MediaLoader.create({ ...LOCAL, audio: null });
    using loaded = await deaf.loadMessages(audio(origin.url("/tone.ogg")), passthrough);
    expect(wireOf(loaded).multi_modal_data).toEqual({ audio_url: [{ Url: origin.url("/tone.ogg") }] });
    await using strict = await MediaLoader.create({ audio: null, decoders: { children: 1 } });
    for (const url of [
      "http://127.0.0.1/a.ogg",
      "http://metadata.google.internal/",
      "file:///etc/passwd",
      "http://u:p@a.com/",
    ]) {
      expect(await refusal(strict.loadMessages(audio(url), passthrough))).toMatchObject({ code: "url_refused" });
    }
  });

  test("does not leave the worker files that are not its to read, nor data URLs that are none or too large", async () => {
    const folder = mkdtempSync(join(tmpdir(), "allowed-"));
    try {
      const fetch = { ...LOCAL.fetch, allowed_local_path: folder, max_data_url_bytes: 1000 };
      await using deaf = await MediaLoader.create({ ...LOCAL, audio: null, fetch });
      const passed = (url: string) => deaf.loadMessages(user({ type: "audio_url", audio_url: { url } }), passthrough);
      for (const [url, code] of [
        ["file:///etc/shadow", "url_refused"],
        [`file://${folder}/../etc/shadow`, "url_refused"],
        ["file://otherhost/etc/x", "url_refused"],
        ["data:audio/wav;base64,not!!!base64!!!", "data_url_invalid"],
        ["data:audio/wav,no", "data_url_invalid"],
        [`data:;base64,${"A".repeat(4000)}`, "media_too_large"],
      ] as const) {
        expect(await refusal(passed(url))).toMatchObject({ code, status: 400 });
      }
      using loaded = await passed(`file://${folder}/a.wav`);
      expect(wireOf(loaded).multi_modal_data.audio_url.length).toBe(1);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("is no way around policy, limits or the network", async () => {
    await using strict = await MediaLoader.create({ ...LOCAL, image: { limits: { max_image_width: 10 } } });
    expect(await refusal(strict.loadMessages(user(image(origin.url("/odd.jpg"))), passthrough))).toMatchObject({
      code: "limit_exceeded",
    });
    using inside = await startOrigin((socket) => socket.end(redirect("http://169.254.169.254:80/")));
    await using outside = await MediaLoader.create({ decoders: { children: 1 } });
    expect(await refusal(outside.loadMessages(user(image(inside.url())), passthrough))).toMatchObject({
      code: "url_refused",
    });
    expect(await refusal(loader.loadMessages(user(image(origin.url("/none"))), passthrough))).toMatchObject({
      code: "origin_refused",
    });
  });
});
