/* The list of the libraries that are open in this process, and the counting of their references. With
 * the last reference a function ends the library that core/library/library.c stored in it. */
#include "core/loaded/loaded.h"

#include "base/base.h"

struct mb_loaded mb_loaded = {.lock = MB_LOCK_INIT, .changed = MB_CONDITION_INIT};

void mb_library_retain(struct mb_library *library) {
  atomic_fetch_add_explicit(&library->users, 1, memory_order_relaxed);
}

/* Only the caller with the last reference passes the loop, so a library ends once. */
void mb_library_release(struct mb_library *library) {
  size_t users = atomic_load_explicit(&library->users, memory_order_relaxed);
  while (users > 1)
    if (atomic_compare_exchange_weak_explicit(&library->users, &users, users - 1,
                                              memory_order_release, memory_order_relaxed))
      return;
  mb_destroy_library(&library->ending, library->end);
}

mblob_module *mblob_module_retain(mblob_module *module) {
  if (module) {
    atomic_fetch_add_explicit(&module->tree->users, 1, memory_order_relaxed);
    mb_library_retain(module->library);
  }
  return module;
}

void mblob_module_release(mblob_module *module) {
  if (!module) return;
  struct mb_library *library = module->library;
  atomic_fetch_sub_explicit(&module->tree->users, 1, memory_order_release);
  mb_library_release(library);
}
