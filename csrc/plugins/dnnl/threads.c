#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>

#include "host.h"

/* As many as loops of kernels may have (runtime.NumThreads), 0 if nobody tells. */
static int threads_of_host(void) {
  const mblob_host *host = mb_plugin_host();
  struct mblob_function *function;
  TVMValue value = {0};
  int code = kTVMNullptr;
  if (host->global_function("runtime.NumThreads", &function)) return 0;
  bool told = !host->function_call(function, NULL, NULL, 0, &value, &code) && code == kTVMArgInt;
  host->function_release(function);
  return told && value.v_int64 > 0 && value.v_int64 <= 4096 ? (int)value.v_int64 : 0;
}

/* OpenMP's threads stay behind when a process forks, and the child would wait for them for ever. */
static atomic_bool threads_ran, threads_lost;

static void in_child(void) {
  if (atomic_load(&threads_ran)) atomic_store(&threads_lost, true);
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, in_child); }

bool dn_threads_are_lost(void) { return atomic_load_explicit(&threads_lost, memory_order_relaxed); }

int dn_threads_begin(const struct dn_library *library, int *before) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, watch_forks);
  if (!library->get_threads || !library->set_threads) return *before = 0;
  *before = library->get_threads();
  int wanted = dn_threads_are_lost() ? 1 : threads_of_host();
  if (!wanted) wanted = *before;
  if (wanted > 1) atomic_store(&threads_ran, true);
  dn_threads_set(library, *before, wanted);
  return wanted;
}
