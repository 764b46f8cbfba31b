/* Opening and closing libraries, one per file in a process. */
#define _GNU_SOURCE
#include "core/library/library.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "core/call/call.h"
#include "core/link/link.h"
#include "core/loaded/loaded.h"
#include "core/plugin/plugin.h"

static const char *name_of_source(const struct mb_source *source) {
  return *source->path ? source->path : "memory";
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

void mb_library_free(struct mb_library *library) {
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
  struct mb_library **link = &mb_loaded.first;
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
    mb_library_free(library);
  }
}

static void close_library(struct mb_library *library) {
  for (struct mb_tree *tree = library->trees; tree; tree = tree->next) mb_tree_close(tree);
  mb_environment_reset(library);
  free_trees(library);
  mb_destroy_waiting();
  struct mb_needed *needed = library->needed;
  library->needed = NULL;
  mb_lock(&mb_loaded.lock);
  unload(library);
  mb_wake(&mb_loaded.changed);
  mb_unlock(&mb_loaded.lock);
  mb_library_release_needed(needed);
}

static void end_library(struct mb_destruction *ending) {
  struct mb_library *library = (void *)((char *)ending - offsetof(struct mb_library, ending));
  mb_lock(&mb_loaded.lock);
  bool last = atomic_fetch_sub_explicit(&library->users, 1, memory_order_acq_rel) == 1;
  if (last) {
    library->closing = true;
    library->worker = mb_thread_id();
  }
  mb_unlock(&mb_loaded.lock);
  if (last) close_library(library);
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
  library->end = end_library;
  return library;
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
    struct mb_library *l = mb_loaded.first;
    while (l && (l->source.inode != source->inode || l->source.device != source->device))
      l = l->next;
    *out = l;
    if (!l || (!l->closing && !l->loading)) return MBLOB_OK;
    if (mb_thread_is_gone(l->worker)) {
      abandon(l);
    } else if (l->worker != mb_thread_id()) {
      mb_wait(&mb_loaded.changed, &mb_loaded.lock);
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
    library->next = mb_loaded.first;
    mb_loaded.first = library;
  }
  library->loading = true;
  library->worker = mb_thread_id();
  set_unload(library, options->unload);
  int status = mb_library_load(library, options, out);
  library->loading = false;
  mb_wake(&mb_loaded.changed);
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

/* True if somebody wrote into the file since it was loaded: what is in memory is then a mixture
 * of both. */
static bool was_overwritten(const struct mb_library *library, const struct mb_source *now) {
  const struct mb_source *then = &library->source;
  return then->size != now->size || then->changed.tv_sec != now->changed.tv_sec ||
         then->changed.tv_nsec != now->changed.tv_nsec;
}

/* True if an option is none of its enumerators, which count from 0 to `last`; recorded. */
static bool is_wrong(const char *option, int32_t value, int32_t last) {
  if ((uint32_t)value <= (uint32_t)last) return false;
  (void)mb_fail(MBLOB_E_ARGUMENT, "options: %s is %d, expected a mblob_%s", option, value, option);
  return true;
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
  if (is_wrong("verify", options->verify, MBLOB_VERIFY_OFF) ||
      is_wrong("missing", options->missing, MBLOB_MISSING_STUB) ||
      is_wrong("unload", options->unload, MBLOB_UNLOAD_ALWAYS) ||
      is_wrong("assume", options->assume, MBLOB_ASSUME_PACKED))
    return MBLOB_E_ARGUMENT;
  if (options->loader_count && !options->loaders)
    return mb_fail(MBLOB_E_ARGUMENT, "options: %u loaders, but the list is NULL",
                   options->loader_count);
  for (uint32_t i = 0; i < options->loader_count; i++)
    if (!options->loaders[i] || !options->loaders[i]->type_key || !options->loaders[i]->function)
      return mb_fail(MBLOB_E_ARGUMENT, "options: loader %u has no type key or no function callback",
                     i);
    else if (mb_no_loader("options", options->loaders[i]))
      return MBLOB_E_ARGUMENT;
  return MBLOB_OK;
}

int mb_open_source(struct mb_source *source, const mblob_open_options *given, mblob_module **out) {
  mblob_open_options taken, *const options = &taken;
  int status = mb_take_options(given, options);
  if (status) {
    mb_source_close(source);
    return status;
  }
  char *name = strdup(name_of_source(source));
  struct mb_library *library = NULL, *unwanted = NULL;
  mb_lock(&mb_loaded.lock);
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
  mb_unlock(&mb_loaded.lock);
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
