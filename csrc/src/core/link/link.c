/* From a checked file to running code: the dynamic linker, the slots, the context.
 *
 * glibc compares the name it is given with all names that loaded libraries ever had, before it
 * looks at the file, and descriptor numbers come back. So every load has a name that was never
 * used in this process: the path /proc/self/fd/<n>, spelled with redundant "/" and "./" that
 * stand for the number of the load. A library with $ORIGIN in a search path or in DT_NEEDED is
 * named through its folder's descriptor instead, because the linker takes $ORIGIN from the name;
 * dladdr() reports these names. A library that leaves names of the runtime undefined is a memory
 * file to the linker (patched_copy.h). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "core/link/system_symbols.h"
#include "core/link/patched_copy.h"
#include "core/link/ffi_library.h"
#include "core/link/link.h"
#include "core/loaded/loaded.h"

/* ---- names ----------------------------------------------------------------------------------- */

#define SPELLING 160 /* bytes; "./" for each bit of 64, and some */

/* A number that no other load of the process has. Other copies of libmblob count, too: each copy
 * begins at a time and an address of its own. */
static uint64_t number_of_load(void) {
  static _Atomic(uint64_t) last = 0;
  struct timespec now;
  uint64_t none = 0;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  uint64_t first = ((uint64_t)now.tv_sec << 46) ^ ((uint64_t)now.tv_nsec << 16) ^ (uintptr_t)&last;
  (void)atomic_compare_exchange_strong(&last, &none, first);
  return atomic_fetch_add(&last, 1) + 1;
}

/* "./" or "/" for each bit of the number of a load. */
static void spell_number(char out[SPELLING]) {
  size_t used = 0;
  for (uint64_t n = number_of_load(); n; n >>= 1) {
    if (n & 1) out[used++] = '.';
    out[used++] = '/';
  }
  out[used] = 0;
}

static bool has_proc(int fd) {
  char link[64];
  (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  return access(link, R_OK) == 0;
}

/* Open the folder of the file, and check that the file there is still the one that is open. */
static int open_folder(struct mb_source *source, const char **base) {
  struct stat st;
  char *copy = strdup(source->path);
  if (!copy) return mb_fail_memory(strlen(source->path));
  *base = strrchr(source->path, '/') + 1;
  source->dir_fd = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
  free(copy);
  if (source->dir_fd < 0 || fstatat(source->dir_fd, *base, &st, 0) != 0 ||
      st.st_dev != source->device || st.st_ino != source->inode)
    return mb_fail(MBLOB_E_IO, "the file was replaced while it was opened; open it again");
  return MBLOB_OK;
}

/* True if $ORIGIN matters, and a name without the folder would lose it. */
static bool needs_folder(const struct mb_library *library) {
  return library->elf.needs_origin && *library->source.path == '/' && has_proc(library->source.fd);
}

/* The name for the linker; `count`: the spelling of this load, `base`: the file's name in its
 * folder, which is open, or NULL. */
static int make_name(struct mb_library *library, const char *count, const char *base) {
  const struct mb_source *source = &library->source;
  int n, fd = library->copy_fd >= 0 ? library->copy_fd : source->fd;
  free(library->link_name);
  if (!has_proc(fd)) {
    if (!*source->path || library->copy_fd >= 0)
      return mb_fail(MBLOB_E_IO, "without /proc a library from memory cannot be loaded");
    n = asprintf(&library->link_name, "%s", source->path);
  } else if (base && library->copy_fd < 0) {
    n = asprintf(&library->link_name, "/proc/self/%sfd/%d/%s", count, source->dir_fd, base);
  } else {
    n = asprintf(&library->link_name, "/proc/self/%sfd/%d", count, fd);
  }
  if (n >= 0) return MBLOB_OK;
  library->link_name = NULL;
  return mb_fail_memory(SPELLING);
}

/* Decide what the linker is given, and its name. */
static int prepare_file(struct mb_library *library) {
  char count[SPELLING], folder[SPELLING + 32];
  const char *base = NULL;
  spell_number(count);
  int status = needs_folder(library) ? open_folder(&library->source, &base) : MBLOB_OK;
  if (status) return status;
  (void)snprintf(folder, sizeof(folder), "/proc/self/%sfd/%d", count, library->source.dir_fd);
  status = mb_link_copy(library, base ? folder : NULL);
  return status ? status : make_name(library, count, base);
}

/* ---- what the linker refuses ----------------------------------------------------------------- */

#define FOR_GLIBC "it was built for glibc, and this process runs musl"

/* What it says, and the advice, which is the next one where it is empty; in one text, because addresses cost more. */
static const char words[] =
    "libtvm_ffi.so\0\0"
    "3tvm3ffi\0load tvm_ffi first (Python: import tvm_ffi)\0" /* a name of C++ */
    "static TLS\0compile it without -ftls-model=initial-exec, or set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1000000\0"
    ": version `\0it was built with a later release of that library: build it with this one\0"
    "Too many open\0raise ulimit -n: each open library has a file\0"
#ifdef __GLIBC__
    "libc.musl\0\0"
    "/libc.so:\0it was built for musl, and this process runs glibc\0"
    "cannot open\0install it, or name its folder in LD_LIBRARY_PATH\0";
#else
    "libc.so.6\0\0"
    "ld-linux\0" FOR_GLIBC
    "\0"
    "not supported\0a static program opens no libraries: pack it with --system-lib, and link it in\0"
    "No file descriptors\0raise ulimit -n: each open library has a file\0"
    "symbol not found\0link the library with what defines it\0"
    "No such file\0install it, or name its folder in LD_LIBRARY_PATH\0";
#endif

/* About a symbol that nobody provides. */
static const char *about_symbol(const char *at) {
  char symbol[128] = "";
  memcpy(symbol, at, strcspn(at, ",\n ") < sizeof(symbol) ? strcspn(at, ",\n ") : 0);
  if (mb_profile_symbol(symbol))
    return "this runtime gives it to a library that another one needs if that has a SONAME: link it with "
           "-Wl,-soname,NAME, or its code into the library that is opened";
  if (strncmp(symbol, "TVM", 3) == 0)
    return "it is a function of TVM's runtime that this one does not have";
  void *math = *symbol ? dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL) : NULL;
  bool found = math && dlsym(math, symbol);
  if (math) (void)dlclose(math);
  return found ? "link it with -lm" : "link the library with what defines it";
}

