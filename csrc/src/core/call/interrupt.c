/* Interrupts: asks the host if long calls should end. The host's language may offer a function for it, under
 * the name "mblob_interrupted" (TVMBackendRegisterEnvCAPI); without one nothing is asked. */
#define _GNU_SOURCE
#include "core/call/interrupt.h"

#include <stdatomic.h>
#include <time.h>

#define QUESTION_PAUSE 100000000 /* nanoseconds between two questions of a thread */

static _Atomic(mb_interrupt_hook) hook;

void mb_interrupt_ask(mb_interrupt_hook asked) { atomic_store(&hook, asked); }

int mb_interrupt_now(void) {
  static __thread int64_t last;
  const mb_interrupt_hook ask = atomic_load_explicit(&hook, memory_order_acquire);
  struct timespec t;
  if (!ask) return MBLOB_OK;
  (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  const int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  if (now - last < QUESTION_PAUSE) return MBLOB_OK;
  last = now;
  return ask() ? mblob_last_error_info()->status : MBLOB_OK;
}
