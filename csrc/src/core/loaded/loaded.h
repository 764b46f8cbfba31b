/* loaded.h - the libraries of this process, their trees of modules, and the counting of references.
 *
 * Ownership: the library owns everything made from its file (docs/design/loading.md, "The library is the
 * unit of ownership"). `users` counts references from outside: modules and functions that
 * callers hold, registry entries, imports from modules of other libraries. Inside, nothing
 * counts. At zero the library is closed. */
#ifndef MB_LOADED_H
#define MB_LOADED_H

#include <mblob.h>
#include <stdatomic.h>

#include "base/base.h"
#include "elf/elf.h"
#include "format/format.h"

/* First word of what `__tvm_module_ctx`, TVMModuleHandle, TVMFunctionHandle and TVMObjectHandle
 * point to, which kernels and hosts hand back untyped. */
enum mb_tag {
  MB_TAG_MODULE = 0x6d6f6475,
  MB_TAG_CONTEXT = 0x6d637478,
  MB_TAG_FUNCTION = 0x6d66756e,
  MB_TAG_OBJECT = 0x6d6f626a
};

struct mb_library;

struct mb_context {
  uint32_t tag; /* MB_TAG_CONTEXT */
  struct mb_library *library;
};

/* The share of the code of a library that uses the classes of tvm_ffi (ffi_library.h). */
enum mb_cxx { MB_CXX_UNKNOWN, MB_CXX_NONE, MB_CXX_SOME, MB_CXX_ALL };

/* ---- modules --------------------------------------------------------------------------------- */

enum mb_opening { MB_UNOPENED, MB_OPENING, MB_OPENED, MB_FAILED };

/* What a module gets when it is used, apart from the module: listing thousands must not touch
 * it. */
struct mb_module_use {
  /* by its loader; guarded by library->lock */
  enum mb_opening opening;
  size_t opener; /* while MB_OPENING: an mb_thread_id() */
  mblob_loader loader;
  void *self;
  const char *const *names; /* of its functions, as its plug-in tells them */
  size_t name_count;
  struct mb_saved_error failure;
  struct mb_map functions;
  bool tensors_read;
  struct mb_tensors tensors;
};

struct mblob_module {
  uint32_t tag; /* MB_TAG_MODULE */
  bool is_library : 1, is_data : 1;
  bool is_created : 1;   /* by mblob_module_create: it is open from the beginning */
  bool is_used;          /* there is something in `use`; guarded by library->lock */
  atomic_bool no_plugin; /* plain data that no plug-in file serves */
  struct mb_library *library;
  struct mb_tree *tree;
  const char *type_key; /* in the tree's keys */
  const uint8_t *payload;
  uint64_t payload_size;
  mblob_module **imports;
  size_t import_count;
  size_t own_imports; /* how many of them the file names; the others were added and may be of other
                         libraries */
  struct mb_module_use *use; /* of the tree */
};

/* The modules of one opening of a file. A tree that nobody holds any more stays, because
 * functions and cached handles may lead into it, until the library goes; the next opening like
 * it takes it over. */
struct mb_tree {
  struct mb_tree *next;
  atomic_size_t users;   /* references to its modules from outside */
  mblob_module *modules; /* in the order of the blob; 0 is the root */
  size_t count;
  char *keys;                /* texts of the type keys */
  struct mb_module_use *use; /* of each module */
  mblob_loader *loaders;     /* for this opening only, asked first */
  size_t loader_count;
  int32_t missing; /* mblob_missing */
  int32_t assume;  /* mblob_assume */
};

/* ---- libraries ------------------------------------------------------------------------------- */

/* Which names a library of some prefix finds. */
enum mb_system_names {
  MB_NAMES_OF_PREFIX, /* those that begin with its prefix and with no longer one that a library has
                       */
  MB_NAMES_AS_TVM,    /* as TVM does: with its prefix, else as they are, whosever they are */
};

struct mb_library {
  struct mb_library *next;
  struct mb_destruction ending;               /* of who has the last reference */
  void (*end)(struct mb_destruction *ending); /* closes it */
  atomic_size_t users;
  struct mb_lock lock; /* trees, functions, environment, openings of modules */
  struct mb_condition opened;
  /* guarded by the list's lock */
  bool loading, closing;
  bool resident;  /* closed, but its code could not be unloaded */
  int32_t unload; /* mblob_unload */
  bool
      keeps_no_address; /* it brings only libraries of the language, and calls only functions that keep no
                        address; known once it is linked */
  char *changes;        /* what loading it changed in the process, on the heap; NULL: nothing */
  bool is_readonly; /* by mblob_open_readonly: read, never loaded, and not in the list */
  size_t worker;    /* while it is loading or closing: an mb_thread_id() */

  const char *system_prefix; /* of a statically linked library, which has no file; else NULL */
  enum mb_system_names system_names;
  struct mb_library
      *joined; /* the same code, with the other way to find names; not counted, guarded by `lock` */
  struct mb_source source;
  struct mb_elf elf;
  int copy_fd; /* owned; what the linker is given in place of the file (core/link/patched_copy.h), -1: the file
                  itself */
  bool drops_runtime; /* the copy needs no library of TVM's runtime, which is not found here */
  struct mb_needed *needed; /* libraries that it needs and that are opened here, too */
  uint64_t changed_start,
      changed_end;         /* the bytes in which that copy differs from the file's loaded part */
  void *handle;            /* of dlopen */
  uintptr_t base;          /* what is added to addresses in the file */
  char *link_name;         /* what the dynamic linker calls it */
  void **context_slot;     /* where the library keeps its context; NULL: nowhere */
  enum mb_dialect dialect; /* of its functions */
  bool is_compiled_by_tvm; /* functions that no table lists are packed (ffi_library.c) */
  bool external; /* it brings along a tvm_ffi of its own (DT_NEEDED), to which its names are left */
  enum mb_cxx cxx; /* guarded by `lock` */
  const mblob_convention
      *convention; /* how its functions are called; NULL in the classic dialect */
  bool has_blob;
  const char *blob_symbol; /* NULL if it has none, or no file */
  enum mb_dialect blob_dialect;
  const uint8_t *blob; /* in the linker's mapping */
  uint64_t blob_size;
  bool index_expected;
  struct mb_function_table table;
  struct mb_carried
      *carried; /* plug-ins in the file (core/plugin/plugin.h); fixed once it is loaded */
  struct mb_context context;

  struct mb_tree *trees;
  struct mb_map functions;   /* own kernels by name */
  struct mb_map environment; /* MB_ENVIRONMENT functions by name */
};

/* The libraries of this process, in memory or being opened or closed. The lock is held while the list
 * changes and around the dynamic linker: what is in the list is what is loaded. Constructors of a
 * library may open others. Loaders are never called with it. */
extern __attribute__((visibility("hidden"))) struct mb_loaded {
  struct mb_lock lock;
  struct mb_condition changed;
  struct mb_library *first;
} mb_loaded;

void mb_library_retain(struct mb_library *library);
void mb_library_release(struct mb_library *library);

#endif
