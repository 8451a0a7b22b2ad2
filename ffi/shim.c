/*
 * The native boundary: plain calls over libnixl's C ABI, and the few Linux calls that Bun does not offer (memfd, fixed
 * mappings, descriptor passing, processes that die with their parent).
 *
 * Header-free on purpose: Bun's built-in TinyCC compiles this file at start-up on machines that have neither a compiler
 * nor headers. All declarations are for LP64 Linux (x86-64 and AArch64), where size_t and uint64_t are unsigned long.
 *
 * Every function returns a status: 0 done, 1 in progress, -1..-6 libnixl's own statuses, -100 library not open or a
 * symbol missing, -1000-errno a refused system call. After a failure shim_last_error() says what was attempted.
 * Ownership: whatever a function hands out through a `**out` has exactly one counterpart that frees it, named beside it.
 * One thread at a time may call in here.
 */

typedef unsigned long size_t;
typedef unsigned long uint64_t;
typedef long ssize_t;
typedef unsigned int uint32_t;

#define NULL ((void *)0)
#define SHIM_ABI_VERSION 5
#define STATUS_NOT_OPEN (-100)
#define STATUS_SYSTEM (-1000)

/* ---- libc, declared here because there are no headers ---- */
extern void *dlopen(const char *path, int flags);
extern void *dlsym(void *library, const char *name);
extern char *dlerror(void);
extern void *malloc(size_t size);
extern void *calloc(size_t count, size_t size);
extern void *realloc(void *block, size_t size);
extern void free(void *block);
extern void *memcpy(void *to, const void *from, size_t size);
extern size_t strlen(const char *text);
extern int snprintf(char *to, size_t capacity, const char *format, ...);
extern int setenv(const char *name, const char *value, int overwrite);
extern int *__errno_location(void);
extern void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset);
extern int munmap(void *address, size_t length);
extern int ftruncate(int fd, long length);
extern long lseek(int fd, long offset, int whence);
extern int fcntl(int fd, int command, ...);
extern int dup2(int from, int to);
extern int close(int fd);
extern int open(const char *path, int flags, ...);
extern int pipe2(int fds[2], int flags);
extern ssize_t read(int fd, void *to, size_t size);
extern ssize_t write(int fd, const void *from, size_t size);
extern long syscall(long number, ...);
extern int prctl(int option, ...);
extern int getppid(void);
extern int getpid(void);
extern int vfork(void);
extern int execve(const char *path, char *const argv[], char *const envp[]);
extern void _exit(int code);
extern int kill(int pid, int signal);
extern int waitpid(int pid, int *status, int options);
extern int setrlimit(int resource, const void *limit);
extern int sigprocmask(int how, const void *set, void *old);
extern void *signal(int number, void *handler);
extern int socketpair(int domain, int type, int protocol, int fds[2]);
extern ssize_t sendmsg(int fd, const void *message, int flags);
extern ssize_t recvmsg(int fd, void *message, int flags);
struct poll_entry { int fd; short events; short happened; };
extern int poll(struct poll_entry *entries, unsigned long count, int milliseconds);

/* Linux constants (uapi), the same on x86-64 and AArch64. */
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_READ_WRITE 3
#define MAP_SHARED 1
#define MAP_PRIVATE 2
#define MAP_FIXED 0x10
#define MAP_ANONYMOUS 0x20
#define MAP_NORESERVE 0x4000
#define MFD_CLOEXEC 1
#define MFD_ALLOW_SEALING 2
#define F_DUPFD 0
#define F_GETFD 1
#define F_SETFD 2
#define FD_CLOEXEC 1
#define F_DUPFD_CLOEXEC 1030
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#define F_SEAL_FUTURE_WRITE 16
#define O_RDWR 2
#define SEEK_DATA 3
#define SEEK_HOLE 4
#define O_CLOEXEC 02000000
#define SYS_PIDFD_OPEN 434
#define SYS_CLOSE_RANGE 436
#if defined(__aarch64__)
#define SYS_MEMFD_CREATE 279
#else
#define SYS_MEMFD_CREATE 319
#endif
#define PR_SET_PDEATHSIG 1
#define PR_SET_NO_NEW_PRIVS 38
#define RLIMIT_CPU 0
#define RLIMIT_FSIZE 1
#define RLIMIT_DATA 2
#define RLIMIT_CORE 4
#define RLIMIT_AS 9
#define SIGKILL 9
#define SIGXFSZ 25
#define LAST_SIGNAL 64
#define SIG_IGN ((void *)1)
#define SIG_SETMASK 2
#define WNOHANG 1
#define EINTR 4
#define ENXIO 6
#define ENOSYS 38

