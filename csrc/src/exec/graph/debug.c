/* Functions of debug executors alone: single nodes, values in between, time per node. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/graph/graph_module.h"

/* Argument `i`: position or name of a node. */
static int find_node(const struct mb_graph *g, const struct mb_call *call, int i, uint32_t *out) {
  const char *name = NULL;
  int64_t at = 0;
  if (mb_call_is_text(call, i)) {
    int status = mb_call_text(call, i, &name);
    if (status) return status;
    for (uint32_t k = 0; k < g->node_count; k++)
      if (strcmp(g->nodes[k].name, name) == 0) {
        *out = k;
        return MBLOB_OK;
      }
    return mb_fail_argument(MB_ARGUMENT_NAME, "the graph has no node '%s'", name);
  }
  int status = mb_call_int(call, i, &at);
  if (status) return status;
  if (at < 0 || at >= g->node_count)
    return mb_fail_argument(MB_ARGUMENT_INDEX, "no node %lld, the graph has %u", (long long)at,
                            g->node_count);
  *out = (uint32_t)at;
  return MBLOB_OK;
}

/* (node): run what was not run yet since the last `run`, up to and with the node. */
MB_GRAPH_METHOD(execute_node) {
  uint32_t node = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = find_node(&x->graph, call, 0, &node);
  return status ? status : mb_graph_run_to(x, node);
}

/* Arguments (node, output): an entry. */
static int find_debug_entry(const struct mb_graph *g, const struct mb_call *call, uint32_t *out) {
  uint32_t node = 0;
  int64_t output = 0;
  int status = find_node(g, call, 0, &node);
  if (!status && call->count > 1) status = mb_call_int(call, 1, &output);
  if (status) return status;
  if (output < 0 || output >= g->nodes[node].entry_count)
    return mb_fail_argument(MB_ARGUMENT_INDEX, "no output %lld, node %u '%s' has %u",
                            (long long)output, node, g->nodes[node].name,
                            g->nodes[node].entry_count);
  *out = g->nodes[node].first_entry + (uint32_t)output;
  return MBLOB_OK;
}

/* (node, output = 0): a view of what the node made. Later nodes may write over it. */
MB_GRAPH_METHOD(get_node_output) {
  uint32_t entry = 0;
  DLTensor *view = NULL;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = find_debug_entry(&x->graph, call, &entry);
  if (!status) status = mb_graph_expose(x, entry, &view);
  if (!status) mb_call_return_array(call, view);
  return status;
}

/* (node, tensor): run from the beginning to the node, copy its first output. */
MB_GRAPH_METHOD(debug_get_output) {
  uint32_t node = 0;
  DLTensor *to = NULL;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = find_node(&x->graph, call, 0, &node);
  if (!status) status = mb_call_tensor(call, 1, &to);
  if (status) return status;
  uint32_t entry = x->graph.nodes[node].first_entry;
  if (!x->graph.nodes[node].entry_count)
    return mb_fail(MBLOB_E_ARGUMENT, "node %u '%s' has no output", node, x->graph.nodes[node].name);
  x->executed = 0;
  status = mb_graph_run_to(x, node);
  return status ? status : mb_graph_copy_out(x, "output of node", entry, to);
}

/* ---- time ---- */

/* Seconds of one run of a step: at least `number` runs, and runs that take `least` seconds
 * together. */
static int time_step(struct mb_graph_executor *x, uint32_t step, int64_t number, double least,
                     double *seconds) {
  for (;;) {
    double start = mb_seconds_now();
    for (int64_t i = 0; i < number; i++) {
      int status = mb_graph_step_run(x, step);
      if (status) return status;
    }
    int status = mb_graph_wait(x);
    if (status) return status;
    double taken = mb_seconds_now() - start;
    *seconds = taken / (double)number;
    if (taken >= least || number > INT64_MAX / 4) return MBLOB_OK;
    number *= taken > 0 && least / taken < 2 ? 2 : 4;
  }
}

/* How nodes are timed alone: the arguments that TVM's functions for it have in common, in their
 * order. */
