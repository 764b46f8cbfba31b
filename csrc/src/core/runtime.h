/* runtime.h - libraries, modules and functions as the runtime holds them.
 *
 * Ownership: the library owns everything made from its file (docs/design.md, "The library is the
 * unit of ownership"). `users` counts references from outside: modules and functions that
 * callers hold, registry entries, imports from modules of other libraries. Inside, nothing
 * counts. At zero the library is closed. */
#ifndef MB_RUNTIME_H
#define MB_RUNTIME_H

#include <mblob.h>
#include <stdatomic.h>

#include "base/base.h"
#include "core/announced.h"
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

/* Whether code of a library uses the classes of tvm_ffi (ffi_library.h). */
enum mb_cxx { MB_CXX_UNKNOWN, MB_CXX_NONE, MB_CXX_SOME, MB_CXX_ALL };

/* ---- functions (function.c) ------------------------------------------------------------------ */

enum mb_function_kind {
  MB_KERNEL,      /* compiled code of a library */
  MB_SAFE_CALL,   /* the same, of the ffi dialect */
  MB_CALLBACK,    /* mblob_function_create */
  MB_FORWARD,     /* what a module's loader gave, bound to the module's library */
  MB_ENVIRONMENT, /* what TVMBackendGetFuncFromEnv gave, see environment.c */
};

/* The function that one stands for. */
typedef int mb_resolver(mblob_function *function, mblob_function **out);

struct mblob_function {
  uint32_t tag; /* MB_TAG_FUNCTION */
  enum mb_function_kind kind;
  struct mb_library
      *library;             /* whose reference counts for this function; NULL: `references` does */
  atomic_size_t references; /* of a function without a library */
  bool counted;             /* MB_ENVIRONMENT: a reference to its target was added */
  char *name;
  struct mb_ending ending;
  uint32_t alignment;
  uint8_t first_output; /* mblob_function_first_output() */
  bool is_ffi;          /* mblob_function_is_ffi() */
  bool keeps;           /* the same: it keeps tensors that it is given */
  bool is_cxx;          /* the same: a parameter may be an object that is a tensor */
  bool is_assumed;      /* nothing says that it is packed, but an opening (mblob_assume) */
  const char *signature, *prototype; /* "" when unknown */
  union {
    void *address; /* MB_KERNEL: a TVMBackendPackedCFunc; MB_SAFE_CALL: one of that convention */
    struct {
      TVMPackedCFunc call;
      TVMPackedCFuncFinalizer finalize;
      void *resource;
    } callback;
    mblob_function *target; /* MB_FORWARD: owned unless it is of the same library */
    struct {
      _Atomic(mblob_function *) target; /* NULL until it is (again) resolved */
      _Atomic uint64_t generation; /* of the registry that the target is from; 0: it is an import */
      struct mb_replaced *replaced; /* targets of before */
      mb_resolver *resolve;         /* finds the target */
    } environment;                  /* MB_ENVIRONMENT */
  } u;
};

/* A function owned by `library` (no reference counted yet); NULL when memory is out (recorded). */
mblob_function *mb_function_new(enum mb_function_kind kind, struct mb_library *library,
                                const char *name);
void mb_function_free(mblob_function *function);

/* ---- modules (module.c) ---------------------------------------------------------------------- */

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

/* Build the tree that `blob` tells (NULL: a library without one); payloads are at `bytes`. */
int mb_tree_new(struct mb_library *library, const struct mb_blob *blob, const uint8_t *bytes,
                const mblob_open_options *options, struct mb_tree **out);
/* The same bytes lie elsewhere now: payloads at `from` are at `to`. */
void mb_tree_move(struct mb_tree *tree, const uint8_t *from, const uint8_t *to);
/* Take over a tree that nobody holds, for an opening with these options; false if it does not
 * suit. With the library's lock. */
bool mb_tree_take_over(struct mb_tree *tree, const mblob_open_options *options);
/* A tree of one module that is open already, with `self` of that loader (mblob_module_create). */
int mb_tree_new_single(struct mb_library *library, const mblob_loader *loader, void *self,
                       struct mb_tree **out);
/* Close what loaders opened. */
void mb_tree_close(struct mb_tree *tree);
void mb_tree_free(struct mb_tree *tree);

/* Visit `module` and its imports depth first in import order, each once, while `visit` returns
 * 0. Returns what the last call returned. `visit` is not called for `module` itself if
 * `skip_first`. */
