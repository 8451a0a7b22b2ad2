import { describe, expect, test } from "bun:test";
import { DEFAULT_VIDEO_MAX_ALLOC, videoOptionsSchema } from "../../../src/decode/video/options.ts";
import { parseOptions } from "../../../src/options.ts";

describe("video options", () => {
  test("nothing given: all frames, not strict, not turned, the fleet's colours, the default limit", () => {
    expect(videoOptionsSchema.parse({})).toEqual({
      strict: false,
      sampling: "targets",
      with_audio: false,
      auto_rotate: false,
      color: "reference",
      limits: { max_alloc: 512 * 1024 * 1024 },
    });
  });

  test("empty limits are the defaults, null is no limit", () => {
    expect(videoOptionsSchema.parse({ limits: {} }).limits).toEqual({ max_alloc: DEFAULT_VIDEO_MAX_ALLOC });
    expect(videoOptionsSchema.parse({ limits: null }).limits).toBeNull();
    expect(videoOptionsSchema.parse({ limits: { max_alloc: null } }).limits).toEqual({ max_alloc: null });
  });

  test.each([
    [{ fps: 1, num_frames: 2 }, "fps and num_frames cannot be specified at the same time"],
    [{ max_frames: 1, num_frames: 2 }, "max_frames and num_frames cannot be specified at the same time"],
    [{ num_frmes: 2 }, "num_frmes"],
    [{ limits: { max_aloc: 2 } }, "max_aloc"],
    [{ num_frames: 1.5 }, "num_frames"],
    [{ num_frames: -1 }, "num_frames"],
    [{ fps: 0 }, "fps"],
    [{ fps: Number.POSITIVE_INFINITY }, "fps"],
    [{ fps: "2" }, "fps"],
    [{ strict: 1 }, "strict"],
    [{ auto_rotate: "yes" }, "auto_rotate"],
    [{ color: "bt709" }, "color"],
    ["fps=2", "expected object"],
  ])("%o is refused", (options, part) => {
    expect(() => parseOptions(videoOptionsSchema, options)).toThrow(
      expect.objectContaining({ code: "invalid_options", status: 400, message: expect.stringContaining(part) }),
    );
  });

  test("null is as good as absent, and does not conflict", () => {
    expect(videoOptionsSchema.parse({ fps: null, num_frames: 2 })).toMatchObject({ num_frames: 2 });
  });

  test("fps and max_frames go together", () => {
    expect(videoOptionsSchema.parse({ fps: 2, max_frames: 3 })).toMatchObject({ fps: 2, max_frames: 3 });
  });
});
