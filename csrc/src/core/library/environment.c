/* TVMBackendGetFuncFromEnv, by which kernels get functions: one of the imports, else a global one.
 *
 * Kernels keep these handles in static variables as long as their code is in memory, which can
 * be longer than the library is open (another dlopen of the file, C++ code that cannot be
 * unloaded). So they get a function of their own that points to the real one, and points nowhere
 * while the library is closed. When a global function is replaced, it points to the new one from
 * then on, as in TVM. */
#include <stdlib.h>

#include "core/call/call.h"
#include "core/library/library.h"
#include "core/loaded/loaded.h"

/* Handles given without a library (its context slot was empty); for the life of the process. */
static struct mb_map orphans;
static struct mb_lock orphans_lock = MB_LOCK_INIT;

/* A global function that was replaced, which a call may still be in; kept until the library
 * closes. */
struct mb_replaced {
  struct mb_replaced *next;
  mblob_function *function; /* a reference */
};

static struct mb_lock refresh_lock = MB_LOCK_INIT;

/* The real function; `*counted` tells whether a reference to it was added. */
static int resolve(struct mb_library *library, const char *name, mblob_function **out,
                   bool *counted) {
  *out = NULL;
  *counted = false;
  int status = library ? mb_library_find_import(library, name, out) : MBLOB_OK;
  if (*out) return MBLOB_OK;
  /* A module that cannot be opened does not hide a global function. */
  mblob_function *global = NULL;
  int found = mb_global_get(name, &global);
  if (found) return found;
  if (global) {
    *out = global;
    *counted = true;
    return MBLOB_OK;
  }
  if (status) return status;
  return mb_fail(MBLOB_E_NOT_FOUND,
                 "Cannot find function %s in the imported modules or global registry", name);
}

static bool is_current(mblob_function *function) {
  uint64_t found = atomic_load_explicit(&function->u.environment.generation, memory_order_acquire);
  return !found || found == mb_global_generation();
}

/* The global function that has the name now; the one of before if none has, or memory is out. */
static mblob_function *refreshed(mblob_function *function) {
  mb_lock(&refresh_lock);
  uint64_t generation = mb_global_generation();
  mblob_function *old = atomic_load(&function->u.environment.target), *now = NULL;
  if (!is_current(function) && mb_global_get(function->name, &now) == MBLOB_OK) {
    struct mb_replaced *entry = now && now != old ? malloc(sizeof(*entry)) : NULL;
    if (entry) {
      *entry = (struct mb_replaced){function->u.environment.replaced, old};
      function->u.environment.replaced = entry;
      atomic_store_explicit(&function->u.environment.target, now, memory_order_release);
      old = now;
    } else {
      mblob_function_release(now);
    }
    atomic_store_explicit(&function->u.environment.generation, generation, memory_order_release);
  }
  mb_unlock(&refresh_lock);
  return old;
}

/* Take what was resolved, unless another thread was faster. The generation is there before the
 * target, so who sees the target knows how old it is. */
static void settle(mblob_function *function, mblob_function *target, bool counted,
                   uint64_t generation) {
  mb_lock(&refresh_lock);
  bool first = !atomic_load(&function->u.environment.target);
  if (first) {
    function->counted = counted;
    if (counted)
      atomic_store_explicit(&function->u.environment.generation, generation, memory_order_release);
    atomic_store_explicit(&function->u.environment.target, target, memory_order_release);
  }
  mb_unlock(&refresh_lock);
  if (!first && counted) mblob_function_release(target);
}

int mb_environment_target(mblob_function *function, mblob_function **out) {
  for (;;) {
    *out = atomic_load_explicit(&function->u.environment.target, memory_order_acquire);
    if (*out) { /* read again behind the generation: another thread may have refreshed both since */
      *out = is_current(function)
                 ? atomic_load_explicit(&function->u.environment.target, memory_order_acquire)
                 : refreshed(function);
      return MBLOB_OK;
    }
    bool counted = false;
    uint64_t generation = mb_global_generation();
    mblob_function *target = NULL;
    int status = resolve(function->library, function->name, &target, &counted);
    if (status) return status;
    settle(function, target, counted, generation);
  }
}

/* Forget what a function stands for. */
static void forget_target(mblob_function *function) {
  mblob_function *target = atomic_exchange(&function->u.environment.target, NULL);
  atomic_store(&function->u.environment.generation, 0);
  /* References were added to global functions only; those of the own imports are the library's. */
  if (target && function->counted) mblob_function_release(target);
  function->counted = false;
  while (function->u.environment.replaced) {
    struct mb_replaced *entry = function->u.environment.replaced;
    function->u.environment.replaced = entry->next;
    mblob_function_release(entry->function);
    free(entry);
  }
}

int mb_environment_get(struct mb_library *library, const char *name, mblob_function **out) {
  struct mb_map *map = library ? &library->environment : &orphans;
  struct mb_lock *lock = library ? &library->lock : &orphans_lock;
  mblob_function *target = NULL;
  mb_lock(lock);
  *out = mb_map_get(map, name);
  mb_unlock(lock);
  if (*out) return mb_environment_target(*out, &target);
  mblob_function *function = mb_function_new(MB_ENVIRONMENT, library, name);
  if (!function) return MBLOB_E_MEMORY;
  function->u.environment.resolve = mb_environment_target;
  int status = mb_environment_target(function, &target);
  mb_lock(lock);
  *out = status ? NULL : mb_map_get(map, name);
  bool kept = !status && !*out && mb_map_put(map, function->name, function);
  mb_unlock(lock);
  if (kept) *out = function;
  if (!kept) {
    forget_target(function);
    mb_function_free(function);
  }
  return status ? status : *out ? MBLOB_OK : MBLOB_E_MEMORY;
}

void mb_environment_reset(struct mb_library *library) {
  const struct mb_map_item *item;
  for (size_t i = 0; (item = mb_map_next(&library->environment, &i));) forget_target(item->value);
}
