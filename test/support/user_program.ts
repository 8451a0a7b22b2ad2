/** A program that uses the loader and then ends in the way that its argument says, with a live descriptor. */
import { MediaLoader } from "../../src/index.ts";
import { mediaPath } from "./media.ts";

const loader = await MediaLoader.create();
const descriptor = await loader.load({ path: mediaPath("rgb.png") });
console.log(JSON.stringify(loader.childPids));
globalThis.addEventListener("never", () => descriptor.dispose());

switch (process.argv[2]) {
  case "uncaught exception":
    setTimeout(() => {
      throw new Error("user code went wrong");
    }, 10);
    break;
  case "unhandled rejection":
    void Promise.reject(new Error("user code went wrong"));
    break;
  case "process.exit":
    process.exit(0);
}
