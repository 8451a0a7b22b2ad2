export { describeIssues, parseOptions } from "../options.ts";
