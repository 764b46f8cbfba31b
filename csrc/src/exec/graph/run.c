/* Running a graph, one step after the other. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/graph/run.h"
#include "exec/graph/schedule.h"

static int copy_step(const struct mb_graph_executor *x, const struct mb_graph_step *step) {
  const struct mb_graph_node *node = &x->graph.nodes[step->node];
  const DLTensor *from = step->values[0].v_handle, *to = step->values[1].v_handle;
  if (to->data == from->data) return MBLOB_OK;
  return mb_device_copy_tensor(from, to, x->graph.entries[node->first_entry].size, NULL);
}

static int fail_step(const struct mb_graph_executor *x, const struct mb_graph_step *step,
                     int status) {
  char context[128];
  (void)snprintf(context, sizeof(context), "graph: node %u '%.64s'", step->node,
                 x->graph.nodes[step->node].name);
  mb_error_prefix(context);
  return status;
}

static int run_graph_step(struct mb_graph_executor *x, const struct mb_graph_step *step) {
  int status = step->function ? mblob_function_call(step->function, step->values, x->codes,
                                                    step->count, NULL, NULL)
                              : copy_step(x, step);
  return status ? fail_step(x, step, status) : MBLOB_OK;
}

static int check_interrupt(void) {
  static __thread unsigned steps; /* several threads may run a graph */
  return mb_interrupt_check(&steps);
}

int mb_graph_step_run(struct mb_graph_executor *x, uint32_t i) {
  int status = check_interrupt();
  return status ? status : run_graph_step(x, &x->steps[i]);
}

static int record_failure(struct mb_graph_executor *x, uint32_t i, int thread) {
  struct mb_graph_time *time = &x->times[i];
  time->start = mb_seconds_now();
  int status = run_graph_step(x, &x->steps[i]);
  if (!status && x->is_profiled && !thread) status = mb_graph_wait(x);
  time->end = mb_seconds_now();
  time->thread = thread;
  return status;
}

uint32_t mb_graph_step_record(struct mb_graph_executor *x, uint32_t i, int thread) {
  if (check_interrupt()) return 0;
  int status = x->times ? record_failure(x, i, thread) : run_graph_step(x, &x->steps[i]);
  return status ? i : MB_NO_STEP;
}

/* ---- one step after the other ---- */

int mb_graph_run_serial(struct mb_graph_executor *x) {
  int status = MBLOB_OK;
  x->executed = 0;
  if (x->device_count && !x->schedule) status = mb_schedule_new(x, &x->schedule);
  if (!status && x->device_count) return mb_graph_run_ordered(x);
  for (uint32_t i = 0; !status && i < x->step_count; i++)
    if (mb_graph_step_record(x, i, 0) != MB_NO_STEP) status = mblob_last_error_info()->status;
  return status;
}

int mb_graph_run_to(struct mb_graph_executor *x, uint32_t node) {
  int status = mb_graph_check_bound(x);
  if (x->executed && x->steps[x->executed - 1].node > node)
    x->executed = 0; /* from the beginning */
  while (!status && x->executed < x->step_count && x->steps[x->executed].node <= node) {
    status = mb_graph_step_run(x, x->executed);
    if (!status) x->executed++;
  }
  return status;
}

int mb_graph_wait(const struct mb_graph_executor *x) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < x->device_count; i++)
    status = mb_device_synchronize(x->devices[i], NULL);
  return status;
}
