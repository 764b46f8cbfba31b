/* schedule.h - which steps of an executor wait for which: from the bytes that they read and
 * write. */
#ifndef MB_GRAPH_SCHEDULE_H
#define MB_GRAPH_SCHEDULE_H

#include "exec/graph/executor.h"

struct mb_schedule {
  uint32_t step_count;
  uint32_t *waits; /* of each step: how many edges end in it */
  uint32_t *first; /* step_count + 1 places in `followers` */
  uint32_t
      *followers;  /* steps that wait for this one; one more than once is counted so in `waits` */
  uint32_t *order; /* in which steps run one by one; NULL: that of the graph */
  uint8_t *kinds;  /* of each step: an mb_step_kind (ready_queue.h) */
  uint32_t most;   /* steps that can run at the same time, at most; 1: a chain */
};

/* Steps that touch the same bytes keep their order unless both only read. Bytes, not storages of
 * the graph: the caller may have bound one array as two values. */
int mb_schedule_new(const struct mb_graph_executor *executor, struct mb_schedule **out);

#endif
