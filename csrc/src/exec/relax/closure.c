/* Closures: functions of the program as values. */
#include "exec/relax/closure.h"

#include <stdlib.h>

#include "exec/relax/machine.h"

void relax_link_release(struct relax_link *link) {
  if (link && atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) == 1)
    free(link);
}

static void clear_bound(struct relax_closure *closure) {
  for (size_t i = 0; i < closure->count; i++) relax_clear(&closure->bound[i]);
  if (closure->is_block)
    mb_block_give(closure->bound, closure->count * sizeof(*closure->bound));
  else
    free(closure->bound);
  closure->bound = NULL;
  closure->count = 0;
}

static void release_closure(void *resource) {
  struct relax_closure *closure = resource;
  clear_bound(closure);
  relax_link_release(closure->link);
  mblob_module_release(closure->module);
  mb_block_give(closure, sizeof(*closure));
}

static int call_closure(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                        void *resource) {
  const struct relax_closure *closure = resource;
  struct relax_machine *m = closure->link->machine;
  if (!m)
    return mb_fail(MBLOB_E_KERNEL, "RuntimeError: %s: the machine of the function is gone",
                   closure->function->name);
  return closure->link->call(m, closure, args, codes, count, ret);
}

struct relax_closure *relax_closure_of(const mblob_function *function) {
  const bool is_one =
      function && function->kind == MB_CALLBACK && function->u.callback.call == call_closure;
  return is_one ? function->u.callback.resource : NULL;
}

int relax_closure_new(struct relax_machine *m, const struct relax_function *f,
                      const struct relax_value *bound, size_t count, bool weak,
                      mblob_function **out) {
  struct relax_closure *closure = mb_block_take(sizeof(*closure));
  *out = NULL;
  if (!closure) return mb_fail_memory(sizeof(*closure));
  closure->is_block = count != 0;
  closure->bound = count ? mb_block_take_unset(count * sizeof(*bound)) : NULL;
  int status = count && !closure->bound
                   ? mb_fail_memory(count * sizeof(*bound))
                   : mblob_function_create(call_closure, closure, release_closure, out);
  if (status) {
    if (closure->bound) mb_block_give(closure->bound, count * sizeof(*bound));
    mb_block_give(closure, sizeof(*closure));
    return status;
  }
  (*out)->takes = MBLOB_ARGUMENTS_KEPT;
  (*out)->alignment = MB_DEFAULT_ALIGNMENT; /* kernels assume it */
  closure->link = m->link;
  atomic_fetch_add_explicit(&m->link->references, 1, memory_order_relaxed);
  closure->module = weak ? NULL : mblob_module_retain(m->self);
  closure->function = f;
  for (; closure->count < count; closure->count++) {
    closure->bound[closure->count] = bound[closure->count];
    relax_retain(bound[closure->count]);
  }
  return MBLOB_OK;
}

void relax_closure_rebind(struct relax_closure *closure, const struct relax_function *f,
                          struct relax_value *bound, size_t count, bool drops_result) {
  clear_bound(closure);
  closure->function = f;
  closure->bound = bound;
  closure->is_block = false;
  closure->count = count;
  closure->drops_result = drops_result;
}
