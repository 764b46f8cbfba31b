/* Functions of graph executors, under the names of TVM's graph executor. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/common.h"
#include "exec/graph/inputs_outputs.h"
#include "exec/graph/graph_module.h"
#include "format/format.h"

int mb_graph_locked(void *executor, struct mb_call *call, mb_graph_body body) {
  struct mb_graph_frame frame;
  int status = mb_graph_enter(executor, &frame);
  if (status) return status;
  status = body(executor, call);
  mb_graph_leave(executor, &frame);
  return status;
}

/* Arguments (input or output, tensor). */
static int two_arguments(const struct mb_graph *g, const struct mb_call *call, enum mb_graph_io end,
                         uint32_t *at, DLTensor **value) {
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_graph_io_argument(g, call, end, at);
  return status ? status : mb_call_tensor(call, 1, value);
}

static bool is_counted(const struct mb_call *call, int i) {
  return call->codes[i] == kTVMNDArrayHandle;
}

/* ---- inputs ---- */

MB_GRAPH_METHOD(set_input) {
  uint32_t at = 0;
  DLTensor *value = NULL;
  int status = two_arguments(&x->graph, call, MB_INPUTS, &at, &value);
  return status ? status : mb_graph_set_input(x, at, value);
}

MB_GRAPH_METHOD(set_input_zero_copy) {
  uint32_t at = 0;
  DLTensor *value = NULL;
  int status = two_arguments(&x->graph, call, MB_INPUTS, &at, &value);
  return status ? status : mb_graph_bind_input(x, at, value, is_counted(call, 1));
}

static int return_view(struct mb_graph_executor *x, struct mb_call *call, uint32_t entry) {
  DLTensor *view = NULL;
  int status = mb_graph_expose(x, entry, &view);
  if (!status) mb_call_return_array(call, view);
  return status;
}

MB_GRAPH_METHOD(get_input) {
  uint32_t at = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_graph_io_argument(&x->graph, call, MB_INPUTS, &at);
  return status ? status : return_view(x, call, x->graph.inputs[at]);
}

MB_GRAPH_METHOD(get_input_index) {
  const char *name = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &name);
  if (!status) mb_call_return_int(call, mb_graph_find_input(&x->graph, name));
  return status;
}

MB_GRAPH_METHOD(get_num_inputs) {
  mb_call_return_int(call, x->graph.input_count);
  return mb_call_expect(call, 0, 0);
}

/* ---- outputs ---- */

MB_GRAPH_METHOD(set_output_zero_copy) {
  uint32_t at = 0;
  DLTensor *value = NULL;
  int status = two_arguments(&x->graph, call, MB_OUTPUTS, &at, &value);
  return status ? status : mb_graph_bind_output(x, at, value, is_counted(call, 1));
}

/* (output) gives a view; (output, tensor) copies into the tensor. */
MB_GRAPH_METHOD(get_output) {
  uint32_t at = 0;
  int status = mb_call_expect(call, 1, 2);
  if (!status) status = mb_graph_io_argument(&x->graph, call, MB_OUTPUTS, &at);
  if (status) return status;
  uint32_t entry = x->graph.outputs[at];
  if (call->count == 1) return return_view(x, call, entry);
  DLTensor *to = NULL;
  status = mb_call_tensor(call, 1, &to);
  return status ? status : mb_graph_copy_out(x, "output", entry, to);
}

MB_GRAPH_METHOD(get_output_index) {
  const char *name = NULL;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_text(call, 0, &name);
  if (!status) mb_call_return_int(call, mb_graph_find_output(&x->graph, name));
  return status;
}

MB_GRAPH_METHOD(get_num_outputs) {
  mb_call_return_int(call, x->graph.output_count);
  return mb_call_expect(call, 0, 0);
}

/* ---- what they are ---- */

MB_GRAPH_METHOD(get_input_info) { return mb_names_return_info(mb_graph_describe, x, false, call); }

MB_GRAPH_METHOD(get_output_info) { return mb_names_return_info(mb_graph_describe, x, true, call); }

/* ---- running ---- */

int mb_graph_threads_argument(const struct mb_call *call, int i, int *out) {
  int64_t threads = 0;
  *out = MB_THREADS_AS_MEASURED;
  if (i >= call->count) return MBLOB_OK;
  int status = mb_call_int(call, i, &threads);
  if (!status && (threads < 0 || threads > INT32_MAX))
    return mb_fail(MBLOB_E_ARGUMENT, "%lld threads, expected 0 to %d", (long long)threads,
                   INT32_MAX);
  *out = (int)threads;
  return status;
}

