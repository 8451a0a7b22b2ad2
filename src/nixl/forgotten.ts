/** The net for memory that was never given back: it logs, and gives back only when nobody can still be reading. */
import type { Room } from "./room.ts";

/** A worker may read for as long after the last reference here is gone: five minutes is how long a descriptor is of use. */
const HOLD_MS = 5 * 60_000;

const registry = new FinalizationRegistry<Room>((room) => {
  if (room.disposed) return;
  console.warn(
    `nixl-media: ${room.payloadBytes} bytes of registered memory were forgotten, not disposed; they stay taken for ${HOLD_MS / 1000} s`,
  );
  setTimeout(() => room.dispose(), HOLD_MS).unref();
});

/** Logs when `owner` is collected while its room is still taken, and gives the room back a good while later. */
export function watchForgotten(owner: object, room: Room): void {
  registry.register(owner, room);
}
