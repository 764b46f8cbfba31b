/* threads.h - how many threads oneDNN may use for the calling thread (OpenMP's, which it shares
 * with the process). */
#ifndef DN_THREADS_H
#define DN_THREADS_H

#include "onednn.h"

/* As many as the host's own pool, else what OpenMP has; 0 if the library has no threads. The
 * threads of primitives that are made from now on; *before is for dn_threads_set. */
int dn_threads_begin(const struct dn_library *library, int *before);
/* Leave the calling thread with `wanted` where it has `now`. */
static inline void dn_threads_set(const struct dn_library *library, int now, int wanted) {
  if (now != wanted) library->set_threads(wanted);
}
/* Whether the process is a child that was forked after oneDNN ran on more threads than one,
 * which the child has not. */
bool dn_threads_are_lost(void);

#endif