/* () as measured; (threads) that run independent operators at the same time, 0: as many as the
 * process may use, 1: in order. */
MB_GRAPH_METHOD(run) {
  int threads = 0, status = mb_call_expect(call, 0, 1);
  if (!status) status = mb_graph_threads_argument(call, 0, &threads);
  return status ? status : mb_graph_run(x, threads);
}

/* () waits until devices have done what `run` gave them. */
MB_GRAPH_METHOD(synchronize) {
  int status = mb_call_expect(call, 0, 0);
  return status ? status : mb_graph_wait(x);
}

/* Copies of all outputs, as a function gives them. */
struct results {
  size_t count;
  DLTensor *arrays[];
};

static void free_results(void *resource) {
  struct results *r = resource;
  for (size_t i = 0; i < r->count; i++)
    if (r->arrays[i]) mb_array_release(r->arrays[i]);
  free(r);
}

static int get_result(TVMValue *args, int *codes, int count, TVMRetValueHandle ret,
                      void *resource) {
  const struct results *r = resource;
  struct mb_call call = {
      .method = "result", .args = args, .codes = codes, .count = count, .result = ret};
  int64_t at = 0;
  if (count == 0) {
    mb_call_return_int(&call, (int64_t)r->count);
    return MBLOB_OK;
  }
  int status = mb_call_int(&call, 0, &at);
  if (status) return status;
  if (at < 0 || (uint64_t)at >= r->count)
    return mb_fail_argument(MB_ARGUMENT_INDEX, "result: no output %lld, there are %zu",
                            (long long)at, r->count);
  mb_array_retain(r->arrays[at]);
  mb_call_return_array(&call, r->arrays[at]);
  return MBLOB_OK;
}

static int copy_graph_output(const struct mb_graph_executor *x, uint32_t entry, DLTensor **out) {
  const DLTensor *view = &x->views[entry];
  int status = mb_array_new((DLDevice){kDLCPU, 0}, view->ndim, view->shape, view->dtype, out);
  return status ? status : mb_device_copy_tensor(view, *out, x->graph.entries[entry].size, NULL);
}

static int return_results(const struct mb_graph_executor *x, struct mb_call *call) {
  struct results *r = calloc(1, sizeof(*r) + x->graph.output_count * sizeof(*r->arrays));
  mblob_function *function = NULL;
  if (!r) return mb_fail_memory(sizeof(*r));
  int status = MBLOB_OK;
  for (; !status && r->count < x->graph.output_count; r->count++)
    status = copy_graph_output(x, x->graph.outputs[r->count], &r->arrays[r->count]);
  if (!status) status = mblob_function_create(get_result, r, free_results, &function);
  if (status)
    free_results(r);
  else
    mb_call_return_function(call, function);
  return status;
}

/* (device, name or position, tensor, ...): sets inputs, runs, copies the outputs. TVM gives a
 * list of arrays; there are none here, so the result is a function: result() is the number of
 * outputs, result(i) is output i.
 */
MB_GRAPH_METHOD(run_from_inputs) {
  int first = call->count && call->codes[0] == kDLDevice ? 1 : 2, status = MBLOB_OK;
  DLDevice device;
  size_t devices = 0;
  struct mb_call head = *call;
  if (call->count < first || (call->count - first) % 2)
    return mb_fail_argument(
        MB_ARGUMENT_COUNT,
        "expected a device, then pairs of an input and a tensor; found %d arguments", call->count);
  head.count = first;
  status = mb_call_devices(&head, 0, &device, 1, &devices);
  for (int i = first; !status && i < call->count; i += 2) {
    struct mb_call pair = {.args = call->args + i, .codes = call->codes + i, .count = 2};
    status = graph_set_input_body(x, &pair);
  }
  if (!status) status = mb_graph_run(x, MB_THREADS_AS_MEASURED);
  return status ? status : return_results(x, call);
}

/* ---- parameters ---- */

enum { LOADED = MBLOB_TENSOR_PARAMETER | MBLOB_TENSOR_LOADED };

