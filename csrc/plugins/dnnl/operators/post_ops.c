/* post_ops.c - two ways in which TVM tells what it fused.
 *
 * By the node's name (`dnnl.conv2d_bias_sum_relu`): bias is input 2, the summand the last input,
 * clip's limits are attributes. By attributes (quantized nodes, from 0.10 on): bias_idx,
 * o_scl_idx, sum_idx, sum_scl_idx, dst_zp_idx are positions of inputs, `activation` is a name
 * and the positions of its scale, alpha and beta; then the result is activation((operation +
 * bias) * o_scl) * scale + sum * sum_scl + dst_zp. Scales are post-ops here, which both versions
 * of oneDNN have; its own attributes for scales differ. */
#include "operators.h"

#include <string.h>

#include "common.h"

static const struct {
  const char *name;
  enum dn_eltwise algorithm;
} eltwise_names[] = {
    {"abs", DN_ABS},         {"clip", DN_CLIP},           {"exp", DN_EXP},
    {"elu", DN_ELU},         {"gelu_tanh", DN_GELU_TANH}, {"pow", DN_POWER},
    {"gelu", DN_GELU_ERF},   {"hardswish", DN_HARDSWISH}, {"gelu_erf", DN_GELU_ERF},
    {"leaky_relu", DN_RELU}, {"linear", DN_LINEAR},       {"log", DN_LOG},
    {"mish", DN_MISH},       {"nn.leaky_relu", DN_RELU},  {"nn.relu", DN_RELU},
    {"relu", DN_RELU},       {"round", DN_ROUND},         {"sigmoid", DN_LOGISTIC},
    {"silu", DN_SWISH},      {"sqrt", DN_SQRT},           {"swish", DN_SWISH},
    {"tanh", DN_TANH},
};

int dn_eltwise_of(const char *name) {
  for (size_t i = 0; i < sizeof(eltwise_names) / sizeof(*eltwise_names); ++i)
    if (!strcmp(eltwise_names[i].name, name)) return (int)eltwise_names[i].algorithm;
  return -1;
}

int dn_eltwise_numbers(struct dn_build *build, enum dn_eltwise algorithm, float *alpha,
                       float *beta) {
  const struct dn_node *node = build->node;
  *alpha = algorithm == DN_SWISH ? 1.0f : 0.0f;
  *beta = 0.0f;
  if (algorithm == DN_CLIP) {
    int status = dn_get_float(build->graph, node, "a_min", alpha);
    return status ? status : dn_get_float(build->graph, node, "a_max", beta);
  }
  if (algorithm == DN_HARDSWISH) { /* x * clip(x / 6 + 1 / 2, 0, 1) */
    *alpha = 1.0f / 6.0f;
    *beta = 0.5f;
  }
  if (algorithm == DN_LINEAR) {
    int status = dn_get_float(build->graph, node, "alpha", alpha);
    return status ? status : dn_get_float(build->graph, node, "beta", beta);
  }
  if (algorithm == DN_POWER) {
    *alpha = 1.0f;
    return dn_get_float(build->graph, node, "exponent", beta);
  }
  return algorithm == DN_ELU || (algorithm == DN_RELU && strstr(node->name, "leaky_relu"))
             ? dn_get_float(build->graph, node, "alpha", alpha)
             : MBLOB_OK;
}

/* ---- appending ---- */

static int count_post_op(struct dn_build *build, struct dn_operation *op, int status) {
  if (status)
    return dn_fail_build(build, MBLOB_E_KERNEL, "oneDNN refuses a post-op: %s",
                         dn_status_text(status));
  ++op->post_op_count;
  return MBLOB_OK;
}

int dn_append_eltwise(struct dn_build *build, struct dn_operation *op, enum dn_eltwise algorithm,
                      float alpha, float beta) {
  if (op->functions & 1U << algorithm)
    return dn_fail_build(
        build, MBLOB_E_KERNEL,
        "the same function is fused twice, of which oneDNN computes wrong numbers");
  op->functions |= 1U << algorithm;
  return count_post_op(
      build, op, build->library->version->append_eltwise(op->post_ops, algorithm, alpha, beta));
}

/* Multiply by or add a tensor of float32, spread over the result: operand->md says how. */
int dn_append_binary(struct dn_build *build, struct dn_operation *op, int algorithm,
                     const struct dn_operand *operand) {
  op->extra[op->extra_count].argument =
      build->library->version->post_op_argument * ((int)op->post_op_count + 1) | DN_ARG_SRC_1;
  op->extra[op->extra_count++].operand = *operand;
  return count_post_op(
      build, op, build->library->post_ops_append_binary(op->post_ops, algorithm, operand->md));
}

