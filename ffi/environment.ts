/**
 * The environment variables that are this module's own settings: one table, which also is the documentation, and
 * {@link readEnvironment}, which is how they get their defaults.
 *
 * Others that every program goes by are read where they apply and have no default here: PATH, LD_LIBRARY_PATH, VIRTUAL_ENV,
 * CONDA_PREFIX, PYTHONPATH, HOME and XDG_CACHE_HOME say where native parts are searched, NIXL_PLUGIN_DIR where libnixl looks
 * for its plugins.
 */

interface EnvironmentVariable {
  /** What holds when the variable is unset or empty; null when there is no single value. */
  readonly default: string | null;
  /** One line for the table in the README. */
  readonly meaning: string;
}

/** The settings, by name. A variable that is set to nothing counts as unset. */
export const ENVIRONMENT = {
  NIXL_CAPI_PATH: {
    default: null,
    meaning: "libnixl_capi.so, or the folder that holds it; when set, nothing else is searched",
  },
  FFMPEG_BIN: { default: null, meaning: "the ffmpeg program; when set, nothing else is searched" },
  LIBWEBP_PATH: { default: null, meaning: "libwebp.so.7; when set, nothing else is searched" },
  TURBOJPEG_PATH: { default: null, meaning: "libturbojpeg.so.0; when set, nothing else is searched" },
  NIXL_MEDIA_NATIVE_DIR: {
    default: null,
    meaning:
      "folder where set-up puts the native parts that it fetches (default .native in the package, else nixl-media in the user's cache folder)",
  },
  NIXL_MEDIA_SHIM_PATH: {
    default: null,
    meaning:
      "a native shim that was built ahead; unset, the one that npm run build:shim made, else Bun compiles it at start",
  },
  DYN_MM_NIXL_PROGRESS_DELAY_US: {
    default: "5000",
    meaning:
      "longest pause of the agent's progress thread, which wakes by itself when something arrives, 0 to 1000000 microseconds; 0 spins a whole core",
  },
  DYN_MM_ALLOW_INTERNAL: {
    default: "0",
    meaning: "1: URLs may name addresses and ports, and lead to private networks (the three allow_* options)",
  },
  DYN_MM_MAX_FILE_SIZE_MB: {
    default: "64",
    meaning: "most encoded MiB of a fetched image or sound; of a clip, when it is more than 512",
  },
  DYN_MM_MAX_DATA_URL_MB: { default: "16", meaning: "most MiB that a data URL may hold, decoded" },
  DYN_MM_LOCAL_PATH: { default: null, meaning: "folder below which file: URLs are read; unset, none are" },
  DYN_MM_TRUST_EGRESS_PROXY: {
    default: "0",
    meaning: "1: a configured HTTP proxy is used and trusted to check addresses; without it, it is refused",
  },
  DYN_MULTIMODAL_LOADER_CACHE_GB: {
    default: "0",
    meaning:
      "GiB of decoded media that a loader keeps for the next one who wants them, fractions too; 0 or no number: none",
  },
  NIXL_LOG_LEVEL: { default: "FATAL", meaning: "libnixl's log level" },
  UCX_LOG_LEVEL: { default: "fatal", meaning: "UCX's log level" },
  UCX_DEBUG_SIGNO: {
    default: "0",
    meaning: "signal by which UCX starts to log debug messages; UCX itself would take SIGHUP away from the program",
  },
  UCX_HANDLE_ERRORS: { default: "none", meaning: "what UCX does on fatal signals, which Bun handles itself" },
} as const satisfies Record<string, EnvironmentVariable>;

/** One of the names in {@link ENVIRONMENT}. */
export type EnvironmentName = keyof typeof ENVIRONMENT;

/** What `process.env` is: values by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The variable's value, else its default; null when it is unset or empty and has none. */
export function readEnvironment(name: EnvironmentName, environment: Environment = process.env): string | null {
  return environment[name] || ENVIRONMENT[name].default;
}