struct timing {
  int64_t number, repeat, least_ms;
  int64_t zero_limit; /* TVM repeats what took no time; this clock has nanoseconds */
  int64_t cooldown_ms, cooldown_every;
};

static int read_timing(const struct mb_call *call, int first, struct timing *out) {
  *out = (struct timing){1, 1, 0, 100, 0, 1};
  int64_t *const values[] = {&out->number,     &out->repeat,      &out->least_ms,
                             &out->zero_limit, &out->cooldown_ms, &out->cooldown_every};
  int status = mb_call_expect(call, first + 1, first + 6);
  for (int i = first; !status && i < call->count; i++)
    status = mb_call_int(call, i, values[i - first]);
  if (status) return status;
  if (out->number < 1 || out->repeat < 1 || out->repeat > 1 << 20 || out->least_ms < 0 ||
      out->cooldown_ms < 0 || out->cooldown_every < 1)
    return mb_fail(
        MBLOB_E_ARGUMENT,
        "number %lld, repeat %lld, min_repeat_ms %lld, cooldown_interval_ms %lld, repeats_to_cooldown %lld: "
        "expected at least 1, 1 (at most 2^20), 0, 0 and 1",
        (long long)out->number, (long long)out->repeat, (long long)out->least_ms,
        (long long)out->cooldown_ms, (long long)out->cooldown_every);
  return MBLOB_OK;
}

/* `repeat` measurements of a step. */
static int time_alone(struct mb_graph_executor *x, uint32_t step, const struct timing *timing,
                      double *seconds) {
  int status = MBLOB_OK;
  for (int64_t k = 0; !status && k < timing->repeat; k++) {
    status = time_step(x, step, timing->number, 1e-3 * (double)timing->least_ms, &seconds[k]);
    if (timing->cooldown_ms && k % timing->cooldown_every == 0)
      (void)nanosleep(&(struct timespec){(time_t)(timing->cooldown_ms / 1000),
                                         (long)(timing->cooldown_ms % 1000) * 1000000},
                      NULL);
  }
  return status;
}

static int return_bytes(struct mb_call *call, void *bytes, size_t size) {
  TVMByteArray result = {bytes, size};
  return mb_return_set(call->result, (TVMValue){.v_handle = &result}, kTVMBytes);
}

/* (number, repeat = 1, min_repeat_ms = 0, ...): each operator alone, in order. As TVM 0.11 and
 * later: bytes, an int64 count of nodes, then `repeat` doubles of seconds for each; 0 for nodes
 * that run nothing. */
MB_GRAPH_METHOD(run_individual) {
  struct timing timing;
  int status = read_timing(call, 0, &timing);
  if (status) return status;
  size_t count = 0;
  if (__builtin_mul_overflow((size_t)timing.repeat, (size_t)x->graph.node_count, &count) ||
      count >= SIZE_MAX / sizeof(double))
    return mb_fail_memory(SIZE_MAX);
  double *seconds = calloc(count + 1, sizeof(*seconds)); /* behind the count of nodes */
  if (!seconds) return mb_fail_memory(count * sizeof(*seconds));
  memcpy(seconds, &(int64_t){x->graph.node_count}, sizeof(int64_t));
  for (uint32_t i = 0; !status && i < x->step_count; i++)
    status =
        time_alone(x, i, &timing, seconds + 1 + (size_t)x->steps[i].node * (size_t)timing.repeat);
  if (!status) status = return_bytes(call, seconds, (count + 1) * sizeof(*seconds));
  free(seconds);
  return status;
}

/* (node, number, repeat = 1, ...): the same of one node, on what was there before it: `repeat`
 * doubles. */
MB_GRAPH_METHOD(run_individual_node) {
  struct timing timing;
  uint32_t node = 0, step = 0;
  int status = read_timing(call, 1, &timing);
  if (!status) status = find_node(&x->graph, call, 0, &node);
  if (status) return status;
  double *seconds = calloc((size_t)timing.repeat, sizeof(*seconds));
  if (!seconds) return mb_fail_memory((size_t)timing.repeat * sizeof(*seconds));
  while (step < x->step_count && x->steps[step].node != node) step++;
  if (step < x->step_count) status = time_alone(x, step, &timing, seconds);
  if (!status) status = return_bytes(call, seconds, (size_t)timing.repeat * sizeof(*seconds));
  free(seconds);
  return status;
}

