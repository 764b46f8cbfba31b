/* operators.c - which operator a node is, and the order in which all are translated. */
#include "operators.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "../threads.h"

/* A fused node is called after its first operator (dnnl.conv2d_bias_relu), so a part of the name
 * tells. First match. */
static const struct {
  const char *part;
  int (*translate)(struct dn_build *build);
} by_part[] = {
    {"deconv1d", dn_transposed_convolution},
    {"deconv2d", dn_transposed_convolution},
    {"deconv3d", dn_transposed_convolution},
    {"conv1d_transpose", dn_transposed_convolution},
    {"conv2d_transpose", dn_transposed_convolution},
    {"conv3d_transpose", dn_transposed_convolution},
    {"conv1d", dn_convolution},
    {"conv2d", dn_convolution},
    {"conv3d", dn_convolution},
    {"dense", dn_dense},
    {"matmul", dn_matmul},
    {"max_pool1d", dn_max_pool},
    {"max_pool2d", dn_max_pool},
    {"max_pool3d", dn_max_pool},
    {"avg_pool1d", dn_average_pool},
    {"avg_pool2d", dn_average_pool},
    {"avg_pool3d", dn_average_pool},
};

static const struct {
  const char *name;
  int (*translate)(struct dn_build *build);
} by_name[] = {
    {"image.resize1d", dn_resize},
    {"image.resize2d", dn_resize},
    {"image.resize3d", dn_resize},
    {"nn.batch_matmul", dn_matmul},
    {"fake_quantize", dn_eltwise},
    {"nn.prelu", dn_prelu},
    {"quantize", dn_quantize},
    {"dequantize", dn_quantize},
    {"mean", dn_reduce},
    {"sum", dn_reduce},
    {"max", dn_reduce},
    {"min", dn_reduce},
    {"nn.batch_norm", dn_batch_norm},
    {"nn.layer_norm", dn_layer_norm},
    {"nn.softmax", dn_softmax},
    {"nn.log_softmax", dn_log_softmax},
    {"add", dn_binary},
    {"multiply", dn_binary},
    {"subtract", dn_binary},
    {"divide", dn_binary},
    {"maximum", dn_binary},
    {"minimum", dn_binary},
    {"concatenate", dn_concatenate},
    {"concat", dn_concatenate},
    {"nn.concatenate", dn_concatenate},
    {"transpose", dn_transpose},
    {"permute_dims", dn_transpose},
    {"cast", dn_cast},
    {"strided_slice", dn_slice},
};

int dn_translate(struct dn_build *build) {
  const char *name = build->node->name;
  for (size_t i = 0; i < sizeof(by_name) / sizeof(*by_name); ++i)
    if (!strcmp(by_name[i].name, name)) return by_name[i].translate(build);
  if (dn_keeps_bytes(build->node)) return dn_reshape(build);
  if (dn_eltwise_of(name) >= 0) return dn_eltwise(build);
  if (!strncmp(name, "nn.", 3) || !strncmp(name, "dnnl.", 5))
    for (size_t i = 0; i < sizeof(by_part) / sizeof(*by_part); ++i)
      if (strstr(name, by_part[i].part)) return by_part[i].translate(build);
  return dn_fail_build(build, MBLOB_E_KERNEL,
                       "this operator is not one of those that run on oneDNN here");
}

/* ---- all nodes ---- */

/* Which argument of the call each tensor is written to. What becomes an output by a reshape is
 * written there at once. */
static void find_arguments(struct dn_build *build) {
  const struct dn_graph *graph = build->graph;
  for (size_t i = 0; i < graph->tensor_count; ++i) build->values[i].argument = SIZE_MAX;
  for (size_t i = graph->output_count; i-- > 0;) {
    const struct dn_tensor *t = &graph->tensors[graph->outputs[i]];
    if (t->given == t->type)
      build->values[graph->outputs[i]].argument =
          graph->argument_count + i; /* the first one, of several */
  }
  for (size_t n = graph->node_count; n-- > 0;) {
    const struct dn_node *node = &graph->nodes[n];
    if (node->role != DN_KERNEL || !node->input_count || !dn_keeps_bytes(node)) continue;
    struct dn_value *data = &build->values[node->inputs[0]];
    if (data->argument == SIZE_MAX) data->argument = build->values[node->first_tensor].argument;
  }
}

/* An argument of a type that is not computed with: each call converts it. */
static int widen_argument(struct dn_build *build, const struct dn_tensor *tensor,
                          struct dn_operand *at) {
  struct dn_operand given = *at;
  given.md = dn_plain_md(build, tensor->rank, tensor->dims, tensor->given);
  int status = given.md ? dn_new_buffer(build, at) : MBLOB_E_KERNEL;
  return status ? status : dn_add_conversion(build, &given, tensor->given, at, tensor->type);
}

