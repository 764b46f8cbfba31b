#define _GNU_SOURCE
#include "core/library/system_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>

#include "core/call/call.h"
#include "core/library/created.h"
#include "core/library/library.h"
#include "core/link/link.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

/* The files of libmblob-ffi in this process: several programs and libraries may be linked with
 * their own. */
struct found_files {
  size_t count;
  char *paths[8];
};

static int find_file(struct dl_phdr_info *info, size_t size, void *argument) {
  struct found_files *found = argument;
  const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  (void)size;
  if (found->count == sizeof(found->paths) / sizeof(*found->paths)) return 1;
  if (name && strcmp(name, "/libmblob-ffi.so") == 0 &&
      (found->paths[found->count] = strdup(info->dlpi_name)))
    found->count++;
  return 0;
}

/* Names that were announced to libmblob-ffi where it saw no runtime: --as-needed had dropped
 * libmblob, or it is open for others only, as in Python. */
static int take_announced(void) {
  int rc = 0;
  struct found_files found = {0};
  (void)dl_iterate_phdr(find_file, &found);
  while (found.count) {
    char *path = found.paths[--found.count];
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    union {
      void *address;
      int (*call)(int (*take)(const char *name, void *address));
    } give = {library ? dlsym(library, "mblob_ffi_take_announced") : NULL};
    if (give.address && !rc) rc = give.call(TVMBackendRegisterSystemLibSymbol);
    if (library) (void)dlclose(library);
    free(path);
  }
  return rc ? mblob_last_error_info()->status : MBLOB_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

struct memory_span {
  uintptr_t address;
  uint64_t left; /* bytes from there to the end of its segment */
};

static int find_segment(struct dl_phdr_info *info, size_t size, void *argument) {
  struct memory_span *span = argument;
  (void)size;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type != PT_LOAD || span->address < start ||
        span->address - start >= segment->p_memsz)
      continue;
    span->left = segment->p_memsz - (span->address - start);
    return 1;
  }
  return 0;
}

/* How many bytes may be read at an announced address: to the end of the segment of the program
 * or library that it lies in. Elsewhere (a JIT's memory) nothing tells where it ends. */
static uint64_t room_at(const void *address) {
  struct memory_span span = {(uintptr_t)address, UINT64_MAX - (uintptr_t)address};
  (void)dl_iterate_phdr(find_segment, &span);
  return span.left;
}

/* ---- modules --------------------------------------------------------------------------------- */

/* What the packager says about a library, in the announced object `__mblob_system_lib`
 * (docs/format.md, section 10), in the byte order of the machine. TVM's libraries have none. */
struct record {
  uint32_t version;   /* 1; later ones append fields */
  uint32_t flags;     /* of the note, such as MB_NOTE_HAS_INDEX */
  uint64_t blob_size; /* bytes of the blob, length prefix included; 0: not known */
};

/* The announced objects that make a library what it is. */
struct system_parts {
  const uint8_t *blob;
  const uint8_t *table;
  const uint8_t *record;
  struct mb_context **context, **ffi_context;
  enum mb_dialect dialect; /* of the blob */
};

struct system_library {
  struct system_library
      *before; /* what the prefix stood for until its code was loaded again elsewhere */
  struct system_parts parts;
  struct mb_library *library;
  mblob_module *root;
  char prefix[];
};

/* prefix -> struct system_library, for the life of the process; one map for each way to look
 * names up */
static struct mb_map libraries[2];
static struct mb_lock libraries_lock = MB_LOCK_INIT;

/* These carry the prefix and are not shared with other libraries. */
static struct system_parts parts_of(const char *prefix) {
  void *found[MB_PARTS];
  for (size_t i = 0; i < MB_PARTS; i++) found[i] = mb_announced_part(prefix, (enum mb_part)i);
  return (struct system_parts){
      .blob = found[found[MB_PART_BLOB] ? MB_PART_BLOB : MB_PART_FFI_BLOB],
      .table = found[MB_PART_TABLE],
      .record = found[MB_PART_RECORD],
      .context = found[MB_PART_CONTEXT],
      .ffi_context = found[MB_PART_FFI_CONTEXT],
      .dialect = found[MB_PART_BLOB] || !found[MB_PART_FFI_BLOB] ? MB_CLASSIC : MB_FFI,
  };
}

