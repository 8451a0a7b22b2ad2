/** An origin that serves the files of test/media by their names, and counts. */
import type { MediaLoaderOptions } from "../../src/index.ts";
import { mediaBytes } from "./media.ts";
import { answer, INSIDE, type Origin, startOrigin } from "./origin.ts";

/** A loader's options that let it fetch from this machine. */
export const LOCAL: MediaLoaderOptions = { fetch: INSIDE, decoders: { children: 2 } };

/** The first path of a request's line. */
export function pathOf(request: string): string {
  return /^GET (\S+)/.exec(request)?.[1] ?? "";
}

/**
 * `/NAME` and `/NAME?anything` are files of test/media.
 * @param delayMs before each answer, so that loads are under way together
 */
export async function startMediaOrigin(delayMs = 0): Promise<Origin> {
  return startOrigin((socket, request) => {
    const name = pathOf(request).slice(1).split("?", 1)[0] ?? "";
    setTimeout(async () => {
      const body = await mediaBytes(name).catch(() => null);
      socket.end(body ? answer(body) : answer("no such medium", { status: 404 }));
    }, delayMs);
  });
}
