/* Making and freeing executors. */
#define _GNU_SOURCE
#include "exec/graph/executor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"

/* ---- one at a time ---- */

static __thread const struct mb_graph_frame *frames;

const struct mb_graph_frame *mb_graph_frames(void) { return frames; }

void mb_graph_set_frames(const struct mb_graph_frame *to) { frames = to; }

int mb_graph_enter(struct mb_graph_executor *x, struct mb_graph_frame *frame) {
  for (const struct mb_graph_frame *f = frames; f; f = f->outer)
    if (f->executor == x)
      return mb_fail(MBLOB_E_ARGUMENT,
                     "graph: a function that the executor runs calls this executor");
  mb_lock(&x->lock);
  *frame = (struct mb_graph_frame){x, frames};
  frames = frame;
  return MBLOB_OK;
}

void mb_graph_leave(struct mb_graph_executor *x, struct mb_graph_frame *frame) {
  frames = frame->outer;
  mb_unlock(&x->lock);
}

/* ---- steps ---- */

static void *list_of(size_t count, size_t size) { return calloc(count ? count : 1, size); }

static int allocate_executor(struct mb_graph_executor *x) {
  const struct mb_graph *g = &x->graph;
  size_t steps = 0, values = 0, widest = 0;
  bool flatten = false;
  for (uint32_t i = 0; i < g->node_count; i++) {
    const struct mb_graph_node *node = &g->nodes[i];
    if (node->op != MB_GRAPH_COPY && node->op != MB_GRAPH_CALL) continue;
    size_t width = (size_t)node->input_count + node->entry_count;
    steps++;
    values += width;
    if (width > widest) widest = width;
    flatten |= node->flatten;
  }
  if (widest > INT32_MAX)
    return mb_fail(MBLOB_E_FORMAT, "graph: a function with %zu arguments", widest);
  x->views = list_of(g->entry_count, sizeof(*x->views));
  x->flat = flatten ? list_of(g->entry_count, sizeof(*x->flat)) : NULL;
  x->flat_extents = list_of(flatten ? g->entry_count : 0, sizeof(*x->flat_extents));
  x->next = list_of(g->entry_count, sizeof(*x->next));
  x->memory = list_of(g->entry_count, sizeof(*x->memory));
  x->pools = list_of(g->storage_count, sizeof(*x->pools));
  x->pool_sizes = list_of(g->storage_count, sizeof(*x->pool_sizes));
  x->input_flags = list_of(g->input_count, sizeof(*x->input_flags));
  x->bound = list_of(g->output_count, sizeof(*x->bound));
  x->steps = list_of(steps, sizeof(*x->steps));
  x->values = list_of(values, sizeof(*x->values));
  x->codes = list_of(widest, sizeof(*x->codes));
  if (!x->views || (flatten && !x->flat) || !x->flat_extents || !x->next || !x->memory ||
      !x->pools || !x->pool_sizes || !x->input_flags || !x->bound || !x->steps || !x->values ||
      !x->codes)
    return mb_fail_memory(values * sizeof(*x->values));
  for (size_t i = 0; i < widest; i++) x->codes[i] = kTVMDLTensorHandle;
  return MBLOB_OK;
}

static int fail_node(const struct mb_graph *g, uint32_t node, int status) {
  char context[128];
  (void)snprintf(context, sizeof(context), "graph: node %u '%.64s'", node, g->nodes[node].name);
  mb_error_prefix(context);
  return status;
}

static void add_value(struct mb_graph_executor *x, struct mb_graph_step *step, uint32_t entry) {
  DLTensor *views = x->graph.nodes[step->node].flatten ? x->flat : x->views;
  struct mb_graph_memory *memory = &x->memory[x->graph.entries[entry].root];
  uint32_t needed = step->function ? mblob_function_alignment(step->function) : 1;
  if (!needed) needed = (x->views[entry].dtype.bits + 7u) / 8u; /* of one element */
  if (needed > memory->alignment) memory->alignment = needed;
  step->values[step->count++].v_handle = &views[entry];
}

static int make_step(struct mb_graph_executor *x, uint32_t i, enum mb_scope scope,
                     TVMValue **values) {
  const struct mb_graph_node *node = &x->graph.nodes[i];
  if (node->op != MB_GRAPH_COPY && node->op != MB_GRAPH_CALL) return MBLOB_OK;
  struct mb_graph_step *step = &x->steps[x->step_count++];
  *step = (struct mb_graph_step){.node = i, .values = *values};
  if (node->op == MB_GRAPH_CALL) {
    int status = mb_module_need(x->kernels, node->function, scope, &step->function);
    if (status) return fail_node(&x->graph, i, status);
  }
  for (uint32_t k = 0; k < node->input_count; k++) add_value(x, step, node->inputs[k]);
  for (uint32_t k = 0; k < node->entry_count; k++) add_value(x, step, node->first_entry + k);
  *values += step->count;
  return MBLOB_OK;
}