typedef int (*mb_visitor)(mblob_module *module, void *argument);
int mb_module_walk(mblob_module *module, bool skip_first, mb_visitor visit, void *argument);

/* Import what `other` imports, in its order. A mblob_status. */
int mb_module_import_all(mblob_module *module, const mblob_module *other);

/* ---- tensors (weights.c) --------------------------------------------------------------------- */

/* What a tensor is, that a caller looks at; NULL: one of which only the name is known. */
void mb_tensor_describe(const char *name, const DLTensor *tensor, mblob_tensor_info *out);

/* ---- lookup (lookup.c) ----------------------------------------------------------------------- */

enum mb_scope { MB_ITSELF, MB_WITH_IMPORTS, MB_IMPORTS_ONLY };
/* The function `name` of `module`, of what it imports (depth first), or of both. No reference is
 * counted: the result lives as long as the library of the module. MBLOB_OK with *out NULL if
 * there is none. */
int mb_module_find(mblob_module *module, const char *name, enum mb_scope scope,
                   mblob_function **out);
/* The same, where modules that cannot be opened are passed by without an error: for what a
 * module may have. */
int mb_module_find_if_open(mblob_module *module, const char *name, enum mb_scope scope,
                           mblob_function **out);
/* As mblob_module_function: *out is counted, and that there is none is an error that says what
 * there is. */
int mb_module_need(mblob_module *module, const char *name, enum mb_scope scope,
                   mblob_function **out);
/* As mb_module_find among the imports of the library modules of all openings. */
int mb_library_find_import(struct mb_library *library, const char *name, mblob_function **out);

/* ---- loaders (loaders.c) --------------------------------------------------------------------- */

/* MBLOB_OK if the tree's modules have the loaders that its opening asked for, else
 * MBLOB_E_LOADER. */
int mb_tree_check_loaders(const struct mb_tree *tree);
/* The function that the module's loader has under `name`; opens the module first. `*closed`:
 * that was not possible (recorded), which says nothing about the name: a search passes by such a
 * module. */
int mb_loader_find(mblob_module *module, const char *name, mblob_function **out, bool *closed);

/* ---- libraries (library.c, link.c) ----------------------------------------------------------- */

struct mb_library {
  struct mb_library *next;
  struct mb_ending ending; /* of who has the last reference */
  void (*end)(struct mb_ending *ending); /* closes it */
  atomic_size_t users;
  struct mb_lock lock; /* trees, functions, environment, openings of modules */
  struct mb_condition opened;
  /* guarded by the list's lock */
  bool loading, closing;
  bool resident;  /* closed, but its code could not be unloaded */
  int32_t unload; /* mblob_unload */
  bool
      is_forgetful; /* it brings only libraries of the language, and calls only functions that keep no
                        address; known once it is linked */
  char *changes;    /* what loading it changed in the process, on the heap; NULL: nothing */
  bool looked;      /* by mblob_look: read, never loaded, and not in the list */
  size_t worker;    /* while it is loading or closing: an mb_thread_id() */

  const char *system_prefix; /* of a statically linked library, which has no file; else NULL */
  enum mb_system_names system_names;
  struct mb_library
      *joined; /* the same code, with the other way to find names; not counted, guarded by `lock` */
  struct mb_source source;
  struct mb_elf elf;
  int copy_fd; /* owned; what the linker is given in place of the file (link_copy.h), -1: the file
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
  struct mb_carried *carried; /* plug-ins in the file (core/plugins.h); fixed once it is loaded */
  struct mb_context context;

  struct mb_tree *trees;
  struct mb_map functions;   /* own kernels by name */
  struct mb_map environment; /* MB_ENVIRONMENT functions by name */
};

/* The options that a host gave, NULL for none, with all members; MBLOB_OK if they can be followed. */
int mb_take_options(const mblob_open_options *given, mblob_open_options *options);
/* As mb_open. */
typedef int mb_opener(const char *path, mblob_module **out);
/* Open what the file has. Takes `source` over; its *out is counted. */
int mb_open_source(struct mb_source *source, const mblob_open_options *options, mblob_module **out);
/* The same of a file, without options; *out is NULL after an error. */
int mb_open(const char *path, mblob_module **out);

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
/* Address of an exported symbol of this very library, NULL if absent. */
void *mb_library_symbol(const struct mb_library *library, const char *name, ElfW(Sym) * symbol);