static char last_error[512] = "";

/* Keeps what was attempted; returns the status, so that a failing call can end in `return failed(...)`. */
static int failed(const char *attempted, const char *detail, int status) {
  snprintf(last_error, sizeof last_error, "%s%s%s", attempted, detail ? ": " : "", detail ? detail : "");
  return status;
}

static int failed_system(const char *attempted) {
  int number = *__errno_location();
  return failed(attempted, NULL, STATUS_SYSTEM - number);
}

int shim_abi_version(void) { return SHIM_ABI_VERSION; }
const char *shim_last_error(void) { return last_error; }

/* process.env writes do not reach native getenv: libnixl and UCX read their settings from here. */
int shim_set_environment(const char *name, const char *value) {
  return setenv(name, value, 1) ? failed_system("setenv") : 0;
}

/* Frees bytes that agent_local_metadata or agent_take_notifications handed out. */
void shim_free(void *block) { free(block); }

/* ---- libnixl ---- */
typedef struct {
  _Bool enable_prog_thread;
  _Bool enable_listen_thread;
  int listen_port;
  int thread_sync; /* 0 none, 1 strict, 2 read-write */
  unsigned int num_workers;
  uint64_t pthr_delay_us;
  uint64_t lthr_delay_us;
  _Bool capture_telemetry;
} agent_config;

static struct {
  int (*create_configured_agent)(const char *, const agent_config *, void **);
  int (*destroy_agent)(void *);
  int (*get_local_md)(void *, void **, size_t *);
  int (*load_remote_md)(void *, const void *, size_t, char **);
  int (*invalidate_remote_md)(void *, const char *);
  int (*get_plugin_params)(void *, const char *, void **, void **);
  int (*destroy_mem_list)(void *);
  int (*destroy_params)(void *);
  int (*create_backend)(void *, const char *, void *, void **);
  int (*destroy_backend)(void *);
  int (*create_opt_args)(void **);
  int (*destroy_opt_args)(void *);
  int (*opt_args_add_backend)(void *, void *);
  int (*opt_args_set_notif_msg)(void *, const void *, size_t);
  int (*opt_args_set_has_notif)(void *, _Bool);
  int (*create_reg_dlist)(int, void **);
  int (*destroy_reg_dlist)(void *);
  int (*reg_dlist_add_desc)(void *, uint64_t, size_t, uint64_t, const void *, size_t);
  int (*register_mem)(void *, void *, void *);
  int (*deregister_mem)(void *, void *, void *);
  int (*create_xfer_dlist)(int, void **);
  int (*destroy_xfer_dlist)(void *);
  int (*xfer_dlist_add_desc)(void *, uint64_t, size_t, uint64_t);
  int (*create_xfer_req)(void *, int, void *, void *, const char *, void **, void *);
  int (*post_xfer_req)(void *, void *, void *);
  int (*get_xfer_status)(void *, void *);
  int (*release_xfer_req)(void *, void *);
  int (*destroy_xfer_req)(void *);
  int (*get_notifs)(void *, void *, void *);
  int (*create_notif_map)(void **);
  int (*destroy_notif_map)(void *);
  int (*notif_map_size)(void *, size_t *);
  int (*notif_map_get_agent_at)(void *, size_t, const char **);
  int (*notif_map_get_notifs_size)(void *, const char *, size_t *);
  int (*notif_map_get_notif)(void *, const char *, size_t, const void **, size_t *);
  int (*gen_notif)(void *, const char *, const void *, size_t, void *);
} nixl;

