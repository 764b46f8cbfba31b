#define _GNU_SOURCE
#include "core/threads/thread_settings.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define WIDTH_LIMIT 64 /* threads that the environment may always ask for */

static int usable_processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

/* More threads than processors are allowed, within reason: four times as many, or WIDTH_LIMIT. */
static int from_environment(const char *name) {
  const char *text = getenv(name);
  char *end;
  if (!text) return 0;
  long n = strtol(text, &end, 10), most = 4L * usable_processors();
  if (most < WIDTH_LIMIT) most = WIDTH_LIMIT;
  if (most > MB_WORKER_LIMIT) most = MB_WORKER_LIMIT;
  return end != text && n > 0 ? (int)(n < most ? n : most) : 0;
}

static atomic_int width;    /* 0: not known yet */
static atomic_bool counted; /* it is the number of processors */

void mb_set_parallel_width(int threads) {
  atomic_store_explicit(&width, threads, memory_order_relaxed);
  atomic_store_explicit(&counted, false, memory_order_relaxed);
}

int mb_parallel_width(void) {
  int n = atomic_load_explicit(&width, memory_order_relaxed);
  if (n == 0) {
    n = from_environment("TVM_NUM_THREADS");
    if (n == 0) n = from_environment("OMP_NUM_THREADS");
    if (n == 0) {
      n = usable_processors();
      atomic_store_explicit(&counted, true, memory_order_relaxed);
    }
    atomic_store_explicit(&width, n, memory_order_relaxed);
  }
  return n;
}

int mb_parallel_width_beside(void) {
  int n = mb_parallel_width();
  return n > 1 || atomic_load_explicit(&counted, memory_order_relaxed) ? n + 1 : n;
}

/* TVM_BIND_THREADS=1: each worker stays on a processor of its own. TVM binds unless it is told
 * not to, and the calling thread as well; here nothing is bound unasked, because programs that
 * share a machine would all be bound to its first processors. */
static bool binds_threads(void) {
  const char *text = getenv("TVM_BIND_THREADS");
  return text && strtol(text, NULL, 10) == 1;
}

void mb_thread_bind(pthread_t thread, int number) {
  cpu_set_t usable, one;
  if (!binds_threads() || sched_getaffinity(0, sizeof(usable), &usable) != 0 || !CPU_COUNT(&usable))
    return;
  number %= CPU_COUNT(&usable);
  for (size_t i = 0; i < CPU_SETSIZE; i++) {
    if (!CPU_ISSET(i, &usable) || number-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    (void)pthread_setaffinity_np(thread, sizeof(one), &one);
    return;
  }
}
