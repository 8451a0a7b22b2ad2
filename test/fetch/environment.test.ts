import { describe, expect, test } from "bun:test";
import { fetchPolicyFromEnv, MediaFetcher } from "../../src/fetch/index.ts";

const MEBIBYTE = 1024 * 1024;

describe("the environment's fetch policy", () => {
  test("is empty when nothing is set", () => {
    expect(fetchPolicyFromEnv({ DYN_MM_ALLOW_INTERNAL: "", DYN_MM_LOCAL_PATH: "", HOME: "/root" })).toEqual({});
  });

  test("has what a fleet sets", () => {
    const options = fetchPolicyFromEnv({
      DYN_MM_ALLOW_INTERNAL: "1",
      DYN_MM_MAX_FILE_SIZE_MB: "8",
      DYN_MM_MAX_DATA_URL_MB: "2",
      DYN_MM_LOCAL_PATH: "/srv/media",
      DYN_MM_TRUST_EGRESS_PROXY: "true",
    });
    expect(options).toEqual({
      allow_direct_ip: true,
      allow_direct_port: true,
      allow_private_ips: true,
      max_image_bytes: 8 * MEBIBYTE,
      max_audio_bytes: 8 * MEBIBYTE,
      max_video_bytes: 512 * MEBIBYTE,
      max_data_url_bytes: 2 * MEBIBYTE,
      allowed_local_path: "/srv/media",
      trust_egress_proxy: true,
    });
    expect(new MediaFetcher(options).policy).toMatchObject(options);
  });

  test("raises the limit of clips only above their own", () => {
    expect(fetchPolicyFromEnv({ DYN_MM_MAX_FILE_SIZE_MB: "1024" }).max_video_bytes).toBe(1024 * MEBIBYTE);
  });

  test("can say no", () => {
    expect(fetchPolicyFromEnv({ DYN_MM_ALLOW_INTERNAL: "0", DYN_MM_TRUST_EGRESS_PROXY: "off" })).toEqual({
      allow_direct_ip: false,
      allow_direct_port: false,
      allow_private_ips: false,
      trust_egress_proxy: false,
    });
  });

  test.each([
    ["DYN_MM_ALLOW_INTERNAL", "maybe"],
    ["DYN_MM_ALLOW_INTERNAL", "constructor"],
    ["DYN_MM_TRUST_EGRESS_PROXY", "2"],
    ["DYN_MM_MAX_FILE_SIZE_MB", "0"],
    ["DYN_MM_MAX_FILE_SIZE_MB", "-1"],
    ["DYN_MM_MAX_FILE_SIZE_MB", "64MB"],
    ["DYN_MM_MAX_FILE_SIZE_MB", "1e3"],
    ["DYN_MM_MAX_DATA_URL_MB", "Infinity"],
  ])("refuses %s=%s, naming the variable", (name, value) => {
    expect(() => fetchPolicyFromEnv({ [name]: value })).toThrow(
      expect.objectContaining({ code: "invalid_options", message: expect.stringContaining(name) }),
    );
  });
});