static int begin_values(struct dn_build *build) {
  const struct dn_graph *graph = build->graph;
  for (size_t i = 0; i < graph->tensor_count; ++i) build->values[i].at.tensor = i;
  find_arguments(build);
  for (size_t n = 0; n < graph->node_count; ++n)
    for (size_t i = 0; i < graph->nodes[n].input_count; ++i) {
      struct dn_value *value = &build->values[graph->nodes[n].inputs[i]];
      ++value->uses;
      value->last_node = n;
    }
  for (size_t i = 0; i < graph->output_count; ++i) {
    ++build->values[graph->outputs[i]].uses;
    build->values[graph->outputs[i]].last_node = SIZE_MAX;
  }
  for (size_t i = 0; i < graph->argument_count + graph->const_count; ++i) {
    bool constant = i >= graph->argument_count;
    size_t number = constant ? i - graph->argument_count : i;
    size_t tensor = constant ? graph->constants[number] : graph->arguments[number];
    const struct dn_tensor *t = &graph->tensors[tensor];
    struct dn_operand *at = &build->values[tensor].at;
    at->place = constant ? DN_CONSTANT : DN_ARGUMENT;
    at->number = number;
    build->values[tensor].raw = true;
    if (!(at->md = dn_plain_md(build, t->rank, t->dims, t->type))) return MBLOB_E_KERNEL;
    int status = constant || t->given == t->type ? MBLOB_OK : widen_argument(build, t, at);
    if (status) return status;
  }
  return MBLOB_OK;
}

/* Outputs that no node wrote where they belong: inputs, constants, views, and a tensor that is
 * an output twice. */
static int write_outputs(struct dn_build *build) {
  const struct dn_graph *graph = build->graph;
  build->node = NULL;
  for (size_t i = 0; i < graph->output_count; ++i) {
    size_t number = graph->argument_count + i;
    const struct dn_value *value = &build->values[graph->outputs[i]];
    if (value->at.md && value->at.place == DN_ARGUMENT && value->at.number == number) continue;
    const struct dn_tensor *t = &graph->tensors[graph->outputs[i]];
    bool converts = t->given != t->type;
    struct dn_operand from;
    int status = converts ? dn_raw_operand(build, graph->outputs[i], &from)
                          : dn_operand(build, graph->outputs[i], &from);
    if (status) return status;
    struct dn_operand to = {.place = DN_ARGUMENT,
                            .number = number,
                            .md = dn_plain_md(build, t->rank, t->dims, t->given)};
    if (!to.md) return MBLOB_E_KERNEL;
    status = converts ? dn_add_conversion(build, &from, t->type, &to, t->given)
                      : dn_add_reorder(build, &from, &to);
    if (status) return status;
  }
  return MBLOB_OK;
}

/* Constants that calls read become the plan's own; the caller's are needed no longer. */
static int keep_constants(struct dn_plan *plan) {
  size_t count = plan->constant_count;
  for (size_t i = 0; i < count; ++i) {
    bool used = false;
    for (size_t s = 0; s < plan->slot_count && !used; ++s)
      used = plan->slots[s].place == DN_CONSTANT && plan->slots[s].number == i;
    struct dn_constant *constant = &plan->constants[i];
    if (used && !constant->owned && !constant->lasting) {
      struct dn_constant theirs = *constant;
      size_t number = dn_plan_constant(plan, theirs.size);
      if (number == SIZE_MAX) return MBLOB_E_MEMORY;
      memcpy(plan->constants[number].data, theirs.data, mb_size(theirs.size));
      plan->constants[i] = plan->constants[number];
      --plan->constant_count;
    }
    if (!used) dn_plan_drop(plan, i);
  }
  return MBLOB_OK;
}

static int most_threads(const struct dn_plan *plan) {
  int most = plan->threads > 0;
  for (size_t i = 0; i < plan->step_count; ++i)
    if (plan->steps[i].threads > most) most = plan->steps[i].threads;
  return most;
}

static int translate_all(struct dn_build *build) {
  int status = begin_values(build);
  for (size_t n = 0; n < build->graph->node_count && !status; ++n) {
    build->node = &build->graph->nodes[n];
    if (build->node->role == DN_KERNEL) status = dn_translate(build);
  }
  if (!status) status = write_outputs(build);
  if (!status) status = keep_constants(build->plan);
  return status ? status : dn_plan_arena(build->plan);
}

static int build_plan(struct dn_build *build) {
  build->values = calloc(build->graph->tensor_count, sizeof(*build->values));
  if (!build->values) return mb_fail_memory(build->graph->tensor_count * sizeof(*build->values));
  int error = build->library->stream_create(&build->stream, build->library->engine, DN_IN_ORDER);
  int status = error ? dn_fail_build(build, MBLOB_E_KERNEL, "oneDNN has no stream: %s",
                                     dn_status_text(error))
                     : translate_all(build);
  build->plan->threads = most_threads(build->plan);
  if (build->stream) (void)build->library->stream_destroy(build->stream);
  free(build->copies);
  free(build->values);
  return status;
}

int dn_prepare(const struct dn_graph *graph, struct dn_plan *plan, struct dn_shared *shared,
               struct dn_packing *packing) {
  struct dn_build build = {
      .plan = plan, .graph = graph, .library = plan->library, .shared = shared, .packing = packing};
  int before;
  build.threads = plan->threads = dn_threads_begin(plan->library, &before);
  int status = build_plan(&build);
  dn_threads_set(plan->library, build.threads, before);
  return status;
}