/* In the order of the members above. */
static const char *const nixl_names[] = {
    "create_configured_agent", "destroy_agent", "get_local_md", "load_remote_md", "invalidate_remote_md",
    "get_plugin_params", "destroy_mem_list", "destroy_params", "create_backend", "destroy_backend", "create_opt_args",
    "destroy_opt_args", "opt_args_add_backend", "opt_args_set_notif_msg", "opt_args_set_has_notif", "create_reg_dlist",
    "destroy_reg_dlist", "reg_dlist_add_desc", "register_mem", "deregister_mem", "create_xfer_dlist",
    "destroy_xfer_dlist", "xfer_dlist_add_desc", "create_xfer_req", "post_xfer_req", "get_xfer_status",
    "release_xfer_req", "destroy_xfer_req", "get_notifs", "create_notif_map", "destroy_notif_map", "notif_map_size",
    "notif_map_get_agent_at", "notif_map_get_notifs_size", "notif_map_get_notif", "gen_notif"};

static void *library = NULL;

/*
 * libnixl allocates with libc's malloc, but inside Bun the name `free` means Bun's own allocator, which must not be given
 * foreign blocks. Hence libc's free, looked up by hand, for what libnixl hands out.
 */
static void (*libc_free)(void *) = NULL;

typedef struct {
  void *handle;
  void *backend;
  void *opt_args; /* names the backend, for registrations */
} agent;

typedef struct {
  void *descriptors;
} registration;

typedef struct {
  void *local;
  void *remote;
  void *opt_args;
  void *request;
} transfer;

#define DRAM 0
#define OPERATION_READ 0

/* Opens libnixl_capi.so once; a second call is a no-op. The library stays open until the process ends. */
int shim_open_nixl(const char *path) {
  if (library) return 0;
  void *opened = dlopen(path, 2 /* RTLD_NOW */);
  if (!opened) return failed("dlopen", dlerror(), STATUS_NOT_OPEN);
  void *libc = dlopen("libc.so.6", 2);
  libc_free = libc ? dlsym(libc, "free") : NULL;
  if (!libc_free) return failed("dlsym", "free of libc.so.6", STATUS_NOT_OPEN);
  void **slot = (void **)&nixl;
  for (size_t i = 0; i < sizeof nixl_names / sizeof *nixl_names; i++) {
    char name[80];
    snprintf(name, sizeof name, "nixl_capi_%s", nixl_names[i]);
    slot[i] = dlsym(opened, name);
    if (!slot[i]) return failed("dlsym", name, STATUS_NOT_OPEN);
  }
  library = opened;
  return 0;
}

/* Teardown order: backend, agent. Remotes, transfers and registrations are the caller's to end before. */
int agent_destroy(agent *a) {
  int status = 0, s;
  if (a->opt_args) nixl.destroy_opt_args(a->opt_args);
  if (a->backend && (s = nixl.destroy_backend(a->backend))) status = failed("destroy_backend", NULL, s);
  if (a->handle && (s = nixl.destroy_agent(a->handle))) status = failed("destroy_agent", NULL, s);
  free(a);
  return status;
}

/* An agent with a progress thread and one backend. Freed by agent_destroy. */
int agent_create(const char *name, const char *backend, uint64_t progress_delay_us, agent **out) {
  int status;
  void *params = NULL, *memory_types = NULL;
  const char *attempted;
  if (!library) return failed("agent_create", "libnixl is not open", STATUS_NOT_OPEN);
  agent *a = calloc(1, sizeof *a);
  if (!a) return failed_system("calloc");
  agent_config config;
  config.enable_prog_thread = 1;
  config.enable_listen_thread = 0;
  config.listen_port = 0;
  config.thread_sync = 1;
  config.num_workers = 1;
  config.pthr_delay_us = progress_delay_us;
  config.lthr_delay_us = 0;
  config.capture_telemetry = 0;
  attempted = "create_configured_agent";
  if ((status = nixl.create_configured_agent(name, &config, &a->handle))) goto fail;
  attempted = "get_plugin_params";
  if ((status = nixl.get_plugin_params(a->handle, backend, &memory_types, &params))) goto fail;
  attempted = "create_backend";
  if ((status = nixl.create_backend(a->handle, backend, params, &a->backend))) goto fail;
  attempted = "create_opt_args";
  if ((status = nixl.create_opt_args(&a->opt_args))) goto fail;
  attempted = "opt_args_add_backend";
  if ((status = nixl.opt_args_add_backend(a->opt_args, a->backend))) goto fail;
  nixl.destroy_mem_list(memory_types);
  nixl.destroy_params(params);
  *out = a;
  return 0;
fail:
  if (memory_types) nixl.destroy_mem_list(memory_types);
  if (params) nixl.destroy_params(params);
  agent_destroy(a);
  return failed(attempted, backend, status);
}

