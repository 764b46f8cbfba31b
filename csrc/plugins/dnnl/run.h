/* run.h - calls of what __init_ prepared, any number at the same time, while another __init_ may
 * take its place. */
#ifndef DN_RUN_H
#define DN_RUN_H

#include <stdatomic.h>
#include <stdio.h>

#include "base/base.h"
#include "plan.h"

struct dn_prepared; /* a plan, and the contexts of its calls */
struct dn_context;  /* what one running call has for itself: arena, memory objects, a stream */

/* A call takes a context and gives it back. One context is `spare`, so that calls one after
 * another take no lock. */
struct dn_calls {
  const struct dn_graph *graph;
  struct mb_lock lock;
  _Atomic(struct dn_prepared *) current; /* NULL before the first __init_; changed under the lock */
  _Atomic(struct dn_context *) spare;
  atomic_bool timed; /* calls note the time of each primitive */
};

int dn_calls_begin(struct dn_calls *calls, const struct dn_graph *graph);
/* Calls that begin later follow this plan, which is taken over; those that run keep the one they
 * began with. A mblob_status; after an error nothing changed, and the plan is still the
 * caller's. */
int dn_calls_replace(struct dn_calls *calls, const struct dn_plan *plan);
/* An error before the first dn_calls_replace. */
int dn_calls_check(struct dn_calls *calls);
/* After dn_calls_check. `arguments`: addresses of the graph's inputs, then its outputs. A
 * mblob_status. */
int dn_run(struct dn_calls *calls, void *const *arguments);
/* From now on note the time of each primitive, from zero; or no longer. */
void dn_calls_time(struct dn_calls *calls, bool timed);
/* Write what calls now run as JSON, a list of primitives in their order; [] before the first
 * dn_calls_replace. */
void dn_calls_write(struct dn_calls *calls, FILE *out);
/* No call is running. */
void dn_calls_end(struct dn_calls *calls);

#endif