static int read_parameters(const struct mb_call *call, int i, struct mb_tensors *out) {
  const void *data = NULL;
  size_t size = 0;
  int status = mb_call_bytes(call, i, &data, &size);
  if (status) return status;
  if (!mb_params_is(data, size))
    return mb_fail_format("payload", 0, MB_UNKNOWN, "no parameter dictionary (wrong magic)");
  return mb_params_read(data, size, MB_UNKNOWN, out);
}

/* What is no input is skipped, as by TVM since 0.7. `only_check`: whether the others fit. */
static int put_parameters(struct mb_graph_executor *x, const struct mb_tensors *tensors,
                          bool only_check) {
  int status = MBLOB_OK;
  for (size_t i = 0; !status && i < tensors->count; i++) {
    int64_t at = mb_graph_find_input(&x->graph, tensors->items[i].name);
    if (at < 0) continue;
    status = only_check ? mb_graph_check_input(x, (uint32_t)at, &tensors->items[i].view)
                        : mb_graph_set_input(x, (uint32_t)at, &tensors->items[i].view);
    if (!status && !only_check) x->input_flags[at] = LOADED;
  }
  return status;
}

/* (bytes of save_param_dict): all that are inputs, or none if one does not fit. */
MB_GRAPH_METHOD(load_params) {
  struct mb_tensors tensors = {0};
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = read_parameters(call, 0, &tensors);
  if (!status) status = put_parameters(x, &tensors, true);
  if (!status) status = put_parameters(x, &tensors, false);
  mb_tensors_free(&tensors);
  return status;
}

static int share(struct mb_graph_executor *x, struct mb_graph_executor *other,
                 const struct mb_tensors *names) {
  for (size_t i = 0; i < names->count; i++) {
    int64_t at = mb_graph_find_input(&x->graph, names->items[i].name);
    int64_t from = mb_graph_find_input(&other->graph, names->items[i].name);
    if (at < 0) continue;
    if (from < 0)
      return mb_fail_argument(MB_ARGUMENT_NAME, "the other executor has no input '%s'",
                              names->items[i].name);
    int status = mb_graph_share_input(x, (uint32_t)at, other, (uint32_t)from);
    if (status) return status;
    x->input_flags[at] = LOADED;
  }
  return MBLOB_OK;
}

/* (executor, bytes of save_param_dict): of the dictionary only the names are used. Takes two
 * locks, always in the order of addresses. */
static int share_params(void *object, struct mb_call *call) {
  struct mb_graph_executor *x = object, *other = NULL;
  struct mb_graph_frame frames[2];
  struct mb_tensors tensors = {0};
  mblob_module *module = NULL;
  int status = mb_call_expect(call, 2, 2);
  if (!status) status = mb_call_module(call, 0, &module);
  if (!status) other = mb_graph_module_object(module);
  if (!status && !other)
    status = mb_fail_argument(MB_ARGUMENT_TYPE,
                              "argument 0: expected a graph executor, found a module '%s'",
                              mblob_module_type_key(module));
  if (!status) status = read_parameters(call, 1, &tensors);
  struct mb_graph_executor *first = x < other ? x : other, *second = x < other ? other : x;
  if (!status && x != other) status = mb_graph_enter(first, &frames[0]);
  if (!status && x != other) {
    status = mb_graph_enter(second, &frames[1]);
    if (!status) {
      status = share(x, other, &tensors);
      mb_graph_leave(second, &frames[1]);
    }
    mb_graph_leave(first, &frames[0]);
  }
  mb_tensors_free(&tensors);
  return status;
}

const struct mb_method mb_graph_methods[] = {{"set_input", graph_set_input},
                                             {"set_input_zero_copy", graph_set_input_zero_copy},
                                             {"set_output_zero_copy", graph_set_output_zero_copy},
                                             {"get_input", graph_get_input},
                                             {"get_output", graph_get_output},
                                             {"get_input_index", graph_get_input_index},
                                             {"get_output_index", graph_get_output_index},
                                             {"get_input_info", graph_get_input_info},
                                             {"get_output_info", graph_get_output_info},
                                             {"get_num_inputs", graph_get_num_inputs},
                                             {"get_num_outputs", graph_get_num_outputs},
                                             {"run", graph_run},
                                             {"synchronize", graph_synchronize},
                                             {"run_from_inputs", graph_run_from_inputs},
                                             {"load_params", graph_load_params},
                                             {"share_params", share_params},
                                             {"", NULL}};