/* ---- views ---- */

static int storage_device(const struct mb_graph_source *source, int32_t type, DLDevice *out) {
  *out = source->devices[0];
  for (size_t i = source->device_count; type && i-- > 0;)
    if ((int32_t)source->devices[i].device_type == type) *out = source->devices[i];
  int status = mb_device_check(*out);
  if (status) mb_error_prefix("graph");
  return status;
}

/* Note a device that is not the host; there is room for all that the source has. */
static void note_device(struct mb_graph_executor *x, DLDevice device) {
  size_t i = 0;
  if (mb_device_is_host((int)device.device_type)) return;
  while (i < x->device_count && (x->devices[i].device_type != device.device_type ||
                                 x->devices[i].device_id != device.device_id))
    i++;
  if (i == x->device_count) x->devices[x->device_count++] = device;
}

static int make_views(struct mb_graph_executor *x, const struct mb_graph_source *source) {
  const struct mb_graph *g = &x->graph;
  x->devices = calloc(source->device_count, sizeof(*x->devices));
  if (!x->devices) return mb_fail_memory(source->device_count * sizeof(*x->devices));
  for (uint32_t i = 0; i < g->entry_count; i++) {
    const struct mb_graph_entry *e = &g->entries[i];
    x->views[i] = mb_graph_tensor(g, i);
    int status = storage_device(source, g->storage_devices[e->storage], &x->views[i].device);
    if (status) return status;
    note_device(x, x->views[i].device);
    x->next[i] = i;
    if (e->root != i) { /* into the ring behind the root */
      x->next[i] = x->next[e->root];
      x->next[e->root] = i;
    }
    if (e->size > x->pool_sizes[e->storage]) x->pool_sizes[e->storage] = e->size;
    if (!x->flat) continue;
    x->flat_extents[i] = 1;
    for (int32_t k = 0; k < e->ndim;
         k++) /* only what has no bytes can have too many elements: then there are none */
      if (__builtin_mul_overflow(x->flat_extents[i], e->shape[k], &x->flat_extents[i]))
        x->flat_extents[i] = 0;
    x->flat[i] = x->views[i];
    x->flat[i].ndim = 1;
    x->flat[i].shape = &x->flat_extents[i];
  }
  return MBLOB_OK;
}

/* ---- executors ---- */

static int name_outputs(struct mb_graph_executor *x) {
  const struct mb_graph *g = &x->graph;
  x->output_names = list_of(g->output_count, sizeof(*x->output_names));
  for (uint32_t i = 0; x->output_names && i < g->output_count; i++)
    if (asprintf(&x->output_names[i], "%s:%u", g->nodes[g->entries[g->outputs[i]].node].name, i) <
        0)
      return mb_fail_memory(0);
  return x->output_names ? MBLOB_OK : mb_fail_memory(g->output_count * sizeof(*x->output_names));
}

int mb_graph_executor_new(const struct mb_graph_source *source, struct mb_graph_executor **out) {
  struct mb_graph_executor *x = calloc(1, sizeof(*x));
  *out = NULL;
  if (!x) return mb_fail_memory(sizeof(*x));
  mb_lock_init_uncounted(&x->lock); /* runs may take long, and call anything */
  x->kernels = mblob_module_retain(source->kernels);
  int status = mb_graph_read(source->json, source->json_size, &x->graph);
  if (!status) status = allocate_executor(x);
  if (!status) status = make_views(x, source);
  TVMValue *values = x->values;
  for (uint32_t i = 0; !status && i < x->graph.node_count; i++)
    status = make_step(x, i, source->kernels_scope, &values);
  if (!status) status = mb_graph_memory_new(x, source);
  if (!status) status = name_outputs(x);
  if (status)
    mb_graph_executor_free(x);
  else
    *out = x;
  return status;
}

void mb_graph_executor_free(void *executor) {
  struct mb_graph_executor *x = executor;
  for (uint32_t i = 0; i < x->step_count; i++) mblob_function_release(x->steps[i].function);
  for (uint32_t i = 0; x->memory && i < x->graph.entry_count; i++)
    if (x->memory[i].array) mb_array_release(x->memory[i].array);
  for (uint32_t i = 0; x->pools && i < x->graph.storage_count; i++)
    if (x->pools[i]) mb_array_release(x->pools[i]);
  for (uint32_t i = 0; x->output_names && i < x->graph.output_count; i++) free(x->output_names[i]);
  mb_schedule_free(x->schedule);
  free(x->thread_choice.least);
  mb_graph_free(&x->graph);
  free(x->views);
  free(x->flat);
  free(x->flat_extents);
  free(x->devices);
  free(x->next);
  free(x->memory);
  free(x->pools);
  free(x->pool_sizes);
  free(x->output_names);
  free(x->input_flags);
  free(x->bound);
  free(x->steps);
  free(x->values);
  free(x->codes);
  mblob_module_release(x->kernels);
  mb_lock_destroy(&x->lock);
  free(x);
}