/* Constants: one for everything, or one for each channel. Not eltwise_linear: oneDNN 2.6 and 3.2
 * compute wrong results where an algorithm is there twice. */
static int append_vector(struct dn_build *build, struct dn_operation *op, int algorithm,
                         struct dn_operand *operand, size_t count, int channel_axis) {
  int64_t dims[DN_MAX_RANK];
  for (int i = 0; i < op->dst_view->rank; ++i) dims[i] = i == channel_axis ? (int64_t)count : 1;
  operand->md = dn_plain_md(build, op->dst_view->rank, dims, DN_F32);
  return operand->md ? dn_append_binary(build, op, algorithm, operand) : MBLOB_E_KERNEL;
}

static int append_constants(struct dn_build *build, struct dn_operation *op, int algorithm,
                            size_t tensor, const char *what, int channel_axis) {
  const float *floats;
  struct dn_operand operand;
  size_t count;
  int status = dn_constant_floats(build, tensor, what, &operand, &floats, &count);
  if (status) return status;
  if (count != 1 && (channel_axis < 0 || (uint64_t)op->dst_view->dims[channel_axis] != count))
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "%s has %zu numbers, expected 1 or one for each channel", what, count);
  return append_vector(build, op, algorithm, &operand, count, channel_axis);
}

int dn_number(struct dn_build *build, int rank, float number, struct dn_operand *out) {
  int64_t dims[DN_MAX_RANK];
  for (int i = 0; i < rank; ++i) dims[i] = 1;
  *out = (struct dn_operand){.place = DN_CONSTANT,
                             .number = dn_plan_constant(build->plan, sizeof(number)),
                             .md = dn_plain_md(build, rank, dims, DN_F32)};
  if (out->number == SIZE_MAX) return MBLOB_E_MEMORY;
  memcpy(build->plan->constants[out->number].data, &number, sizeof(number));
  return out->md ? MBLOB_OK : MBLOB_E_KERNEL;
}

static int append_number(struct dn_build *build, struct dn_operation *op, int algorithm,
                         float number) {
  struct dn_operand operand;
  int status = dn_number(build, op->dst_view->rank, number, &operand);
  return status ? status : dn_append_binary(build, op, algorithm, &operand);
}

static int get_steps(struct dn_build *build, bool bytes, float *scale, float *low, float *high) {
  const struct dn_graph *graph = build->graph;
  const struct dn_node *node = build->node;
  int status = dn_get_float(graph, node, "quantize_scale", scale);
  if (!status && !(*scale > 0.0f))
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "the attribute quantize_scale is %g, expected a positive number", *scale);
  if (!status) status = dn_get_float(graph, node, bytes ? "quantize_zero" : "quantize_min", low);
  return status || bytes ? status : dn_get_float(graph, node, "quantize_max", high);
}

int dn_append_rounding(struct dn_build *build, struct dn_operation *op) {
  if (!dn_has_attribute(build->node, "quantize_scale")) return MBLOB_OK;
  enum dn_type type = build->graph->tensors[build->node->first_tensor].type;
  bool bytes = type == DN_S8 || type == DN_U8;
  float scale, low, high;
  int status = get_steps(build, bytes, &scale, &low, &high);
  if (!status) status = append_number(build, op, DN_BINARY_DIVIDE, scale);
  if (!status) status = dn_append_eltwise(build, op, DN_ROUND, 0.0f, 0.0f);
  if (!status && bytes)
    return low == 0.0f ? MBLOB_OK : append_number(build, op, DN_BINARY_ADD, low);
  if (!status) status = dn_append_eltwise(build, op, DN_CLIP, low, high);
  return status ? status : append_number(build, op, DN_BINARY_MULTIPLY, scale);
}

/* A summand of another type would lose what the result's type has not, if the result began with
 * it. So it is added as floats: (result / scale + summand) * scale. */
static int append_converted_sum(struct dn_build *build, struct dn_operation *op, size_t tensor,
                                float scale) {
  struct dn_operand operand;
  int status = dn_operand(build, tensor, &operand);
  if (status || scale == 0.0f) return status;
  struct dn_view view = *op->dst_view;
  view.type = build->graph->tensors[tensor].type;
  const dn_md *floats = dn_plain_md(build, view.rank, view.dims, DN_F32);
  if (!floats) return MBLOB_E_KERNEL;
  if ((status = dn_view_apply(build, &view, &operand)) ||
      (status = dn_reorder(build, &operand, floats)))
    return status;
  if (scale != 1.0f && (status = append_number(build, op, DN_BINARY_MULTIPLY, 1.0f / scale)))
    return status;
  status = dn_append_binary(build, op, DN_BINARY_ADD, &operand);
  return status || scale == 1.0f ? status : append_number(build, op, DN_BINARY_MULTIPLY, scale);
}

