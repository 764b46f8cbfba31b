/* run.h - ways to run the steps of a graph; all of them with the lock. */
#ifndef MB_GRAPH_RUN_H
#define MB_GRAPH_RUN_H

#include "exec/graph/executor.h"

/* ---- run.c ---- */

/* Run a step on this thread of a run (0: the caller's); notes when in `times`, if they are there.
 * MB_NO_STEP, or the step that failed: 0 if the host ended the call. */
uint32_t mb_graph_step_record(struct mb_graph_executor *executor, uint32_t step, int thread);
/* One step after the other. A mblob_status. */
int mb_graph_run_serial(struct mb_graph_executor *executor);

/* ---- parallel.c ---- */

/* In the order of the schedule, on this thread. As in every run, steps before one that failed, in the
 * order of the graph, are run. */
int mb_graph_run_ordered(struct mb_graph_executor *executor);

/* What a run was like. */
struct mb_graph_facts {
  int threads;           /* that it had */
  uint32_t peak;         /* of them that had a step at the same time */
  unsigned nested_loops; /* parallel loops of kernels, each on the thread of its step */
  double cpu;            /* seconds of these threads; of runs that learn */
};

/* With at most `threads` threads; there is a schedule. `learns`: threads without a step are not
 * woken for one, which costs more than a small step; they look for it now and then. */
int mb_graph_run_together(struct mb_graph_executor *executor, int threads, bool learns,
                          struct mb_graph_facts *facts);

#endif
