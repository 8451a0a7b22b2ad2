/** From a source to an encoded medium, under a policy: {@link MediaFetcher} is the one way in. */
export { isDataUrl } from "./data_url.ts";
export { fetchPolicyFromEnv } from "./environment.ts";
export { shownPath } from "./local_file.ts";
export { MediaFetcher } from "./media_fetcher.ts";
export type {
  FetchedMedium,
  FetchRequest,
  HttpAnswer,
  HttpFacts,
  MediaKind,
  MediaSource,
  NotModified,
} from "./medium.ts";
export { type FetchPolicy, type FetchPolicyOptions, fetchPolicySchema } from "./policy.ts";
export { MOST_URL_CHARACTERS } from "./url_policy.ts";
