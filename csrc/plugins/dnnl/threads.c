#include "threads.h"

#include <stdatomic.h>

#include "base/base.h"
#include "common.h"

/* As many as loops of kernels may have (runtime.NumThreads), 0 if nobody tells. */
static int threads_of_host(void) {
  const mblob_host *host = mb_plugin_host();
  struct mblob_function *function;
  TVMValue value = {0};
  int code = kTVMNullptr;
  if (host->global_function("runtime.NumThreads", &function)) return 0;
  bool is_known =
      !host->function_call(function, NULL, NULL, 0, &value, &code) && code == kTVMArgInt;
  host->function_release(function);
  return is_known && value.v_int64 > 0 && value.v_int64 <= 4096 ? (int)value.v_int64 : 0;
}

/* OpenMP's threads stay behind when a process forks, and the child would wait for them for ever. */
static atomic_uint ran; /* 1 + mb_forks() when they began; 0: never */

bool dn_threads_are_lost(void) {
  const unsigned when = atomic_load_explicit(&ran, memory_order_relaxed);
  return when && when != mb_forks() + 1;
}

int dn_threads_begin(const struct dn_library *library, int *before) {
  if (!library->get_threads || !library->set_threads) return *before = 0;
  *before = library->get_threads();
  int wanted = dn_threads_are_lost() ? 1 : threads_of_host();
  if (!wanted) wanted = *before;
  if (wanted > 1) atomic_store(&ran, mb_forks() + 1);
  dn_threads_set(library, *before, wanted);
  return wanted;
}