/* Registers host memory. Freed by agent_deregister. Nothing is kept when it fails. */
int agent_register(agent *a, uint64_t address, uint64_t length, registration **out) {
  int status;
  registration *r = calloc(1, sizeof *r);
  if (!r) return failed_system("calloc");
  const char *attempted = "create_reg_dlist";
  if ((status = nixl.create_reg_dlist(DRAM, &r->descriptors))) goto fail;
  attempted = "reg_dlist_add_desc";
  if ((status = nixl.reg_dlist_add_desc(r->descriptors, address, length, 0, NULL, 0))) goto fail;
  attempted = "register_mem";
  if ((status = nixl.register_mem(a->handle, r->descriptors, a->opt_args))) goto fail;
  *out = r;
  return 0;
fail:
  if (r->descriptors) nixl.destroy_reg_dlist(r->descriptors);
  free(r);
  return failed(attempted, NULL, status);
}

/* On failure the registration is kept (leaked on purpose): the transport may still reach the memory. */
int agent_deregister(agent *a, registration *r) {
  int status = nixl.deregister_mem(a->handle, r->descriptors, a->opt_args);
  if (status) return failed("deregister_mem", NULL, status);
  nixl.destroy_reg_dlist(r->descriptors);
  free(r);
  return 0;
}

/* The agent's metadata blob. Freed by shim_free. An empty blob with a success status is a failure. */
int agent_local_metadata(agent *a, void **data, size_t *length) {
  void *given = NULL;
  size_t given_length = 0;
  int status = nixl.get_local_md(a->handle, &given, &given_length);
  if (status) return failed("get_local_md", NULL, status);
  if (!given || !given_length) {
    libc_free(given);
    return failed("get_local_md", "empty metadata", -4);
  }
  void *copy = malloc(given_length);
  if (copy) memcpy(copy, given, given_length);
  libc_free(given);
  if (!copy) return failed_system("malloc");
  *data = copy;
  *length = given_length;
  return 0;
}

/* Takes in another agent's metadata and writes that agent's name, NUL-terminated, to `name`. */
int agent_load_remote(agent *a, const void *data, size_t length, char *name, size_t capacity) {
  char *given = NULL;
  int status = nixl.load_remote_md(a->handle, data, length, &given);
  if (status) return failed("load_remote_md", NULL, status);
  if (!given || strlen(given) + 1 > capacity) {
    libc_free(given);
    return failed("load_remote_md", "agent name missing or too long", -4);
  }
  memcpy(name, given, strlen(given) + 1);
  libc_free(given);
  return 0;
}

int agent_forget_remote(agent *a, const char *name) {
  int status = nixl.invalidate_remote_md(a->handle, name);
  return status ? failed("invalidate_remote_md", NULL, status) : 0;
}

/* Ends a transfer in whatever state it is; the counterpart of agent_read. */
int transfer_release(agent *a, transfer *t) {
  int status = 0;
  if (t->request) {
    status = nixl.release_xfer_req(a->handle, t->request);
    nixl.destroy_xfer_req(t->request);
  }
  if (t->opt_args) nixl.destroy_opt_args(t->opt_args);
  if (t->local) nixl.destroy_xfer_dlist(t->local);
  if (t->remote) nixl.destroy_xfer_dlist(t->remote);
  free(t);
  return status ? failed("release_xfer_req", NULL, status) : 0;
}

/*
 * Posts a read of `length` bytes from a remote agent's registered memory into ours (registered too) and leaves a
 * notification there when it is done. Returns 0 (done) or 1 (in progress) with *out set; freed by transfer_release.
 */