static int read_system_record(const struct system_parts *parts, struct record *out) {
  *out = (struct record){0};
  if (!parts->record) return MBLOB_OK;
  if (room_at(parts->record) < sizeof(*out))
    return mb_fail_format("system_library", MB_UNKNOWN, MB_UNKNOWN,
                          "__mblob_system_lib: its segment ends within it");
  memcpy(out, parts->record, sizeof(*out));
  if (out->version < 1)
    return mb_fail_format("system_library", MB_UNKNOWN, MB_UNKNOWN,
                          "__mblob_system_lib: version %u, expected at least 1", out->version);
  return MBLOB_OK;
}

/* Where the blob of `library` is and ends. Without a record its length prefix tells; the segment
 * bounds both. */
static int find_system_blob(const struct system_parts *parts, const struct record *record,
                            struct mb_library *library) {
  library->index_expected = record->flags & MB_NOTE_HAS_INDEX;
  library->has_blob = parts->blob != NULL;
  library->blob = parts->blob;
  library->blob_dialect = parts->dialect;
  if (!library->has_blob)
    return library->index_expected
               ? mb_fail_format(
                     "index_footer", MB_UNKNOWN, MB_UNKNOWN,
                     "its record announces a blob with an index, but nobody announced the blob")
               : MBLOB_OK;
  uint64_t room = room_at(parts->blob);
  if (room < 8)
    return mb_fail_format("truncated", 0, MB_UNKNOWN,
                          "blob: its segment ends %llu bytes behind its start",
                          (unsigned long long)room);
  uint64_t follow = mb_u64_at(parts->blob);
  if (record->blob_size > room || (!record->blob_size && follow > room - 8))
    return mb_fail_format("size", 0, MB_UNKNOWN,
                          "blob: %llu bytes according to its %s, its segment has %llu more",
                          (unsigned long long)(record->blob_size ? record->blob_size : follow),
                          record->blob_size ? "record" : "length prefix", (unsigned long long)room);
  library->blob_size = record->blob_size ? record->blob_size : 8 + follow;
  return MBLOB_OK;
}

/* A table without its notes: nothing tells where they end, and what is behind a table may be another variable. */
static struct mb_slice table_at(const uint8_t *table) {
  const uint64_t room = room_at(table);
  const uint8_t *end = memchr(table, 0, mb_size(room));
  return (struct mb_slice){table, end ? (uint64_t)(end - table) + 1 : room};
}

static int read_parts(struct system_library *system, struct mb_library *library) {
  struct record record;
  const struct system_parts *parts = &system->parts;
  int status = read_system_record(parts, &record);
  if (!status) status = find_system_blob(parts, &record, library);
  if (!status && parts->table)
    status = mb_function_table_read(table_at(parts->table), NULL, &library->table);
  else if (!status && record.flags & MB_NOTE_HAS_TABLE)
    status = mb_function_table_missing("record");
  return status;
}

/* The plug-ins that the library carries. */
static int add_plugins(const char *prefix, struct mb_library *library) {
  char *start = NULL;
  struct mb_announced_symbol *found = NULL;
  size_t count = 0;
  if (asprintf(&start, "%s" MBLOB_PLUGIN_SYMBOL, prefix) < 0) return mb_fail_memory(strlen(prefix));
  int status = mb_all_announced(start, &found, &count);
  for (size_t i = 0; !status && i < count; i++)
    status = mb_carried_add(library, found[i].name + strlen(prefix), found[i].address,
                            room_at(found[i].address));
  free(found);
  free(start);
  if (!status) (void)mb_plugin_carried_devices(library, 0);
  return status;
}

static int make_root(struct system_library *system, enum mb_system_names names) {
  static const mblob_open_options options = {.struct_size = sizeof(options),
                                             .missing = MBLOB_MISSING_STUB};
  struct mb_library *library = NULL;
  int status = mb_library_new_system(system->prefix, names, &library);
  if (!status) status = read_parts(system, library);
  if (!status) status = add_plugins(system->prefix, library);
  if (!status) status = mb_library_add_tree(library, &options, &system->root);
  if (status) {
    if (library) mb_library_release(library);
    return status;
  }
  system->library = library;
  return MBLOB_OK;
}