static bool is_noexec(int fd) {
  struct statvfs system;
  return fd >= 0 && fstatvfs(fd, &system) == 0 && system.f_flag & ST_NOEXEC;
}

static const char *advice(const struct mb_library *library, const char *reason) {
  static const char undefined[] = "undefined symbol: ";
  if (library->elf.needs_glibc && strstr(reason, "symbol not found")) return FOR_GLIBC;
  for (const char *reported = words, *remedy; *reported; reported = remedy + strlen(remedy) + 1) {
    remedy = reported + strlen(reported) + 1;
    if (!strstr(reason, reported)) continue;
    while (!*remedy) remedy += 1 + strlen(remedy + 1) + 1;
    return remedy;
  }
  const char *at = strstr(reason, undefined);
  if (at) return about_symbol(at + strlen(undefined));
  return library->copy_fd < 0 && is_noexec(library->source.fd)
             ? "its file system is mounted noexec: move the file"
             : "";
}

static int refused(const struct mb_library *library, const char *reason) {
  const char *path = *library->source.path ? library->source.path : "the library";
  const char *name = library->link_name;
  const size_t size = strlen(name);
  if (strncmp(reason, name, size) == 0 && strncmp(reason + size, ": ", 2) == 0) reason += size + 2;
  const char *hint = advice(library, reason), *at = strstr(reason, "/proc/self/"), *rest = at;
  size_t shown = 0; /* of the path */
  if (at) {         /* a name that only this runtime gives: of the file, or of its folder */
    char *end;
    const char *number = strstr(at, "fd/");
    const long fd = number ? strtol(number + 3, &end, 10) : -1;
    rest = number ? end : at;
    shown = fd == library->source.dir_fd && strrchr(path, '/') ? (size_t)(strrchr(path, '/') - path)
                                                               : strlen(path);
  }
  return mb_fail(MBLOB_E_INCOMPATIBLE, "the dynamic linker refused it: %.*s%.*s%s%s%s",
                 (int)(at ? at - reason : 0), reason, (int)shown, path, rest ? rest : reason,
                 *hint ? "; " : "", hint);
}

/* Their runtimes work only from the start of a process; ASan's ends one that loads it later, if it
 * is not told otherwise. */