static int append_sum(struct dn_build *build, struct dn_operation *op, size_t tensor, float scale) {
  const struct dn_tensor *sum = &build->graph->tensors[tensor];
  const struct dn_tensor *dst = &build->graph->tensors[build->node->first_tensor];
  char one[160], other[160];
  if (sum->rank != dst->rank ||
      memcmp(sum->dims, dst->dims, (size_t)sum->rank * sizeof(*sum->dims)))
    return dn_fail_build(build, MBLOB_E_FORMAT, "the summand is %s, and the result is %s",
                         dn_tensor_text(sum, one, sizeof(one)),
                         dn_tensor_text(dst, other, sizeof(other)));
  if (sum->type != dst->type || op->add_sum_apart)
    return append_converted_sum(build, op, tensor, scale);
  int status = dn_operand(build, tensor, &op->sum);
  op->sum_view = op->dst_view;
  return status
             ? status
             : count_post_op(build, op, build->library->version->append_sum(op->post_ops, scale));
}

/* ---- what the attributes say ---- */

int dn_scalar(struct dn_build *build, size_t tensor, const char *what, float *out) {
  const float *floats;
  struct dn_operand operand;
  size_t count;
  int status = dn_constant_floats(build, tensor, what, &operand, &floats, &count);
  if (!status && count != 1)
    return dn_fail_build(build, MBLOB_E_FORMAT, "%s has %zu numbers, expected 1", what, count);
  if (!status) *out = floats[0];
  return status;
}

static int named_scalar(struct dn_build *build, const char *attribute, float *out) {
  size_t tensor;
  int status = dn_get_input_index(build->graph, build->node, attribute, &tensor);
  return status ? status : dn_scalar(build, tensor, attribute, out);
}

static int append_activation(struct dn_build *build, struct dn_operation *op) {
  static const char *const parts[] = {"the scale of the activation", "alpha of the activation",
                                      "beta of the activation"};
  const char *texts[4];
  float numbers[3];
  size_t scale = 0;
  int status = dn_get_texts(build->graph, build->node, "activation", 4, texts);
  if (status) return status;
  int algorithm = dn_eltwise_of(texts[0]);
  if (algorithm < 0)
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "the attribute activation is `%s`, which oneDNN does not have", texts[0]);
  for (size_t i = 0; i < 3; ++i) {
    struct dn_attribute position = {parts[i], (char **)&texts[i + 1], 1};
    struct dn_node alone = *build->node;
    size_t tensor;
    alone.attributes = &position;
    alone.attribute_count = 1;
    /* As an attribute of the same node, so that the same checks hold. */
    if (dn_get_input_index(build->graph, &alone, parts[i], &tensor))
      return dn_fail_build(build, MBLOB_E_FORMAT,
                           "the attribute activation: `%s` is no position of an input",
                           texts[i + 1]);
    if ((status = dn_scalar(build, tensor, parts[i], &numbers[i]))) return status;
    if (i == 0) scale = tensor;
  }
  status = dn_append_eltwise(build, op, (enum dn_eltwise)algorithm, numbers[1], numbers[2]);
  return status || numbers[0] == 1.0f
             ? status
             : append_constants(build, op, DN_BINARY_MULTIPLY, scale, parts[0], -1);
}

static int fuse_attributes(struct dn_build *build, struct dn_operation *op, int channel_axis) {
  const struct dn_node *node = build->node;
  float sum_scale = 1.0f;
  size_t tensor;
  int status = MBLOB_OK;
  if (dn_has_attribute(node, "o_scl_idx")) {
    status = dn_get_input_index(build->graph, node, "o_scl_idx", &tensor);
    if (!status)
      status =
          append_constants(build, op, DN_BINARY_MULTIPLY, tensor, "the output scale", channel_axis);
  }
  if (!status && dn_has_attribute(node, "activation")) status = append_activation(build, op);
  if (!status && dn_has_attribute(node, "sum_idx")) {
    status = dn_get_input_index(build->graph, node, "sum_idx", &tensor);
    if (!status && dn_has_attribute(node, "sum_scl_idx"))
      status = named_scalar(build, "sum_scl_idx", &sum_scale);
    if (!status) status = append_sum(build, op, tensor, sum_scale);
  }
  if (!status && dn_has_attribute(node, "dst_zp_idx")) {
    status = dn_get_input_index(build->graph, node, "dst_zp_idx", &tensor);
    if (!status)
      status =
          append_constants(build, op, DN_BINARY_ADD, tensor, "the zero point of the result", -1);
  }
  return status;
}

