/* builtins.h - builtins of Relax that compiled functions call for each operator, on objects of the
 * ffi as they are. */
#ifndef MB_FFI_BUILTINS_H
#define MB_FFI_BUILTINS_H

#include "objects.h"

/* Let the object of a function that was looked up by name know which builtin that is now. */
void mb_builtin_prepare(enum mb_releases releases, void *object, mblob_function *function);
/* The number of the registry's state, once there was a function to prepare. */
extern const uint64_t *mb_registry_generation;

/* What calls a builtin on values of the ffi, with its object; NULL of other functions. It calls the
 * function as any other is where arguments are wrong or rare. */
static inline mb_safe_call mb_builtin_of(enum mb_releases releases, void *object) {
  if (!object || !mb_object_is_own(releases, object)) return NULL;
  struct mb_record *record = mb_object_record(object);
  const uint64_t known = atomic_load_explicit(&record->generation, memory_order_acquire);
  if (!known) return NULL;
  /* Another function may have come under the name since. */
  const uint64_t *now = __atomic_load_n(&mb_registry_generation, __ATOMIC_RELAXED);
  if (known != __atomic_load_n(now, __ATOMIC_ACQUIRE))
    mb_builtin_prepare(releases, object, record->value.v_handle);
  return atomic_load_explicit(&record->native, memory_order_relaxed);
}

#endif