/* A library that nobody holds, with the file `source`, which it takes over; NULL when memory is out
 * (recorded). */
struct mb_library *mb_library_new(const struct mb_source *source);
/* Free one that is closed, or has nothing yet: what only its code in memory can still refer to. */
void mb_library_free(struct mb_library *library);

/* library_load.c: check everything that the file of a new library tells; the tree that its blob
 * tells, in the file's mapping. No code of the file runs. */
int mb_library_read(struct mb_library *library, const mblob_open_options *options,
                    struct mb_tree **out);
/* The same, then let the linker run; the root of its tree. */
int mb_library_load(struct mb_library *library, const mblob_open_options *options,
                    mb_opener *open, mblob_module **out);
/* Another tree of a library that is in memory; its root. */
int mb_library_add_tree(struct mb_library *library, const mblob_open_options *options,
                        mblob_module **out);

/* link.c: hand the file to the dynamic linker and fill the slots. `open` opens libraries that it
 * needs. */
int mb_library_link(struct mb_library *library, mb_opener *open);
/* Let go of the libraries that one needed which is closed. */
void mb_library_release_needed(struct mb_needed *needed);
/* unload.c: whether nothing can run the code of a library whose last reference goes. */
bool mb_library_may_be_unmapped(const struct mb_library *library);
/* What `is_forgetful` is, as its file tells it. */
bool mb_library_is_forgetful(const struct mb_library *library);
/* One more than the highest symbol that may be undefined. */
uint64_t mb_library_symbols_end(const struct mb_elf *elf);
/* Handlers of signals, and the locale, before code of a library runs. */
#define MB_SIGNALS \
  65 /* one more than the highest of Linux, but for MIPS, whose further ones are real-time signals */
struct mb_process_state {
  uintptr_t handlers[MB_SIGNALS];
  char locale[256];
};
void mb_process_state_take(struct mb_process_state *state);
/* What is otherwise now, as a text on the heap for people; NULL: nothing, or no memory. */
char *mb_process_state_changes(const struct mb_process_state *before);
/* Close the linker's handle; whether the library is still in memory, for itself or because others
 * hold it. */
bool mb_library_unlink(struct mb_library *library);

/* code_names.c: the names of functions that its code asks for by TVMBackendGetFuncFromEnv, as far as
 * the file tells them; one may come twice. They lie in the file's mapping. */
typedef void (*mb_name_visitor)(const char *name, void *context);
void mb_library_code_names(const struct mb_library *library, mb_name_visitor visit, void *context);

/* ---- environment (environment.c) ------------------------------------------------------------- */

/* What TVMBackendGetFuncFromEnv gives to a kernel of `library` (NULL: of none): borrowed, valid
 * as long as the library's code is in memory. */
int mb_environment_get(struct mb_library *library, const char *name, mblob_function **out);
/* The function behind one; resolves it again after the library was closed and opened. */
int mb_environment_target(mblob_function *function, mblob_function **out);
/* Forget what the functions of a library that closes stand for. */
void mb_environment_reset(struct mb_library *library);

/* ---- interrupts (interrupt.c) ---------------------------------------------------------------- */

/* What the host offers: not 0 after it recorded an error, with which the call is to end. */
typedef int (*mb_interrupt_hook)(void);
void mb_interrupt_ask(mb_interrupt_hook asked);
/* Ask now, if it is time. A mblob_status. */
int mb_interrupt_now(void);
/* The same once in `MB_INTERRUPT_STEPS` steps of a loop, which `steps` counts. */
#define MB_INTERRUPT_STEPS 16
static inline int mb_interrupt_check(unsigned *steps) {
  return ++*steps % MB_INTERRUPT_STEPS ? MBLOB_OK : mb_interrupt_now();
}

/* ---- global functions (globals.c) ------------------------------------------------------------ */

/* As mblob_register_global. */
int mb_global_register(const char *name, mblob_function *function, bool replace);
int mb_global_get(const char *name, mblob_function **out); /* NULL in *out if unknown; counted */
/* As mblob_get_global. */
int mb_global_need(const char *name, mblob_function **out);
/* Changes, upwards from 1, whenever a name gets another function. */
extern uint64_t mb_global_generation_now; /* the same, read atomically */
uint64_t mb_global_generation(void);
int mb_global_remove(const char *name);
/* All names, copied into one block of the heap. */
int mb_global_names(const char ***out, size_t *count);

#endif
