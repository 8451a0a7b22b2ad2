/** Servers on real sockets that answer what the test says, byte by byte, and count who comes. */
import net, { type AddressInfo, type Socket } from "node:net";
import tls from "node:tls";

/** The policy of a developer's own machine, where all tests run that need no public address. */
export const INSIDE = { allow_direct_ip: true, allow_direct_port: true, allow_private_ips: true } as const;

export interface Origin extends Disposable {
  readonly port: number;
  /** `http://127.0.0.1:PORT/path` (or https). */
  url(path?: string): string;
  /** How many connections there were. */
  readonly connections: number;
  /** How many are open now. */
  readonly open: number;
  /** Request lines and headers, in the order in which they came. */
  readonly requests: readonly string[];
}

export interface OriginOptions {
  readonly host?: string;
  readonly port?: number;
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** Starts a server; `answer` is called once the header of a request is there, for each connection. */
export async function startOrigin(
  answer: (socket: Socket, request: string) => void,
  options: OriginOptions = {},
): Promise<Origin> {
  const host = options.host ?? "127.0.0.1";
  const sockets = new Set<Socket>();
  const requests: string[] = [];
  let connections = 0;
  const serve = (socket: Socket): void => {
    let header = "";
    socket.on("error", () => {}); // fetches break off
    socket.on("data", (chunk) => {
      if (header.includes("\r\n\r\n")) return;
      header += chunk.toString("latin1");
      if (!header.includes("\r\n\r\n")) return;
      requests.push(header);
      answer(socket, header);
    });
  };
  const server = options.tls ? tls.createServer(options.tls, serve) : net.createServer(serve);
  server.on("tlsClientError", () => {});
  server.on("connection", (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, host, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: (path = "/") => `${options.tls ? "https" : "http"}://${host}:${port}${path}`,
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    requests,
    [Symbol.dispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** An answer as it goes over the wire. Its length is announced unless `headers` say otherwise; null leaves a field out. */
export function answer(
  body: string | Uint8Array = "",
  options: { status?: number; headers?: Record<string, string | number | null> } = {},
): Buffer {
  const bytes = Buffer.from(body as string);
  const fields = { "content-length": bytes.byteLength, ...options.headers };
  const lines = Object.entries(fields).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}\r\n`]));
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 ${options.status ?? 200} Word\r\n${lines.join("")}\r\n`, "latin1"),
    bytes,
  ]);
}

/** An answer that redirects. */
export function redirect(location: string, status = 302): Buffer {
  return answer("", { status, headers: { location } });
}

/** A server that gives every request the same answer and closes. */
export function startFixedOrigin(bytes: Uint8Array, options: OriginOptions = {}): Promise<Origin> {
  return startOrigin((socket) => socket.end(bytes), options);
}

/** Sends `chunk` over and over, as fast as the other side takes it, until the connection ends. */
export function sendEndlessly(socket: Socket, chunk: Uint8Array): void {
  const more = (): void => {
    while (!socket.destroyed) {
      if (socket.write(chunk)) continue;
      socket.once("drain", more);
      return;
    }
  };
  more();
}
