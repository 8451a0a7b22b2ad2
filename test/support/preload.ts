/** Loaded before every test file: real processes and transfers take longer than the five seconds that are the default. */
import { setDefaultTimeout } from "bun:test";

setDefaultTimeout(60_000);
