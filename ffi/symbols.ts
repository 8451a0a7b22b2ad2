/**
 * The symbol table of shim.c. A `pointer` may be given as a typed array, whose memory is then read or written during
 * the call only. Addresses of native memory are numbers: on Linux they stay below 2^53.
 */
import type { FFIFunction } from "bun:ffi";

const pointer = "ptr";
const status = "i32";

export const SYMBOLS = {
  shim_abi_version: { args: [], returns: "i32" },
  /** What the last failing call attempted; valid until the next failure. */
  shim_last_error: { args: [], returns: "cstring" },
  shim_set_environment: { args: [/* name */ pointer, /* value */ pointer], returns: status },
  shim_free: { args: [/* block */ pointer], returns: "void" },
  shim_open_nixl: { args: [/* path of libnixl_capi.so */ pointer], returns: status },

  agent_create: {
    args: [/* name */ pointer, /* backend */ pointer, /* progress delay, µs */ "u64", /* agent **out */ pointer],
    returns: status,
  },
  agent_destroy: { args: [/* agent */ pointer], returns: status },
  agent_register: {
    args: [/* agent */ pointer, /* address */ "u64", /* bytes */ "u64", /* registration **out */ pointer],
    returns: status,
  },
  agent_deregister: { args: [/* agent */ pointer, /* registration */ pointer], returns: status },
  agent_local_metadata: {
    args: [/* agent */ pointer, /* void **data */ pointer, /* size_t *length */ pointer],
    returns: status,
  },
  agent_load_remote: {
    args: [
      /* agent */ pointer,
      /* metadata */ pointer,
      /* bytes */ "u64",
      /* char *name, written */ pointer,
      /* capacity of name */ "u64",
    ],
    returns: status,
  },
  agent_forget_remote: { args: [/* agent */ pointer, /* name */ pointer], returns: status },
  agent_read: {
    args: [
      /* agent */ pointer,
      /* remote agent's name */ pointer,
      /* local address */ "u64",
      /* remote address */ "u64",
      /* bytes */ "u64",
      /* notification */ pointer,
      /* bytes of notification; 0 for none */ "u64",
      /* transfer **out */ pointer,
    ],
    returns: status,
  },
  transfer_poll: { args: [/* agent */ pointer, /* transfer */ pointer], returns: status },
  transfer_release: { args: [/* agent */ pointer, /* transfer */ pointer], returns: status },
  agent_take_notifications: {
    args: [/* agent */ pointer, /* char **out */ pointer, /* size_t *length */ pointer],
    returns: status,
  },
  agent_send_notification: {
    args: [/* agent */ pointer, /* remote agent's name */ pointer, /* message */ pointer, /* bytes */ "u64"],
    returns: status,
  },

  memory_reserve: { args: [/* bytes */ "u64", /* uint64_t *address */ pointer], returns: status },
  memory_map_file: { args: [/* memfd */ "i32", /* address */ "u64", /* bytes */ "u64"], returns: status },
  memory_map_file_to_read: {
    args: [/* file */ "i32", /* address */ "u64", /* bytes */ "u64"],
    returns: status,
  },
  memory_abandon: { args: [/* address */ "u64", /* bytes */ "u64"], returns: status },
  memory_release: { args: [/* address */ "u64", /* bytes */ "u64"], returns: status },
  file_create: {
    args: [/* name */ pointer, /* bytes */ "u64", /* whether seals follow */ "i32", /* int *fd */ pointer],
    returns: status,
  },
  file_next_data: {
    args: [/* memfd */ "i32", /* offset */ "u64", /* uint64_t *start */ pointer, /* uint64_t *end */ pointer],
    returns: status,
  },
  file_seal_read_only: { args: [/* memfd */ "i32"], returns: status },

  descriptor_duplicate: { args: [/* fd */ "i32", /* int *fd */ pointer], returns: status },
  descriptor_replace: { args: [/* from */ "i32", /* to */ "i32"], returns: status },
  descriptor_close: { args: [/* fd */ "i32"], returns: status },
  descriptor_close_on_exec: { args: [/* fd */ "i32"], returns: status },
  channel_create: { args: [/* int[2], written */ pointer], returns: status },
  channel_send: { args: [/* channel */ "i32", /* fd */ "i32", /* tag */ "u64"], returns: status },
  channel_receive: { args: [/* channel */ "i32", /* int *fd */ pointer, /* uint64_t *tag */ pointer], returns: status },

  process_die_with_parent: { args: [/* expected parent's pid */ "i32"], returns: status },
  process_limit_data: { args: [/* bytes */ "u64"], returns: status },
  process_spawn: {
    args: [
      /* path */ pointer,
      /* arguments, NUL-terminated, one after another */ pointer,
      /* their count */ "i32",
      /* environment, likewise */ pointer,
      /* its count */ "i32",
      /* int[] of descriptors, -1 for the null device */ pointer,
      /* their count */ "i32",
      /* memory limit, bytes; 0 for none */ "u64",
      /* CPU limit, seconds; 0 for none */ "u64",
      /* file size limit, bytes; 0 for none */ "u64",
      /* int *pid */ pointer,
    ],
    returns: status,
  },
  process_wait: {
    args: [/* pid */ "i32", /* milliseconds */ "i32", /* int *exit code */ pointer, /* int *signal */ pointer],
    returns: status,
  },
  process_kill: { args: [/* pid */ "i32"], returns: status },
} as const satisfies Record<string, FFIFunction>;
