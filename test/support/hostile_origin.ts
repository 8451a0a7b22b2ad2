/**
 * Origins that mean no good, in a process of their own, so that what they take is not measured: prints `{"port"}` and ends with its
 * stdin.
 *
 * /endless: chunks without end. /gzip: packed zeros without end. /redirect: to /endless. /lying: more than it says. /silent: nothing
 * after its header. /slow: a byte now and then. /picture: a picture.
 */
import type { Socket } from "node:net";
import zlib from "node:zlib";
import { mediaBytes } from "./media.ts";
import { pathOf } from "./media_origin.ts";
import { answer, redirect, sendEndlessly, startOrigin } from "./origin.ts";

const CHUNK = `10000\r\n${"x".repeat(0x10000)}\r\n`;
const CHUNKED = { "transfer-encoding": "chunked", "content-length": null };
const picture = await mediaBytes("odd.jpg");
const bomb = zlib.gzipSync(new Uint8Array(64 * 2 ** 20));

const BEHAVIOURS: Record<string, (socket: Socket) => void> = {
  "/endless": (socket) => {
    socket.write(answer("", { headers: CHUNKED }));
    sendEndlessly(socket, Buffer.from(CHUNK));
  },
  "/gzip": (socket) => socket.end(answer(bomb, { headers: { "content-encoding": "gzip" } })),
  "/redirect": (socket) => socket.end(redirect("/endless")),
  "/lying": (socket) => {
    socket.write(answer("", { headers: { "content-length": 2 ** 30 } }));
    sendEndlessly(socket, Buffer.from(CHUNK));
  },
  "/silent": (socket) => socket.write("HTTP/1.1 200 OK\r\n"),
  "/slow": (socket) => {
    socket.write(answer("", { headers: { "content-length": 100_000 } }));
    const timer = setInterval(() => socket.write("x"), 5);
    socket.on("close", () => clearInterval(timer));
  },
  "/picture": (socket) => socket.end(answer(picture)),
};

using origin = await startOrigin((socket, request) => {
  const path = pathOf(request).split("?", 1)[0] ?? "";
  (BEHAVIOURS[path] ?? BEHAVIOURS["/picture"])?.(socket);
});
console.log(JSON.stringify({ port: origin.port }));
for await (const _ of Bun.stdin.stream()) {
  // only its end matters
}
