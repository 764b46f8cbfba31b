/* Running a graph, one step after the other. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/graph/schedule.h"

static int copy(const struct mb_graph_executor *x, const struct mb_graph_step *step) {
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

int mb_graph_step_run(struct mb_graph_executor *x, uint32_t i) {
  static __thread unsigned steps; /* several threads may run a graph */
  const struct mb_graph_step *step = &x->steps[i];
  int status = mb_interrupt_check(&steps);
  if (status) return status;
  status = step->function ? mblob_function_call(step->function, step->values, x->codes, step->count,
                                                NULL, NULL)
                          : copy(x, step);
  return status ? fail_step(x, step, status) : MBLOB_OK;
}

int mb_graph_run(struct mb_graph_executor *x) {
  int status = MBLOB_OK;
  x->executed = 0;
  if (x->device_count && !x->schedule) status = mb_schedule_new(x, &x->schedule);
  const uint32_t *order = x->device_count && !status ? x->schedule->order : NULL;
  for (uint32_t i = 0; !status && i < x->step_count; i++)
    status = mb_graph_step_run(x, order ? order[i] : i);
  return status;
}

int mb_graph_run_to(struct mb_graph_executor *x, uint32_t node) {
  int status = MBLOB_OK;
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