int agent_read(agent *a, const char *remote, uint64_t local_address, uint64_t remote_address, uint64_t length,
               const void *notification, size_t notification_length, transfer **out) {
  int status;
  transfer *t = calloc(1, sizeof *t);
  if (!t) return failed_system("calloc");
  const char *attempted = "create_xfer_dlist";
  if ((status = nixl.create_xfer_dlist(DRAM, &t->local))) goto fail;
  if ((status = nixl.create_xfer_dlist(DRAM, &t->remote))) goto fail;
  attempted = "xfer_dlist_add_desc";
  if ((status = nixl.xfer_dlist_add_desc(t->local, local_address, length, 0))) goto fail;
  if ((status = nixl.xfer_dlist_add_desc(t->remote, remote_address, length, 0))) goto fail;
  attempted = "create_opt_args";
  if ((status = nixl.create_opt_args(&t->opt_args))) goto fail;
  if (notification_length) {
    attempted = "opt_args_set_notif_msg";
    if ((status = nixl.opt_args_set_notif_msg(t->opt_args, notification, notification_length))) goto fail;
    if ((status = nixl.opt_args_set_has_notif(t->opt_args, 1))) goto fail;
  }
  attempted = "create_xfer_req";
  if ((status = nixl.create_xfer_req(a->handle, OPERATION_READ, t->local, t->remote, remote, &t->request, t->opt_args)))
    goto fail;
  attempted = "post_xfer_req";
  status = nixl.post_xfer_req(a->handle, t->request, t->opt_args);
  if (status != 0 && status != 1) goto fail;
  *out = t;
  return status;
fail:
  transfer_release(a, t);
  return failed(attempted, NULL, status);
}

/* 0 done, 1 in progress. */
int transfer_poll(agent *a, transfer *t) {
  int status = nixl.get_xfer_status(a->handle, t->request);
  return status == 0 || status == 1 ? status : failed("get_xfer_status", NULL, status);
}

static int append(char **buffer, size_t *used, size_t *capacity, const void *bytes, size_t length) {
  if (*used + length + 4 > *capacity) {
    size_t wanted = (*capacity + length + 4) * 2;
    char *grown = realloc(*buffer, wanted);
    if (!grown) return -1;
    *buffer = grown;
    *capacity = wanted;
  }
  uint32_t short_length = (uint32_t)length;
  memcpy(*buffer + *used, &short_length, 4);
  memcpy(*buffer + *used + 4, bytes, length);
  *used += length + 4;
  return 0;
}

/*
 * Takes all notifications that have arrived, as one buffer of (u32 length, bytes) pairs: the sender's agent name, then
 * its message. *out is NULL when there are none; else freed by shim_free.
 */
int agent_take_notifications(agent *a, char **out, size_t *out_length) {
  void *map = NULL;
  char *buffer = NULL;
  size_t used = 0, capacity = 0, agents = 0, count, i, j, length;
  const char *name, *attempted = "create_notif_map";
  const void *message;
  int status = nixl.create_notif_map(&map);
  if (status) return failed(attempted, NULL, status);
  attempted = "get_notifs";
  if ((status = nixl.get_notifs(a->handle, map, NULL))) goto end;
  attempted = "notif_map";
  if ((status = nixl.notif_map_size(map, &agents))) goto end;
  for (i = 0; i < agents; i++) {
    if ((status = nixl.notif_map_get_agent_at(map, i, &name))) goto end;
    if ((status = nixl.notif_map_get_notifs_size(map, name, &count))) goto end;
    for (j = 0; j < count; j++) {
      if ((status = nixl.notif_map_get_notif(map, name, j, &message, &length))) goto end;
      if (append(&buffer, &used, &capacity, name, strlen(name)) || append(&buffer, &used, &capacity, message, length)) {
        status = STATUS_SYSTEM - *__errno_location();
        goto end;
      }
    }
  }
end:
  nixl.destroy_notif_map(map);
  if (status) {
    free(buffer);
    return failed(attempted, NULL, status);
  }
  *out = buffer;
  *out_length = used;
  return 0;
}

int agent_send_notification(agent *a, const char *remote, const void *message, size_t length) {
  int status = nixl.gen_notif(a->handle, remote, message, length, NULL);
  return status ? failed("gen_notif", NULL, status) : 0;
}

/* ---- memory ---- */

/* Address space without memory behind it; returned by memory_release. */
int memory_reserve(uint64_t length, uint64_t *address) {
  void *got = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == (void *)-1) return failed_system("mmap (reserve)");
  *address = (uint64_t)got;
  return 0;
}

