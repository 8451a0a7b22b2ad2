import type { DecodeContext, DecodeRoom } from "../../src/decode/contract.ts";
import { MediaError } from "../../src/errors.ts";

const PAGE = 4096;

/** A decode context whose rooms are ordinary memory, each with a page of its own for the hash header. */
export function roomContext(): { context: DecodeContext; rooms: DecodeRoom[] } {
  const rooms: DecodeRoom[] = [];
  const context: DecodeContext = {
    ffmpegPath: null,
    turboJpegPath: null,
    webpPath: null,
    threads: 1,
    async room(payloadLength, headerLength = PAGE) {
      const start = Math.ceil(headerLength / PAGE) * PAGE;
      // Filled with a pattern, so that bytes which a decoder forgets to write do not look like black.
      const memory = new Uint8Array(start + payloadLength).fill(0xa5);
      const room: DecodeRoom = {
        payload: memory.subarray(start),
        hashMs: 0,
        header: memory.subarray(0, start),
        span: (header, payload) => memory.subarray(start - header, start + payload),
      };
      rooms.push(room);
      return room;
    },
  };
  return { context, rooms };
}

/** A decode context of a pool that is full. */
export const fullContext: DecodeContext = {
  ffmpegPath: null,
  turboJpegPath: null,
  webpPath: null,
  threads: 1,
  room: () => Promise.reject(new MediaError("no_room", "The pool has no room now")),
};