static int check_sanitizer(const struct mb_library *library) {
  const struct mb_elf *elf = &library->elf;
  const char *options = getenv("ASAN_OPTIONS");
  const bool late = options && strstr(options, "link_order=0");
  for (uint64_t i = 1, end = mb_elf_symbols_end(elf); i < end && !late; i++) {
    const ElfW(Sym) symbol = mb_elf_symbol(elf, i);
    const char *name = mb_elf_symbol_name(elf, &symbol), *at = strstr(name, "san_init");
    if (symbol.st_shndx != SHN_UNDEF || !at || at[8] || name[0] != '_' || name[1] != '_' ||
        dlsym(RTLD_DEFAULT, name))
      continue;
    return mb_fail(MBLOB_E_INCOMPATIBLE,
                   "it was compiled with a sanitizer, whose runtime must start with the process: "
                   "LD_PRELOAD=$(gcc -print-file-name=lib%.*s.so)",
                   (int)(at + 3 - (name + 2)), name + 2);
  }
  return MBLOB_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* What the linker said, on the heap: its next call frees that. NULL when memory is out
 * (recorded). */
static char *linker_error(void) {
  const char *said = dlerror();
  char *text = strdup(said ? said : "no reason given");
  if (!text) (void)mb_fail_memory(0);
  return text;
}

/* ---- what it needs --------------------------------------------------------------------------- */

struct mb_needed {
  struct mb_needed *next;
  mblob_module *module; /* a reference */
};

void mb_library_release_needed(struct mb_needed *needed) {
  while (needed) {
    struct mb_needed *next = needed->next;
    mblob_module_release(needed->module);
    free(needed);
    needed = next;
  }
}

/* The linker loads what a library needs, and finds no runtime for it. Opened here it has one,
 * and the linker takes it by its SONAME when it is asked again. Whether `path` was opened just
 * now. */
static bool open_needed(struct mb_library *library, const char *path, mb_opener *open) {
  struct mb_needed *needed = calloc(1, sizeof(*needed));
  bool is_new = needed && open(path, &needed->module) == MBLOB_OK;
  for (struct mb_needed *n = library->needed; is_new && n; n = n->next)
    is_new = n->module->library != needed->module->library;
  if (is_new) {
    needed->next = library->needed;
    library->needed = needed;
  } else if (needed) {
    mblob_module_release(needed->module);
    free(needed);
  }
  return is_new;
}

/* Do something about the linker's error; whether it may be asked again. */
static bool helped(struct mb_library *library, const char *reason, mb_opener *open) {
  static const char undefined[] = ": undefined symbol: ",
                    absent[] = ": cannot open shared object file";
  const char *at = strstr(reason, undefined);
  if (at) {
    const char *symbol = at + sizeof(undefined) - 1;
    char *path = strndup(reason, (size_t)(at - reason)),
         *name = strndup(symbol, strcspn(symbol, ",\n "));
    bool opened = path && name && mb_profile_symbol(name) && open_needed(library, path, open);
    free(path);
    free(name);
    return opened;
  }
  if (library->drops_runtime || !mb_link_is_runtime(reason) || !strstr(reason, absent))
    return false;
  /* glibc ends the process where versions are needed of a library that is not. */
  if (mb_elf_needs_versions(&library->elf, mb_link_is_runtime)) return false;
  library->drops_runtime = true;
  library->external = false; /* no tvm_ffi comes along: it gets the names from here */
  if (library->copy_fd >= 0) (void)close(library->copy_fd);
  if (library->source.dir_fd >= 0) (void)close(library->source.dir_fd);
  library->copy_fd = library->source.dir_fd = -1;
  return prepare_file(library) == MBLOB_OK;
}

static int run_linker(struct mb_library *library, mb_opener *open) {
  /* What calls nothing but functions of the table installs no handler either. */
  library->keeps_no_address = mb_library_keeps_no_address(library);
  const bool watched = !library->keeps_no_address;
  const int sound = watched ? check_sanitizer(library) : MBLOB_OK;
  if (sound) return sound;
  struct mb_process_state state;
  if (watched) mb_process_state_take(&state);
  for (;;) {
    /* What is undefined is an error now, not the end of a call. */
    const struct mb_float_control before = mb_float_control();
    library->handle = dlopen(library->link_name, RTLD_NOW | RTLD_LOCAL);
    mb_float_control_keep(before);
    if (library->handle) {
      if (watched && !library->changes) library->changes = mb_process_state_changes(&state);
      return MBLOB_OK;
    }
    char *reason = linker_error();
    if (!reason) return MBLOB_E_MEMORY;
    int status = helped(library, reason, open) ? MBLOB_OK : refused(library, reason);
    free(reason);
    if (status) return status;
  }
}

static uint64_t dynamic_address(const struct mb_elf *elf) {
  for (unsigned i = 0; i < elf->header.e_phnum; i++) {
    ElfW(Phdr) s = mb_elf_segment(elf, i);
    if (s.p_type == PT_DYNAMIC) return s.p_vaddr;
  }
  return 0;
}

/* Check that the linker mapped the file that was checked. */
static int check_mapping(struct mb_library *library) {
  struct link_map *map = NULL;
  if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) != 0 || !map)
    return refused(library, "it tells no link map");
  library->base = map->l_addr;
  if ((uintptr_t)map->l_ld != library->base + dynamic_address(&library->elf))
    return mb_fail(MBLOB_E_IO, "the file changed while it was opened; open it again");
  return MBLOB_OK;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* Where the exported variable of that number is, NULL if the library has none. */
