import { describe, expect, test } from "bun:test";
import { enabledSettings, type MediaSettings, settingsFor } from "../../src/loader/media_settings.ts";
import { type MediaDecoderOptions, mediaDecoderOptionsSchema } from "../../src/loader/options.ts";
import { refusal } from "../support/refusal.ts";

const MEBIBYTE = 1024 * 1024;

/** A server's settings, defaults filled in. */
function server(options: Pick<MediaDecoderOptions, "image" | "video" | "audio"> = {}): MediaSettings {
  const { image, video, audio } = mediaDecoderOptionsSchema.parse(options);
  return { image, video, audio };
}

/** The coded error that a request's settings end with. */
function refused(requested: unknown, settings = server()) {
  return refusal((async () => settingsFor(settings, requested))());
}

describe("a server's limits", () => {
  test.each([
    ["absent", {}],
    ["empty", { limits: {} }],
  ])("are the defaults when they are %s", (_, options) => {
    const { image, video, audio } = server({ image: options, video: options, audio: options });
    expect(audio?.limits).toEqual({ max_alloc: 256 * MEBIBYTE });
    expect(image?.limits).toEqual({ max_alloc: 128 * MEBIBYTE });
    expect(video?.limits).toEqual({ max_alloc: 512 * MEBIBYTE });
  });

  test("are none when they are null", () => {
    const { image, video } = server({ image: { limits: null }, video: { limits: null } });
    expect([image?.limits, video?.limits]).toEqual([null, null]);
  });

  test.each([[{ limits: { max_aloc: 1 } }], [{ limits: { max_alloc: -1 } }], [{ limits: 5 }]])(
    "are refused when they make no sense: %p",
    (options) => {
      for (const name of ["image", "video"]) {
        expect(mediaDecoderOptionsSchema.safeParse({ [name]: options }).success).toBe(false);
      }
    },
  );
});

describe("a request's settings", () => {
  test.each([[undefined], [null], [{}], [{ image: null, video: null, audio: null }], [{ image: undefined }]])(
    "%p leave the server's",
    (requested) => {
      const settings = server({ image: { limits: { max_image_width: 9 } }, video: { num_frames: 4, strict: true } });
      expect(settingsFor(settings, requested)).toEqual(settings);
    },
  );

  test("replace the server's of their modality as a whole, and of no other", () => {
    const settings = server({ video: { num_frames: 4, strict: true, color: "tagged" } });
    const { image, video } = settingsFor(settings, { video: { max_frames: 2 } });
    expect(video).toEqual({
      max_frames: 2,
      strict: false,
      sampling: "targets",
      with_audio: false,
      auto_rotate: false,
      color: "reference",
      limits: { max_alloc: 512 * MEBIBYTE },
    });
    expect(image).toEqual(settings.image);
    expect(settingsFor(settings, { video: {} }).video?.num_frames).toBeUndefined();
  });

  test.each([
    [{ max_alloc: 1 }],
    [{ max_alloc: 2 ** 50 }],
    [{}],
    [null],
    [undefined],
    [{ max_aloc: 5 }],
    ["none"],
    [5],
    [[]],
  ])("change no limits, neither those that are set nor those that are none: %p", (limits) => {
    for (const settings of [
      server({ image: { limits: { max_alloc: 1000 } }, video: { limits: { max_alloc: 2000 } } }),
      server({ image: { limits: null }, video: { limits: null } }),
    ]) {
      const result = settingsFor(settings, { image: { limits }, video: { num_frames: 1, limits } });
      expect(result.image).toEqual(settings.image);
      expect(result.video).toMatchObject({ num_frames: 1, limits: settings.video?.limits ?? null });
    }
  });

  test.each([
    [{ video: { num_framez: 2 } }, "media_io_kwargs.video"],
    [{ video: { num_frames: "2" } }, "media_io_kwargs.video: num_frames"],
    [{ video: { fps: 1, num_frames: 2 } }, "cannot be specified at the same time"],
    [{ video: { max_frames: 1, num_frames: 2 } }, "cannot be specified at the same time"],
    [{ video: { fps: 0 } }, "media_io_kwargs.video: fps"],
    [{ image: { limit: {} } }, "media_io_kwargs.image"],
    [{ vidoe: {} }, "vidoe"],
    [{ video: 5 }, "media_io_kwargs: video"],
    [{ video: [] }, "media_io_kwargs: video"],
    [5, "media_io_kwargs"],
    [[], "media_io_kwargs"],
  ])("are refused when they make no sense: %p", async (requested, said) => {
    const error = await refused(requested);
    expect(error).toMatchObject({ code: "invalid_options", status: 400 });
    expect(error.message).toContain(said);
  });

  test("of what the server does not take are no concern", () => {
    const settings = server({ audio: null });
    expect(settingsFor(settings, { audio: { sample_rate: 8000, what: "ever" } })).toEqual(settings);
  });

  test("do not enable what the server does not take", async () => {
    const settings = settingsFor(server({ image: null, video: null, audio: null }), {
      image: {},
      video: { num_frames: 2 },
      audio: { sample_rate: 8000 },
    });
    expect(settings).toEqual({ image: null, video: null, audio: null });
    for (const kind of ["image", "video", "audio"] as const) {
      const error = await refusal((async () => enabledSettings(settings, kind))());
      expect(error).toMatchObject({ code: "modality_not_enabled", status: 400 });
      expect(error.message).toBe(`Model does not support ${kind} inputs`);
    }
  });
});

test("a request's settings of sound replace the server's but for the limits", () => {
  const settings = server({ audio: { sample_rate: 8000, channels: 2, limits: { max_alloc: 5 } } });
  expect(settingsFor(settings, { audio: { max_duration: 3, limits: null } }).audio).toEqual({
    sample_rate: 16_000,
    channels: 1,
    max_duration: 3,
    limits: { max_alloc: 5 },
  });
});
