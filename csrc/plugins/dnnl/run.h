/* run.h - calls of a plan, any number at the same time. */
#ifndef DN_RUN_H
#define DN_RUN_H

#include <pthread.h>

#include "plan.h"

struct dn_context; /* what one running call has for itself: arena, memory objects, a stream */

struct dn_runner {
  const struct dn_plan *plan;
  const struct dn_graph *graph;
  pthread_mutex_t lock;
  struct dn_context *idle; /* guarded by the lock; as many as there were calls at the same time */
};

int dn_runner_begin(struct dn_runner *runner, const struct dn_plan *plan, const struct dn_graph *graph);
/* `arguments`: addresses of the graph's inputs, then its outputs. A mblob_status. */
int dn_run(struct dn_runner *runner, void *const *arguments);
/* No call is running. */
void dn_runner_end(struct dn_runner *runner);

/* How many threads oneDNN may use for the caller, for as long as a plan is made or runs: as many as the host's own
 * pool, else what OpenMP has. `wanted` 0: decide; the number is returned. *before is for dn_threads_restore. */
int dn_threads_use(const struct dn_library *library, int wanted, int *before);
void dn_threads_restore(const struct dn_library *library, int now, int before);

#endif
