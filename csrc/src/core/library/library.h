/* library.h - libraries: opened, their modules, what is looked up in them, closed. */
#ifndef MB_LIBRARY_H
#define MB_LIBRARY_H

#include "core/library/builtin_class.h"  /* modules that are written in C here */
#include "core/library/created.h"        /* modules without a file */
#include "core/library/system_library.h" /* statically linked libraries */
#include "core/link/link.h"
#include "core/loaded/loaded.h"

/* ---- opening (library.c, load.c) ------------------------------------------------------------- */

/* The options that a host gave, NULL for none, with all members; MBLOB_OK if they can be followed. */
int mb_take_options(const mblob_open_options *given, mblob_open_options *options);
/* Open what the file has. Takes `source` over; its *out is counted. */
int mb_open_source(struct mb_source *source, const mblob_open_options *options, mblob_module **out);
/* The same of a file, without options; *out is NULL after an error. */
int mb_open(const char *path, mblob_module **out);

/* A library that nobody holds, with the file `source`, which it takes over; NULL when memory is out
 * (recorded). */
/* What dlopen gave for the library of a module, valid as long as the module is; NULL: it is no library, or part
 * of the program. For Python. */
MBLOB_API void *mblob_module_dlhandle(mblob_module *module);

struct mb_library *mb_library_new(const struct mb_source *source);
/* Free one that is closed, or has nothing yet: what only its code in memory can still refer to. */
void mb_library_free(struct mb_library *library);

/* load.c: check everything that the file of a new library tells; the tree that its blob
 * tells, in the file's mapping. No code of the file runs. */
int mb_library_read(struct mb_library *library, const mblob_open_options *options,
                    struct mb_tree **out);
/* The same, then let the linker run; the root of its tree. */
int mb_library_load(struct mb_library *library, const mblob_open_options *options,
                    mblob_module **out);
/* Another tree of a library that is in memory; its root. */
int mb_library_add_tree(struct mb_library *library, const mblob_open_options *options,
                        mblob_module **out);

/* ---- trees of modules (module.c) ------------------------------------------------------------- */

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

/* ---- tensors (data_modules.c) --------------------------------------------------------------------- */

/* What a tensor is, that a caller looks at; NULL: one of which only the name is known. */
void mb_tensor_describe(const char *name, const DLTensor *tensor, mblob_tensor_info *out);

/* The tensors of a data module, which is no library; none if it is of another kind. */
int mb_module_read_tensors(mblob_module *module, const struct mb_tensors **out);

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

/* The loaders of an opening, whose modules are not made yet. */
struct mb_opening_loaders {
  struct mb_library *library;
  const mblob_open_options *options;
};
/* What the loader of a key tells of its payloads: `find` of a mb_measures. */
bool mb_opening_measure(const void *loaders, struct mb_slice key, struct mb_measure *out);
/* And `run`. */
bool mb_run_measure(const struct mb_measure *measure, struct mb_cursor *c);
/* For Python: how many bytes at the start of `bytes` are a payload of the key, SIZE_MAX: all that is
 * left. `*known`: 0: no loader and no plug-in in a file has the key; 1: one tells it; 2: one tells
 * nothing. `out` NULL: only that. */
MBLOB_API int mblob_payload_measure(const char *type_key, const void *bytes, size_t size,
                                    size_t *out, int *known);
/* MBLOB_OK if the tree's modules have the loaders that its opening asked for, else
 * MBLOB_E_LOADER. */
int mb_tree_check_loaders(const struct mb_tree *tree);
/* The function that the module's loader has under `name`; opens the module first. `*closed`:
 * that was not possible (recorded), which says nothing about the name: a search passes by such a
 * module. */
int mb_loader_find(mblob_module *module, const char *name, mblob_function **out, bool *closed);

/* ---- environment (environment.c) ------------------------------------------------------------- */

/* What TVMBackendGetFuncFromEnv gives to a kernel of `library` (NULL: of none): borrowed, valid
 * as long as the library's code is in memory. */
int mb_environment_get(struct mb_library *library, const char *name, mblob_function **out);
/* The function behind one; resolves it again after the library was closed and opened. */
int mb_environment_target(mblob_function *function, mblob_function **out);
/* Forget what the functions of a library that closes stand for. */
void mb_environment_reset(struct mb_library *library);

#endif
