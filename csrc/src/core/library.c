/* Opening and closing libraries, one per file in a process. */
#define _GNU_SOURCE
#include "core/runtime.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "core/argument.h"
#include "core/plugins.h"

/* Held while the list changes and around the dynamic linker: what is in the list is what is loaded.
 * Constructors of a library may open others. Loaders are never called with it. */
static struct mb_lock list_lock = MB_LOCK_INIT;
static struct mb_condition list_changed = MB_CONDITION_INIT;
static struct mb_library *libraries;

static const char *name_of(const struct mb_source *source) {
  return *source->path ? source->path : "memory";
}

/* ---- libraries ------------------------------------------------------------------------------- */

struct mb_library *mb_library_new(const struct mb_source *source) {
  struct mb_library *library = calloc(1, sizeof(*library));
  if (!library) {
    (void)mb_fail_memory(sizeof(*library));
    return NULL;
  }
  mb_lock_init(&library->lock);
  mb_condition_init(&library->opened);
  library->source = *source;
  library->copy_fd = -1;
  return library;
}

/* A library that has no file. */
static struct mb_library *new_library_without_file(void) {
  const struct mb_source nowhere = {.fd = -1, .dir_fd = -1, .path = strdup("")};
  struct mb_library *library = nowhere.path ? mb_library_new(&nowhere) : NULL;
  if (!library) {
    free(nowhere.path);
    return NULL;
  }
  library->context = (struct mb_context){MB_TAG_CONTEXT, library};
  atomic_store(&library->users, 1);
  return library;
}

int mb_library_new_system(const char *prefix, enum mb_system_names names, struct mb_library **out) {
  *out = new_library_without_file();
  if (!*out) return MBLOB_E_MEMORY;
  (*out)->system_prefix = prefix;
  (*out)->is_compiled_by_tvm = true; /* what is announced is packed, or in the table */
  (*out)->system_names = names;
  return MBLOB_OK;
}