/* ---- what the name says ---- */

static int append_named(struct dn_build *build, struct dn_operation *op,
                        enum dn_eltwise algorithm) {
  float alpha, beta;
  int status = dn_eltwise_numbers(build, algorithm, &alpha, &beta);
  return status ? status : dn_append_eltwise(build, op, algorithm, alpha, beta);
}

static int fuse_name(struct dn_build *build, struct dn_operation *op) {
  static const struct {
    const char *part;
    enum dn_eltwise algorithm;
  } parts[] = {{"_gelu_tanh", DN_GELU_TANH}, /* before its parts */
               {"_relu", DN_RELU},           {"_tanh", DN_TANH},
               {"_clip", DN_CLIP},           {"_sigmoid", DN_LOGISTIC},
               {"_swish", DN_SWISH},         {"_silu", DN_SWISH},
               {"_hardswish", DN_HARDSWISH}, {"_gelu", DN_GELU_ERF},
               {"_mish", DN_MISH},           {"_elu", DN_ELU}};
  const struct dn_node *node = build->node;
  int status = MBLOB_OK;
  if (strstr(node->name, "_sum")) {
    if (!node->input_count) return dn_fail_build(build, MBLOB_E_FORMAT, "a sum without inputs");
    status = append_sum(build, op, node->inputs[node->input_count - 1], 1.0f);
  }
  for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !status; ++i)
    if (strstr(node->name, parts[i].part)) {
      status = append_named(build, op, parts[i].algorithm);
      break;
    }
  return status || !strstr(node->name, "_linear") ? status : append_named(build, op, DN_LINEAR);
}

/* Bias may have any shape of as many numbers as there are channels. */
static int add_bias(struct dn_build *build, struct dn_operation *op, size_t tensor,
                    int channel_axis) {
  const struct dn_tensor *bias = &build->graph->tensors[tensor];
  int64_t channels = op->dst_view->dims[channel_axis], dims[DN_MAX_RANK];
  int rank = op->problem.kind == DN_MATMUL ? op->dst_view->rank : 1;
  char text[160];
  if (bias->bytes / dn_type_size(bias->type) != (uint64_t)channels)
    return dn_fail_build(build, MBLOB_E_FORMAT, "the bias is %s, and there are %lld channels",
                         dn_tensor_text(bias, text, sizeof(text)), (long long)channels);
  for (int i = 0; i < rank; ++i) dims[i] = i + 1 == rank ? channels : 1;
  struct dn_view flat = dn_view_reshaped(bias, rank, dims);
  int status = dn_operand(build, tensor, &op->bias);
  if (status || (status = dn_view_apply(build, &flat, &op->bias)) || !op->in_floats) return status;
  const dn_md *floats = dn_plain_md(build, rank, dims, DN_F32);
  return floats ? dn_reorder(build, &op->bias, floats) : MBLOB_E_KERNEL;
}

int dn_fuse(struct dn_build *build, struct dn_operation *op, int channel_axis) {
  const struct dn_node *node = build->node;
  size_t bias = SIZE_MAX;
  int status = build->library->post_ops_create(&op->post_ops);
  if (status) return dn_fail_build(build, MBLOB_E_MEMORY, "oneDNN: %s", dn_status_text(status));
  bool attributes = dn_has_attribute(node, "activation") || dn_has_attribute(node, "o_scl_idx") ||
                    dn_has_attribute(node, "sum_scl_idx") || dn_has_attribute(node, "dst_zp_idx");
  if (dn_has_attribute(node, "bias_idx")) {
    status = dn_get_input_index(build->graph, node, "bias_idx", &bias);
  } else if (!attributes && strstr(node->name, "_bias")) {
    struct dn_operand third;
    status = dn_input(build, 2, &third);
    if (!status) bias = node->inputs[2];
  }
  if (!status && bias != SIZE_MAX) status = add_bias(build, op, bias, channel_axis);
  if (status) return status;
  status = attributes ? fuse_attributes(build, op, channel_axis) : fuse_name(build, op);
  return status ? status : dn_append_rounding(build, op);
}