static bool are_same_parts(const struct system_parts *a, const struct system_parts *b) {
  return a->blob == b->blob && a->table == b->table && a->record == b->record &&
         a->context == b->context && a->ffi_context == b->ffi_context;
}

/* Let kernels of `library` find the imports of `other`'s modules too. */
static void join(struct mb_library *library, struct mb_library *other) {
  mb_lock(&library->lock);
  library->joined = other;
  mb_unlock(&library->lock);
}

/* Kernels ask the context that was made first; it leads to the imports of the other one's
 * modules too. */
static void set_context(struct system_library *system, const struct system_library *other) {
  if (other && are_same_parts(&other->parts, &system->parts)) {
    join(other->library, system->library);
  } else {
    if (system->parts.context) *system->parts.context = &system->library->context;
    if (system->parts.ffi_context) *system->parts.ffi_context = &system->library->context;
  }
}

/* With the lock. A shared library that was unloaded and loaded again announces other addresses:
 * then the prefix stands for a new library, and the old one stays for those who hold it. */
static int find_or_make(const char *prefix, enum mb_system_names names, mblob_module **out) {
  struct system_library *known = mb_map_get(&libraries[names], prefix);
  const struct system_parts parts = parts_of(prefix);
  if (known && are_same_parts(&known->parts, &parts)) {
    *out = known->root;
    return MBLOB_OK;
  }
  size_t size = strlen(prefix) + 1;
  struct system_library *system = calloc(1, sizeof(*system) + size);
  if (!system) return mb_fail_memory(sizeof(*system) + size);
  memcpy(system->prefix, prefix, size);
  system->parts = parts;
  system->before = known;
  int status = make_root(system, names);
  if (!status && !mb_map_put(&libraries[names], system->prefix, system)) {
    mb_library_release(system->library);
    status = MBLOB_E_MEMORY;
  }
  if (status) {
    free(system);
    return status;
  }
  set_context(system, mb_map_get(&libraries[!names], prefix));
  *out = system->root;
  return MBLOB_OK;
}

/* The root, not counted. */
static int get_system_library(const char *prefix, enum mb_system_names names, mblob_module **out) {
  mb_lock(&libraries_lock);
  int status = find_or_make(prefix, names, out);
  mb_unlock(&libraries_lock);
  if (status) mb_error_prefix(*prefix ? prefix : "the system library");
  return status;
}

int mb_system_library_open(const char *prefix, mblob_module **out) {
  int status = take_announced();
  if (status) return status;
  if (!mb_is_announced(prefix))
    return mb_fail(
        MBLOB_E_NOT_FOUND,
        "no system library %s%s%s is linked into this process; link it with -lmblob (ffi dialect: -lmblob-ffi "
        "-lmblob); an archive (.a) also needs MBLOB_SYSTEM_LIB(prefix) in the program, or --whole-archive",
        *prefix ? "with the prefix '" : "without a prefix", prefix, *prefix ? "'" : "");
  status = get_system_library(prefix, MB_NAMES_OF_PREFIX, out);
  if (!status) (void)mblob_module_retain(*out);
  return status;
}

int mb_system_library_get(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                          void *resource) {
  (void)resource;
  mblob_module *module = NULL;
  bool given = count > 0 && codes[0] != kTVMNullptr;
  if (count > 1 || (given && (codes[0] != kTVMStr || !args[0].v_str)))
    return mb_fail_argument(
        count > 1 ? MB_ARGUMENT_COUNT : MB_ARGUMENT_TYPE,
        "runtime.SystemLib: expected at most one argument, the prefix, a string");
  int status = take_announced();
  if (!status) status = get_system_library(given ? args[0].v_str : "", MB_NAMES_AS_TVM, &module);
  if (status) return status;
  return mb_return_set(ret, (TVMValue){.v_handle = module}, kTVMModuleHandle);
}