static void **slot_at(const struct mb_library *library, size_t i) {
  return library->elf.slots[i] ? (void **)(library->base + (uintptr_t)library->elf.slots[i]) : NULL;
}

static void fill_slots(struct mb_library *library) {
  for (size_t i = 0; i < MB_SLOTS; i++) {
    void **slot = slot_at(library, i);
    void *function = slot ? mb_library_host_symbol(library, mb_slot_name(i) + strlen("__")) : NULL;
    if (slot) memcpy(slot, &function, sizeof(function));
  }
  library->context = (struct mb_context){MB_TAG_CONTEXT, library};
  void *context = &library->context;
  library->context_slot = slot_at(library, MB_SLOTS + (size_t)library->dialect);
  if (library->context_slot) memcpy(library->context_slot, &context, sizeof(context));
}

int mb_library_link(struct mb_library *library, mb_opener *open) {
  int status = prepare_file(library);
  if (!status) status = run_linker(library, open);
  if (!status) status = check_mapping(library);
  if (!status) status = mb_link_copy_give_back(library);
  if (status) return status;
  fill_slots(library);
  return MBLOB_OK;
}

/* Set when the process ends: threads of kernels may run until it is gone. */
static atomic_bool keeps_all;

void mblob_keep_loaded(void) { atomic_store(&keeps_all, true); }

MB_HANDLER(destructor) static void at_exit(void) { mblob_keep_loaded(); }

static bool is_unmapped(const struct mb_library *library) {
  if (library->unload == MBLOB_UNLOAD_NEVER || atomic_load(&keeps_all)) return false;
  return library->unload == MBLOB_UNLOAD_ALWAYS || mb_library_may_be_unmapped(library);
}

bool mb_library_unlink(struct mb_library *library) {
  if (!library->handle) return false;
  if (library->context_slot) memset(library->context_slot, 0, sizeof(*library->context_slot));
  library->context_slot = NULL;
  void *handle = library->handle;
  const bool unmapped = is_unmapped(library);
  library->handle = NULL;
  if (!unmapped) return true; /* the linker's count of openings stays above 0 */
  const struct mb_float_control before = mb_float_control();
  (void)dlclose(handle);
  mb_float_control_keep(before);
  void *again = dlopen(library->link_name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (again) (void)dlclose(again);
  return again != NULL;
}

void *mb_library_symbol(const struct mb_library *library, const char *name, ElfW(Sym) * symbol) {
  if (library->system_prefix) {
    *symbol =
        (ElfW(Sym)){.st_info = STT_FUNC}; /* the announcement does not tell, and these are called */
    return mb_system_symbol(library->system_prefix, name, library->system_names, &symbol->st_other);
  }
  if (!mb_elf_find(&library->elf, name, symbol)) return NULL;
  unsigned type = ELF64_ST_TYPE(symbol->st_info);
  if (type == STT_GNU_IFUNC || type == STT_TLS) return dlsym(library->handle, name);
  if (symbol->st_shndx != SHN_ABS && mb_elf_is_loaded(&library->elf, symbol->st_value, 0, 0))
    return (void *)(library->base + symbol->st_value);
  return NULL;
}