/* Which device a step is for; its output is there, or else its first input. Without values: the
 * host. */
static DLDevice device_of_node(const struct mb_graph_step *step) {
  if (!step->count) return (DLDevice){kDLCPU, 0};
  const DLTensor *last = step->values[step->count - 1].v_handle, *first = step->values[0].v_handle;
  return mb_device_is_host((int)last->device.device_type) ? first->device : last->device;
}

static int write_profile(struct mb_graph_executor *x, struct mb_call *call, const double *seconds,
                         double begin) {
  char *text = NULL, device[MB_DEVICE_TEXT];
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return mb_fail_memory(0);
  (void)fputc('[', out);
  for (uint32_t i = 0; i < x->step_count; i++) {
    const struct mb_graph_node *node = &x->graph.nodes[x->steps[i].node];
    const struct mb_graph_time *time = &x->times[i];
    (void)fprintf(out, "%s{\"node\": %u, \"name\": ", i ? ", " : "", x->steps[i].node);
    mb_json_put_text(out, node->name);
    (void)fputs(", \"function\": ", out);
    mb_json_put_text(out, node->function);
    (void)fprintf(
        out,
        ", \"seconds\": %.9g, \"start\": %.9g, \"end\": %.9g, \"thread\": %d, \"device\": \"%s\"}",
        seconds[i], time->start - begin, time->end - begin, time->thread,
        mb_device_text(device_of_node(&x->steps[i]), device));
  }
  (void)fputc(']', out);
  return mb_call_return_stream(call, out, &text, &size);
}

static int profile_runs(struct mb_graph_executor *x, int64_t repeat, int threads, double *seconds,
                        double *begin) {
  int status = MBLOB_OK;
  for (int64_t k = 0; !status && k < repeat; k++) {
    *begin = mb_seconds_now();
    status = mb_graph_run(x, threads);
    for (uint32_t i = 0; i < x->step_count; i++)
      seconds[i] += (x->times[i].end - x->times[i].start) / (double)repeat;
  }
  return status;
}

/* (repeat = 1, threads as of run): whole runs; JSON text, [{"node", "name", "function", "seconds",
 * "start", "end", "thread", "device"}]: the mean of each operator, and when and where it ran in the
 * last run. A run waits for each operator of a device. */
MB_GRAPH_METHOD(profile) {
  int64_t repeat = 1;
  int threads = 0, status = mb_call_expect(call, 0, 2);
  double begin = 0;
  if (!status && call->count) status = mb_call_int(call, 0, &repeat);
  if (!status) status = mb_graph_threads_argument(call, 1, &threads);
  if (status) return status;
  if (repeat < 1)
    return mb_fail(MBLOB_E_ARGUMENT, "repeat %lld, expected at least 1", (long long)repeat);
  double *seconds = calloc((size_t)x->step_count + 1, sizeof(*seconds));
  x->times = calloc((size_t)x->step_count + 1, sizeof(*x->times));
  x->is_profiled = x->device_count > 0;
  status = seconds && x->times ? profile_runs(x, repeat, threads, seconds, &begin)
                               : mb_fail_memory(x->step_count * sizeof(*x->times));
  if (!status) status = write_profile(x, call, seconds, begin);
  x->is_profiled = false;
  free(x->times);
  x->times = NULL;
  free(seconds);
  return status;
}

const struct mb_method mb_graph_debug_methods[] = {
    {"execute_node", graph_execute_node},
    {"get_node_output", graph_get_node_output},
    {"debug_get_output", graph_debug_get_output},
    {"run_individual", graph_run_individual},
    {"run_individual_node", graph_run_individual_node},
    {"profile", graph_profile},
    {"", NULL}};
