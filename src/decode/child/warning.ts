/** Warnings out of a decoder child: its stderr is only looked at when it dies. */
import type { ChildMessage } from "../protocol.ts";

/** Tells the parent something that its owner should know. Outside of a decoder child it goes to stderr. */
export function warn(message: string): void {
  const warning: ChildMessage = { type: "warning", message: message.slice(0, 500) };
  if (process.send) process.send(warning);
  else console.warn(`nixl-media: ${warning.message}`);
}