void mb_library_join(struct mb_library *library, struct mb_library *other) {
  mb_lock(&library->lock);
  library->joined = other;
  mb_unlock(&library->lock);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void free_functions(struct mb_map *functions) {
  const struct mb_map_item *item;
  for (size_t i = 0; (item = mb_map_next(functions, &i));) mb_function_free(item->value);
  mb_map_free(functions);
}

static void free_trees(struct mb_library *library) {
  while (library->trees) {
    struct mb_tree *tree = library->trees;
    library->trees = tree->next;
    mb_tree_free(tree);
  }
}

/* What only the code in memory can still refer to. */
static void free_remains(struct mb_library *library) {
  free_functions(&library->environment);
  free(library->link_name);
  free(library->changes);
  mb_source_close(&library->source);
  if (library->copy_fd >= 0) (void)close(library->copy_fd);
  mb_lock_destroy(&library->lock);
  mb_condition_destroy(&library->opened);
  free(library);
}

static void unlist(struct mb_library *library) {
  struct mb_library **link = &libraries;
  while (*link && *link != library) link = &(*link)->next;
  if (*link) *link = library->next;
}

/* Closed, but the code stays: the next opening recognizes it by the file. */
static void stay(struct mb_library *library) {
  struct mb_source file = library->source;
  mb_source_close(&library->source);
  library->source.device = file.device;
  library->source.inode = file.inode;
  library->source.changed = file.changed;
  library->source.size = file.size;
  free(library->link_name);
  library->link_name = NULL;
  library->closing = false;
}

/* With the list's lock. Unload; if the code stays, because others hold it or it cannot be
 * unloaded, its static variables stay, and with them handles from TVMBackendGetFuncFromEnv:
 * those must not dangle, so the functions remain, pointing nowhere, for the next opening to
 * revive. */
static void unload(struct mb_library *library) {
  free_functions(&library->functions);
  mb_function_table_free(&library->table);
  mb_carried_free(library);
  if (library->handle) library->resident = mb_library_unlink(library);
  if (library->resident) {
    stay(library);
  } else {
    unlist(library);
    free_remains(library);
  }
}

static void close_library(struct mb_library *library) {
  for (struct mb_tree *tree = library->trees; tree; tree = tree->next) mb_tree_close(tree);
  mb_environment_reset(library);
  free_trees(library);
  mb_end_waiting();
  struct mb_needed *needed = library->needed;
  library->needed = NULL;
  mb_lock(&list_lock);
  unload(library);
  mb_wake(&list_changed);
  mb_unlock(&list_lock);
  mb_library_release_needed(needed);
}

void mb_library_retain(struct mb_library *library) {
  atomic_fetch_add_explicit(&library->users, 1, memory_order_relaxed);
}

static void end_library(struct mb_ending *ending) {
  struct mb_library *library = (void *)((char *)ending - offsetof(struct mb_library, ending));
  mb_lock(&list_lock);
  bool last = atomic_fetch_sub_explicit(&library->users, 1, memory_order_acq_rel) == 1;
  if (last) {
    library->closing = true;
    library->worker = mb_thread_id();
  }
  mb_unlock(&list_lock);
  if (last) close_library(library);
}

/* Nobody but who has the only reference gets to the end, so one end at most waits. */
void mb_library_release(struct mb_library *library) {
  size_t users = atomic_load_explicit(&library->users, memory_order_relaxed);
  while (users > 1)
    if (atomic_compare_exchange_weak_explicit(&library->users, &users, users - 1,
                                              memory_order_release, memory_order_relaxed))
      return;
  mb_end_library(&library->ending, end_library);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* With the lock. A thread that the parent of this process has was opening or closing the
 * library. Nobody goes on with that, so what it has is left as it is; its code stays in memory,
 * and so do handles of functions that the code keeps. */
static void abandon(struct mb_library *library) {
  if (library->loading) {
    unlist(library);
    return;
  }
  library->trees = NULL;
  library->needed = NULL;
  mb_environment_reset(library);
  free_functions(&library->functions);
  mb_function_table_free(&library->table);
  mb_carried_free(library);
  library->handle = NULL;
  library->resident = true;
  stay(library);
}

/* The library of that file, waiting for one that is just closed; NULL if there is none. With the
 * lock. */
static int find_library(const struct mb_source *source, struct mb_library **out) {
  for (;;) {
    struct mb_library *l = libraries;
    while (l && (l->source.inode != source->inode || l->source.device != source->device))
      l = l->next;
    *out = l;
    if (!l || (!l->closing && !l->loading)) return MBLOB_OK;
    if (mb_thread_is_gone(l->worker)) {
      abandon(l);
    } else if (l->worker != mb_thread_id()) {
      mb_wait(&list_changed, &list_lock);
    } else {
      return mb_fail(MBLOB_E_ARGUMENT,
                     l->loading
                         ? "a constructor of the library opens the library itself"
                         : "a loader's close function opens the library that is being closed");
    }
  }
}

/* Of several openings, the one that keeps the library counts. */
static void set_unload(struct mb_library *library, int32_t unload) {
  if (library->unload != MBLOB_UNLOAD_NEVER && unload) library->unload = unload;
}

/* The first opening of a file. Takes `source` over. With the lock. */
static int open_first(struct mb_library *resident, struct mb_source *source,
                      const mblob_open_options *options, mblob_module **out) {
  struct mb_library *library = resident ? resident : mb_library_new(source);
  if (!library) {
    mb_source_close(source);
    return MBLOB_E_MEMORY;
  }
  library->source = *source;
  atomic_store(&library->users, 1);
  if (!resident) {
    library->next = libraries;
    libraries = library;
  }
  library->loading = true;
  library->worker = mb_thread_id();
  set_unload(library, options->unload);
  int status = mb_library_load(library, options, out);
  library->loading = false;
  mb_wake(&list_changed);
  if (status) {
    atomic_store(&library->users, 0);
    free_trees(library);
    struct mb_needed *needed = library->needed;
    library->needed = NULL;
    unload(library);
    mb_library_release_needed(needed);
  }
  return status;
}

/* Whether somebody wrote into the file since it was loaded: what is in memory is then a mixture
 * of both. */
static bool was_overwritten(const struct mb_library *library, const struct mb_source *now) {
  const struct mb_source *then = &library->source;
  return then->size != now->size || then->changed.tv_sec != now->changed.tv_sec ||
         then->changed.tv_nsec != now->changed.tv_nsec;
}

/* The options of a host that was compiled with an older header have fewer members; the others are
 * 0. */
int mb_take_options(const mblob_open_options *given, mblob_open_options *options) {
  const size_t first = offsetof(mblob_open_options, unload);
  *options = (mblob_open_options){.struct_size = sizeof(*options)};
  if (!given) return MBLOB_OK;
  if (mb_check_struct_size("options", given->struct_size, first)) return MBLOB_E_ARGUMENT;
  memcpy(options, given,
         given->struct_size < sizeof(*options) ? given->struct_size : sizeof(*options));
  if (options->verify < MBLOB_VERIFY_HEADER || options->verify > MBLOB_VERIFY_OFF)
    return mb_fail(MBLOB_E_ARGUMENT, "options: verify is %d, expected a mblob_verify",
                   options->verify);
  if (options->missing < MBLOB_MISSING_ERROR || options->missing > MBLOB_MISSING_STUB)
    return mb_fail(MBLOB_E_ARGUMENT, "options: missing is %d, expected a mblob_missing",
                   options->missing);
  if (options->unload < MBLOB_UNLOAD_IF_SAFE || options->unload > MBLOB_UNLOAD_ALWAYS)
    return mb_fail(MBLOB_E_ARGUMENT, "options: unload is %d, expected a mblob_unload",
                   options->unload);
  if (options->assume < MBLOB_ASSUME_NOTHING || options->assume > MBLOB_ASSUME_PACKED)
    return mb_fail(MBLOB_E_ARGUMENT, "options: assume is %d, expected a mblob_assume",
                   options->assume);
  if (options->loader_count && !options->loaders)
    return mb_fail(MBLOB_E_ARGUMENT, "options: %u loaders, but the list is NULL",
                   options->loader_count);
  for (uint32_t i = 0; i < options->loader_count; i++)
    if (!options->loaders[i] || !options->loaders[i]->type_key || !options->loaders[i]->function)
      return mb_fail(MBLOB_E_ARGUMENT, "options: loader %u has no type key or no function callback",
                     i);
  return MBLOB_OK;
}

int mb_open_source(struct mb_source *source, const mblob_open_options *given, mblob_module **out) {
  mblob_open_options taken, *const options = &taken;
  int status = mb_take_options(given, options);
  if (status) {
    mb_source_close(source);
    return status;
  }
  char *name = strdup(name_of(source));
  struct mb_library *library = NULL, *unwanted = NULL;
  mb_lock(&list_lock);
  status = find_library(source, &library);
  if (status) {
    mb_source_close(source);
  } else if (library && was_overwritten(library, source)) {
    mb_source_close(source);
    status = mb_fail(MBLOB_E_IO,
                     "was overwritten in place while it is loaded; "
                     "write a new file and rename it over the old");
  } else if (library && library->handle) {
    mb_library_retain(library);
    mb_source_close(source);
    set_unload(library, options->unload);
    status = mb_library_add_tree(library, options, out);
    if (status) unwanted = library;
  } else {
    status = open_first(library, source, options, out);
  }
  mb_unlock(&list_lock);
  if (status) mb_error_prefix(name ? name : "library");
  free(name);
  if (unwanted) mb_library_release(unwanted); /* may close it: not with the lock */
  return status;
}

int mb_open(const char *path, mblob_module **out) {
  struct mb_source source;
  int status = mb_source_open(path, &source);
  if (!status) status = mb_open_source(&source, NULL, out);
  if (status) *out = NULL;
  return status;
}

/* ---- modules without a file ------------------------------------------------------------------ */

int mblob_module_create(const mblob_loader *loader, void *self, mblob_module **out) {
  if (MB_IS_NULL(out)) return MBLOB_E_ARGUMENT;
  *out = NULL;
  if (mb_no_loader(__func__, loader)) return MBLOB_E_ARGUMENT;
  if (!loader->function)
    return mb_fail(MBLOB_E_ARGUMENT, "mblob_module_create: loader->function is NULL");
  struct mb_library *library = new_library_without_file();
  if (!library) return MBLOB_E_MEMORY;
  int status = mb_tree_new_single(library, loader, self, &library->trees);
  if (status)
    free_remains(library);
  else
    *out = &library->trees->modules[0];
  return status;
}

int mb_plugin_carried_visit(mb_plugin_visitor visit, void *context) {
  int result = 0;
  mb_lock(&list_lock);
  for (const struct mb_library *l = libraries; !result && l; l = l->next)
    result = mb_carried_visit(l, visit, context);
  mb_unlock(&list_lock);
  return result;
}

struct mb_library *mb_plugin_carrier(const char *name, int device_type) {
  mb_lock(&list_lock);
  struct mb_library *found = libraries;
  while (found && !(atomic_load(&found->users) && mb_carried_has(found, name, device_type)))
    found = found->next;
  if (found) mb_library_retain(found);
  mb_unlock(&list_lock);
  return found;
}