/* Maps a memfd over reserved address space, readable and writable, shared. Undone by memory_abandon or memory_release. */
int memory_map_file(int fd, uint64_t address, uint64_t length) {
  void *got = mmap((void *)address, length, PROT_READ_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  return got == (void *)-1 ? failed_system("mmap (memfd)") : 0;
}

/*
 * The first stretch of a memfd, from `offset` on, that has pages: *start and *end, bytes; both the file's end when there is none.
 * Moves the open file's position.
 */
int file_next_data(int fd, uint64_t offset, uint64_t *start, uint64_t *end) {
  long data = lseek(fd, (long)offset, SEEK_DATA);
  if (data < 0 && *__errno_location() == ENXIO) {
    *start = *end = (uint64_t)lseek(fd, 0, 2 /* SEEK_END */);
    return 0;
  }
  long hole = data < 0 ? data : lseek(fd, data, SEEK_HOLE);
  if (hole < 0) return failed_system("lseek (memfd)");
  *start = (uint64_t)data;
  *end = (uint64_t)hole;
  return 0;
}

/* As memory_map_file, for a file that is only read; touching what is cut off from it meanwhile ends the process. */
int memory_map_file_to_read(int fd, uint64_t address, uint64_t length) {
  void *got = mmap((void *)address, length, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  return got == (void *)-1 ? failed_system("mmap (file)") : 0;
}

/*
 * Gives the memory back but keeps the addresses: they read as zeros from now on, so that a view somebody still holds is
 * harmless and nothing else is ever mapped (and registered) there.
 */
int memory_abandon(uint64_t address, uint64_t length) {
  void *got = mmap((void *)address, length, PROT_READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return got == (void *)-1 ? failed_system("mmap (abandon)") : 0;
}

/* Gives address space back. Only for addresses that no agent ever registered and no view refers to. */
int memory_release(uint64_t address, uint64_t length) {
  return munmap((void *)address, length) ? failed_system("munmap") : 0;
}

/*
 * A memfd of exactly `length` bytes, close-on-exec, sealed against growing and shrinking, and against further seals unless
 * they are to come (whoever else has it could otherwise seal it against us). Closed by the caller.
 */
int file_create(const char *name, uint64_t length, int seals_follow, int *out) {
  int fd = (int)syscall(SYS_MEMFD_CREATE, name, (long)(MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return failed_system("memfd_create");
  if (ftruncate(fd, (long)length) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | (seals_follow ? 0 : F_SEAL_SEAL))) {
    int status = failed_system("memfd size and seals");
    close(fd);
    return status;
  }
  *out = fd;
  return 0;
}

/* No write to the memfd from now on, save through mappings that exist already; and no further seals. */
int file_seal_read_only(int fd) {
  return fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) ? failed_system("memfd seal") : 0;
}

/* ---- descriptors ---- */

/* A second descriptor of the same file, close-on-exec. */
int descriptor_duplicate(int fd, int *out) {
  int got = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (got < 0) return failed_system("fcntl (duplicate)");
  *out = got;
  return 0;
}

/* Makes `to` refer to what `from` refers to. */
int descriptor_replace(int from, int to) { return dup2(from, to) < 0 ? failed_system("dup2") : 0; }

int descriptor_close(int fd) { return close(fd) ? failed_system("close") : 0; }

int descriptor_close_on_exec(int fd) { return fcntl(fd, F_SETFD, FD_CLOEXEC) ? failed_system("fcntl") : 0; }

/* A connected pair of sockets over which descriptors travel. Both are closed by the caller. */
int channel_create(int *pair) {
  int fds[2];
  if (socketpair(1 /* AF_UNIX */, 5 | 02000000 /* SOCK_SEQPACKET, close-on-exec */, 0, fds)) return failed_system("socketpair");
  pair[0] = fds[0];
  pair[1] = fds[1];
  return 0;
}

struct io_vector { void *base; size_t length; };
struct message_header {
  void *name;
  uint32_t name_length;
  struct io_vector *vectors;
  size_t vector_count;
  void *control;
  size_t control_length;
  int flags;
};
/* A control message that carries one descriptor (cmsghdr followed by an int, padded to 8). */
struct descriptor_control {
  size_t length;
  int level;
  int type;
  int fd;
  int padding;
};
#define DESCRIPTOR_CONTROL_LENGTH 20
#define SOL_SOCKET 1
#define SCM_RIGHTS 1
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000
#define MSG_CMSG_CLOEXEC 0x40000000

/* Sends one descriptor with a tag to the other end of a channel. Fails rather than waits when that end takes nothing. */
int channel_send(int channel, int fd, uint64_t tag) {
  struct io_vector vector = {&tag, sizeof tag};
  struct descriptor_control control = {DESCRIPTOR_CONTROL_LENGTH, SOL_SOCKET, SCM_RIGHTS, fd, 0};
  struct message_header message = {NULL, 0, &vector, 1, &control, sizeof control, 0};
  return sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? failed_system("sendmsg (descriptor)") : 0;
}

/* Receives one descriptor and its tag, waiting for it. */
int channel_receive(int channel, int *fd, uint64_t *tag) {
  struct io_vector vector = {tag, sizeof *tag};
  struct descriptor_control control = {0, 0, 0, -1, 0};
  struct message_header message = {NULL, 0, &vector, 1, &control, sizeof control, 0};
  ssize_t got;
  do got = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && *__errno_location() == EINTR);
  if (got < 0) return failed_system("recvmsg (descriptor)");
  if (got != sizeof *tag || control.level != SOL_SOCKET || control.type != SCM_RIGHTS)
    return failed("recvmsg (descriptor)", "no descriptor came", STATUS_SYSTEM);
  *fd = control.fd;
  return 0;
}

/* ---- processes ---- */

/* This process is killed when the thread that started it ends. Fails when the parent is gone already. */
int process_die_with_parent(int expected_parent) {
  if (prctl(PR_SET_PDEATHSIG, (long)SIGKILL)) return failed_system("prctl");
  return getppid() == expected_parent ? 0 : failed("process_die_with_parent", "the parent is gone", STATUS_SYSTEM);
}

/* The most private writable memory that this process may have, bytes, what it has included. */
int process_limit_data(uint64_t bytes) {
  uint64_t pair[2];
  pair[0] = bytes;
  pair[1] = bytes;
  return setrlimit(RLIMIT_DATA, pair) ? failed_system("setrlimit") : 0;
}

static void limit(int resource, uint64_t value) {
  uint64_t pair[2];
  pair[0] = value;
  pair[1] = value + (resource == RLIMIT_CPU); /* SIGXCPU at the soft limit; at the hard one, or when equal, SIGKILL */
  if (value) setrlimit(resource, pair);
}

struct spawn_request {
  const char *path;
  char **argv;
  char **envp;
  const int *descriptors; /* descriptors[i] becomes i; -1 is /dev/null */
  int descriptor_count;
  uint64_t memory_limit;
  uint64_t cpu_seconds;
  uint64_t file_size_limit;
  int parent;
  int report; /* close-on-exec pipe that carries errno when exec fails */
};

/*
 * Runs between vfork and exec, in the parent's memory and with all signals blocked: async-signal-safe calls only, and no handler of
 * the parent's may run here. Descriptors move up first, so that none overwrites another.
 */
__attribute__((noinline, noreturn)) static void become(const struct spawn_request *request) {
  int moved[16], i, base = 17; /* above all places that are filled, below any limit on descriptors */
  uint64_t no_signals[16] = {0};
  prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
  if (getppid() != request->parent) _exit(127);
  prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L);
  int null_device = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (i = 0; i < request->descriptor_count; i++)
    moved[i] = fcntl(request->descriptors[i] < 0 ? null_device : request->descriptors[i], F_DUPFD_CLOEXEC, base);
  int report = fcntl(request->report, F_DUPFD_CLOEXEC, base);
  for (i = 0; i < request->descriptor_count; i++)
    if (moved[i] < 0 || dup2(moved[i], i) < 0) goto fail;
  dup2(report, request->descriptor_count);
  report = request->descriptor_count;
  fcntl(report, F_SETFD, FD_CLOEXEC);
  if (syscall(SYS_CLOSE_RANGE, (long)report + 1, 0xffffffffL, 0L))
    for (i = report + 1; i < 65536; i++) close(i);
  limit(RLIMIT_AS, request->memory_limit);
  limit(RLIMIT_CPU, request->cpu_seconds);
  limit(RLIMIT_FSIZE, request->file_size_limit);
  uint64_t no_core[2] = {0, 0};
  setrlimit(RLIMIT_CORE, no_core);
  for (i = 1; i <= LAST_SIGNAL; i++) signal(i, NULL); /* SIG_DFL; what cannot be set stays */
  signal(SIGXFSZ, SIG_IGN);                           /* a full file is a refused write, not the end */
  sigprocmask(SIG_SETMASK, no_signals, NULL);
  execve(request->path, request->argv, request->envp);
fail : {
  int number = *__errno_location();
  write(report, &number, sizeof number);
  _exit(127);
}
}

/* Splits `count` NUL-terminated strings that lie one after another into an argv; freed with free. */
static char **split(char *strings, int count) {
  char **out = calloc((size_t)count + 1, sizeof *out);
  for (int i = 0; out && i < count; i++) {
    out[i] = strings;
    strings += strlen(strings) + 1;
  }
  return out;
}

/*
 * Starts a program that dies with this process, has the given descriptors and no others, and is limited (0 = no limit).
 * `arguments` and `environment` are NUL-terminated strings one after another. Reaped by process_wait.
 */
int process_spawn(const char *path, char *arguments, int argument_count, char *environment, int environment_count,
                  const int *descriptors, int descriptor_count, uint64_t memory_limit, uint64_t cpu_seconds,
                  uint64_t file_size_limit, int *pid_out) {
  int pipe_ends[2], pid, number = 0, status = 0;
  uint64_t all_signals[16], old_signals[16];
  struct spawn_request request;
  if (descriptor_count > 16) return failed("process_spawn", "more than 16 descriptors", -1);
  request.path = path;
  request.argv = split(arguments, argument_count);
  request.envp = split(environment, environment_count);
  request.descriptors = descriptors;
  request.descriptor_count = descriptor_count;
  request.memory_limit = memory_limit;
  request.cpu_seconds = cpu_seconds;
  request.file_size_limit = file_size_limit;
  request.parent = getpid();
  for (number = 0; number < 16; number++) all_signals[number] = ~0UL;
  number = 0;
  if (!request.argv || !request.envp) {
    status = failed_system("calloc");
    goto end;
  }
  if (pipe2(pipe_ends, O_CLOEXEC)) {
    status = failed_system("pipe2");
    goto end;
  }
  request.report = pipe_ends[1];
  /* Not fork: copying the page tables of a process as large as this takes milliseconds. */
  sigprocmask(SIG_SETMASK, all_signals, old_signals);
  pid = vfork();
  if (pid == 0) become(&request);
  if (pid < 0) status = failed_system("vfork");
  sigprocmask(SIG_SETMASK, old_signals, NULL);
  close(pipe_ends[1]);
  if (pid > 0) {
    ssize_t got;
    do got = read(pipe_ends[0], &number, sizeof number);
    while (got < 0 && *__errno_location() == EINTR);
    if (got == sizeof number) {
      waitpid(pid, NULL, 0);
      *__errno_location() = number;
      status = failed_system("execve");
    } else {
      *pid_out = pid;
    }
  }
  close(pipe_ends[0]);
end:
  free(request.argv);
  free(request.envp);
  return status;
}

/*
 * Waits up to `milliseconds` for a started program. Returns 1 while it runs; 0 when it has ended and is reaped, with
 * *exit_code (-1 when a signal ended it) and *signal_number (0 when it exited).
 */
int process_wait(int pid, int milliseconds, int *exit_code, int *signal_number) {
  int status = 0, got = waitpid(pid, &status, WNOHANG);
  if (got == 0 && milliseconds > 0) {
    int handle = (int)syscall(SYS_PIDFD_OPEN, (long)pid, 0L);
    struct poll_entry entry = {handle, 1 /* POLLIN */, 0};
    poll(handle < 0 ? NULL : &entry, handle < 0 ? 0 : 1, milliseconds);
    if (handle >= 0) close(handle);
    got = waitpid(pid, &status, WNOHANG);
  }
  if (got < 0) return failed_system("waitpid");
  if (got == 0) return 1;
  int by_signal = status & 0x7f;
  *exit_code = by_signal ? -1 : (status >> 8) & 0xff;
  *signal_number = by_signal;
  return 0;
}

int process_kill(int pid) { return kill(pid, SIGKILL) ? failed_system("kill") : 0; }
