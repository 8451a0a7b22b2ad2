/** A decoder child that says that it is ready and has closed the channel on which slabs are handed over. */
import { closeSync } from "node:fs";
import { CHANNEL_DESCRIPTOR, type ParentMessage } from "../../src/decode/protocol.ts";

process.on("message", (message: ParentMessage) => {
  if (message.type !== "start") return;
  closeSync(CHANNEL_DESCRIPTOR);
  process.send?.({ type: "ready" });
});
process.on("disconnect", () => process.exit(0));
