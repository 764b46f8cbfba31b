/* op_simple.c - operators whose result has the shape of their data: element-wise,
 * normalizations, sums and products. */
#include <string.h>

#include "common.h"
#include "operators.h"

/* An operand of a binary with functions behind it, in a format that oneDNN's loops of AVX2 can write: they end the
 * process, or compute wrong numbers, for blocks of another axis than 1 (a result of a layer, transposed), and for
 * bytes in blocks that have elements of no tensor. */
static int leave_blocks(struct dn_build *build, int rank, const int64_t *dims,
                        struct dn_operand *operand) {
  const struct dn_tensor *tensors = build->graph->tensors, *tensor = &tensors[operand->tensor];
  bool bytes = dn_type_size(tensors[build->node->first_tensor].type) == 1;
  if (!build->library->version->md_has_odd_blocks(operand->md) &&
      (!bytes || build->library->md_size(operand->md) == tensor->bytes))
    return MBLOB_OK;
  const dn_md *plain = dn_plain_md(build, rank, dims, tensor->type);
  return plain ? dn_reorder(build, operand, plain) : MBLOB_E_KERNEL;
}

/* The data, and a result of its shape. */
static int same_shape(struct dn_build *build, struct dn_operation *op, struct dn_view *dst) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  char one[160], other[160];
  int status = dn_input(build, 0, &op->src);
  if (status) return status;
  const struct dn_tensor *data = &build->graph->tensors[op->src.tensor];
  if (data->rank != result->rank ||
      memcmp(data->dims, result->dims, (size_t)data->rank * sizeof(*data->dims)))
    return dn_fail_build(
        build, MBLOB_E_FORMAT, "the data is %s, and the result %s: the shapes differ",
        dn_tensor_text(data, one, sizeof(one)), dn_tensor_text(result, other, sizeof(other)));
  *dst = dn_view_same(result);
  op->dst_view = dst;
  op->problem.dst = dn_any_md(build, dst->rank, dst->dims, dst->type);
  return op->problem.dst ? MBLOB_OK : MBLOB_E_KERNEL;
}

/* A binary with what rounds its result behind it. */
static int build_rounded(struct dn_build *build, struct dn_operation *op) {
  int error = op->post_ops ? MBLOB_OK : build->library->post_ops_create(&op->post_ops);
  if (error) return dn_fail_build(build, MBLOB_E_MEMORY, "oneDNN: %s", dn_status_text(error));
  int status = dn_append_rounding(build, op);
  if (!status) status = dn_build_operation(build, op);
  (void)build->library->post_ops_destroy(op->post_ops);
  return status;
}

/* The data itself, as a binary that has fast loops for what is behind it, in all formats: oneDNN 2.6 with
 * AVX2 has none for blocks and one number. */
static void begin_with_data(struct dn_operation *op) {
  op->problem = (struct dn_problem){
      .kind = DN_BINARY, .algorithm = DN_BINARY_MAXIMUM, .dst = op->problem.dst};
  op->weights = op->src;
}

/* A function (or none, -1) with rounding behind it: only a binary has fast loops with more than one. */
static int round_behind(struct dn_build *build, struct dn_operation *op, int algorithm) {
  float alpha = op->problem.alpha, beta = op->problem.beta;
  int status = leave_blocks(build, op->dst_view->rank, op->dst_view->dims, &op->src);
  if (status) return status;
  begin_with_data(op);
  int error = build->library->post_ops_create(&op->post_ops);
  if (error) return dn_fail_build(build, MBLOB_E_MEMORY, "oneDNN: %s", dn_status_text(error));
  if (algorithm >= 0)
    status = dn_append_eltwise(build, op, (enum dn_eltwise)algorithm, alpha, beta);
  if (!status) return build_rounded(build, op);
  (void)build->library->post_ops_destroy(op->post_ops);
  return status;
}

int dn_eltwise(struct dn_build *build) {
  struct dn_view dst;
  int algorithm = dn_eltwise_of(build->node->name);
  bool rounded = algorithm < 0 || dn_has_attribute(build->node, "quantize_scale");
  struct dn_operation op = {.problem = {.kind = DN_ELTWISE, .algorithm = algorithm}};
  float scale; /* which nothing but rounding needs */
  int status = algorithm < 0 ? dn_get_float(build->graph, build->node, "quantize_scale", &scale)
                             : dn_eltwise_numbers(build, (enum dn_eltwise)algorithm,
                                                  &op.problem.alpha, &op.problem.beta);
  if (status || (status = same_shape(build, &op, &dst))) return status;
  return rounded ? round_behind(build, &op, algorithm) : dn_build_operation(build, &op);
}

/* A format in which one axis is inside of all others: a softmax along others is slow. */
static const dn_md *with_inside(struct dn_build *build, const struct dn_view *view, int axis) {
  int64_t strides[DN_MAX_RANK], step = view->dims[axis];
  for (int i = view->rank - 1; i >= 0; --i) {
    strides[i] = i == axis ? 1 : step;
    step *= i == axis ? 1 : view->dims[i];
  }
  dn_md *md;
  return dn_keep_md(
      build,
      build->library->version->md_strided(view->rank, view->dims, (int)view->type, strides, &md),
      &md, "an axis inside");
}

static int softmax(struct dn_build *build, int algorithm) {
  struct dn_view dst;
  struct dn_operation op = {.problem = {.kind = DN_SOFTMAX, .algorithm = algorithm}};
  int status = same_shape(build, &op, &dst);
  if (status || (status = dn_get_axis(build, dst.rank, &op.problem.axis))) return status;
  op.problem.dst = with_inside(build, &dst, op.problem.axis);
  if (!op.problem.dst) return MBLOB_E_KERNEL;
  status = dn_reorder(build, &op.src, op.problem.dst);
  return status ? status : dn_build_operation(build, &op);
}

int dn_softmax(struct dn_build *build) { return softmax(build, DN_SOFTMAX_ACCURATE); }
int dn_log_softmax(struct dn_build *build) { return softmax(build, DN_SOFTMAX_LOG); }

/* ---- normalizations ---- */

/* A vector of `count` floats of any size as an operand of its own. */
static int add_vector(struct dn_build *build, struct dn_operation *op, size_t input, int argument,
                      int64_t count) {
  struct dn_operand operand;
  char text[160];
  int status = dn_input(build, input, &operand);
  if (status) return status;
  const struct dn_tensor *tensor = &build->graph->tensors[operand.tensor];
  if (!dn_is_float(tensor->type) || tensor->bytes != (uint64_t)count * dn_type_size(tensor->type))
    return dn_fail_build(build, MBLOB_E_FORMAT, "input %zu is %s, expected %lld floats", input,
                         dn_tensor_text(tensor, text, sizeof(text)), (long long)count);
  struct dn_view flat = dn_view_reshaped(tensor, 1, &count);
  const dn_md *wanted =
      dn_plain_md(build, 1, &count, DN_F32); /* whatever the type of the data is */
  if (!wanted) return MBLOB_E_KERNEL;
  if ((status = dn_view_apply(build, &flat, &operand)) ||
      (status = dn_reorder(build, &operand, wanted)))
    return status;
  op->extra[op->extra_count].argument = argument;
  op->extra[op->extra_count++].operand = operand;
  return MBLOB_OK;
}

/* gamma and beta are inputs 1 and 2, also where `scale` or `center` say that they do not matter. */
static int add_scale_and_shift(struct dn_build *build, struct dn_operation *op, int64_t count) {
  bool scale, center;
  int status = dn_get_bool(build->graph, build->node, "scale", &scale);
  if (status || (status = dn_get_bool(build->graph, build->node, "center", &center)) ||
      (status = dn_get_float(build->graph, build->node, "epsilon", &op->problem.epsilon)))
    return status;
  op->problem.flags |= (scale ? DN_USE_SCALE : 0u) | (center ? DN_USE_SHIFT : 0u);
  if (scale) status = add_vector(build, op, 1, DN_ARG_SCALE, count);
  if (center && !status) status = add_vector(build, op, 2, DN_ARG_SHIFT, count);
  return status;
}

/* Look at an axis as if it were axis `to`, all others in their order. */
static void move_axis(struct dn_view *view, const struct dn_tensor *tensor, int axis, int to) {
  if (axis == to) return;
  view->how = DN_PERMUTED;
  for (int i = 0; i < view->rank; ++i) {
    int left = i - (i > axis); /* its place without the axis */
    view->permutation[i] = i == axis ? to : left + (left >= to);
  }
  for (int i = 0; i < view->rank; ++i) view->dims[view->permutation[i]] = tensor->dims[i];
}

/* oneDNN normalizes over axis 1, of 2 to 5. */
static struct dn_view channels_second(const struct dn_tensor *tensor, int axis) {
  struct dn_view view = dn_view_same(tensor);
  int64_t dims[3] = {1, tensor->dims[axis], 1};
  if (axis && view.rank <= 5) {
    move_axis(&view, tensor, axis, 1);
    return view;
  }
  for (int i = 0; i < tensor->rank; ++i)
    if (i != axis) dims[i < axis ? 0 : 2] *= tensor->dims[i];
  return dn_view_reshaped(tensor, 3, dims);
}

int dn_batch_norm(struct dn_build *build) {
  struct dn_view dst;
  struct dn_operation op = {.problem = {.kind = DN_BATCH_NORMALIZATION, .flags = DN_GLOBAL_STATS}};
  int axis, status = same_shape(build, &op, &dst);
  if (status || (status = dn_get_axis(build, dst.rank, &axis))) return status;
  int64_t channels = dst.dims[axis];
  dst = channels_second(&build->graph->tensors[op.src.tensor], axis);
  if ((status = dn_view_apply(build, &dst, &op.src)) ||
      (status = add_scale_and_shift(build, &op, channels)) ||
      (status = add_vector(build, &op, 3, DN_ARG_MEAN, channels)) ||
      (status = add_vector(build, &op, 4, DN_ARG_VARIANCE, channels)))
    return status;
  op.problem.dst = op.src.md; /* one format for both in oneDNN 2 */
  return dn_build_operation(build, &op);
}

/* x, or x times a slope where it is negative: one for all, or for each channel. */
int dn_prelu(struct dn_build *build) {
  struct dn_view dst;
  struct dn_operation op = {.problem = {.kind = DN_PRELU}};
  int axis, status = same_shape(build, &op, &dst);
  if (status || (status = dn_get_axis(build, dst.rank, &axis)) ||
      (status = dn_input(build, 1, &op.weights)))
    return status;
  const struct dn_tensor *slope = &build->graph->tensors[op.weights.tensor];
  int64_t dims[DN_MAX_RANK], count = (int64_t)(slope->bytes / dn_type_size(slope->type));
  char text[160];
  if (count != 1 && count != dst.dims[axis])
    return dn_fail_build(build, MBLOB_E_FORMAT, "the slope is %s, and there are %lld channels",
                         dn_tensor_text(slope, text, sizeof(text)), (long long)dst.dims[axis]);
  dst = channels_second(&build->graph->tensors[op.src.tensor], axis);
  for (int i = 0; i < dst.rank; ++i) dims[i] = i == 1 ? count : 1;
  struct dn_view spread = dn_view_reshaped(slope, dst.rank, dims);
  if ((status = dn_view_apply(build, &dst, &op.src)) ||
      (status = dn_view_apply(build, &spread, &op.weights)))
    return status;
  op.problem.dst = op.src.md;
  return dn_build_operation(build, &op);
}

/* oneDNN normalizes over the last axis, of 2 to 5. */
static int lay_out_rows(struct dn_build *build, struct dn_operation *op, struct dn_view *dst,
                        int axis, int64_t count) {
  const struct dn_tensor *tensor = &build->graph->tensors[op->src.tensor];
  int64_t rows[2] = {1, count};
  for (int i = 0; i < tensor->rank; ++i) rows[0] *= tensor->dims[i];
  rows[0] /= count;
  if (axis == tensor->rank - 1 || count != tensor->dims[axis])
    *dst = dn_view_reshaped(tensor, 2, rows);
  else
    move_axis(dst, tensor, axis, dst->rank - 1);
  int status = dn_view_apply(build, dst, &op->src);
  if (status || dst->how == DN_RESHAPED) return status;
  const dn_md *plain = dn_plain_md(build, dst->rank, dst->dims, dst->type);
  return plain ? dn_reorder(build, &op->src, plain) : MBLOB_E_KERNEL;
}

int dn_layer_norm(struct dn_build *build) {
  struct dn_view dst;
  struct dn_operation op = {.problem = {.kind = DN_LAYER_NORMALIZATION}};
  int axis, status = same_shape(build, &op, &dst);
  if (status || (status = dn_get_axis(build, dst.rank, &axis))) return status;
  int64_t count = dst.dims[axis];
  bool trailing = false; /* this axis and those behind it, as in ONNX */
  if (dn_has_attribute(build->node, "trailing"))
    status = dn_get_bool(build->graph, build->node, "trailing", &trailing);
  for (int i = axis + 1; i < dst.rank && trailing; ++i) count *= dst.dims[i];
  if (!status && (axis != dst.rank - 1 || dst.rank < 2 || dst.rank > 5))
    status = lay_out_rows(build, &op, &dst, axis, count);
  else if (!status) /* oneDNN is slow at rows that lie apart */
    status = dn_raw_operand(build, op.src.tensor, &op.src);
  if (status || (status = add_scale_and_shift(build, &op, count))) return status;
  op.problem.dst = op.src.md;
  return dn_build_operation(build, &op);
}

/* ---- two sources ---- */

/* An input with axes of 1 in front, as many as the result has. */
static int broadcast(struct dn_build *build, size_t input, const struct dn_view *dst,
                     struct dn_operand *out, bool *whole) {
  char one[160], other[160];
  int64_t dims[DN_MAX_RANK];
  int status = dn_input(build, input, out);
  if (status) return status;
  const struct dn_tensor *tensor = &build->graph->tensors[out->tensor];
  bool fits = tensor->rank <= dst->rank;
  *whole = true;
  for (int i = 0; i < dst->rank && fits; ++i) {
    int own = i - (dst->rank - tensor->rank);
    dims[i] = own < 0 ? 1 : tensor->dims[own];
    fits = dims[i] == dst->dims[i] || dims[i] == 1;
    if (dims[i] != dst->dims[i]) *whole = false;
  }
  if (!fits)
    return dn_fail_build(
        build, MBLOB_E_FORMAT, "input %zu is %s, which cannot be spread to %s", input,
        dn_tensor_text(tensor, one, sizeof(one)),
        dn_tensor_text(&build->graph->tensors[build->node->first_tensor], other, sizeof(other)));
  struct dn_view view = dn_view_reshaped(tensor, dst->rank, dims);
  status = dn_view_apply(build, &view, out);
  return status ? status : leave_blocks(build, dst->rank, dims, out);
}

/* Where the first source must have the result's shape: repeat it, by strides of 0. */
static int expand(struct dn_build *build, struct dn_operand *operand, const struct dn_view *dst) {
  const struct dn_tensor *tensor = &build->graph->tensors[operand->tensor];
  int64_t strides[DN_MAX_RANK], step = 1;
  int status = dn_raw_operand(build, operand->tensor, operand);
  if (status) return status;
  for (int i = dst->rank - 1; i >= 0; --i) {
    int own = i - (dst->rank - tensor->rank);
    int64_t extent = own < 0 ? 1 : tensor->dims[own];
    strides[i] = extent == dst->dims[i] ? step : 0;
    step *= extent;
  }
  dn_md *md;
  operand->md = dn_keep_md(
      build,
      build->library->version->md_strided(dst->rank, dst->dims, (int)tensor->type, strides, &md),
      &md, "repeated");
  const dn_md *plain = dn_plain_md(build, dst->rank, dst->dims, tensor->type);
  return operand->md && plain ? dn_reorder(build, operand, plain) : MBLOB_E_KERNEL;
}

int dn_binary(struct dn_build *build) {
  static const struct {
    const char *name;
    int algorithm;
    bool commutes;
  } kinds[] = {{"add", DN_BINARY_ADD, true},
               {"multiply", DN_BINARY_MULTIPLY, true},
               {"subtract", DN_BINARY_SUBTRACT, false},
               {"divide", DN_BINARY_DIVIDE, false},
               {"maximum", DN_BINARY_MAXIMUM, true},
               {"minimum", DN_BINARY_MINIMUM, true}};
  size_t kind = 0;
  while (strcmp(kinds[kind].name, build->node->name)) ++kind;
  struct dn_operation op = {.problem = {.kind = DN_BINARY, .algorithm = kinds[kind].algorithm}};
  struct dn_view dst = dn_view_same(&build->graph->tensors[build->node->first_tensor]);
  bool whole[2];
  if (build->node->input_count != 2)
    return dn_fail_build(build, MBLOB_E_FORMAT, "it has %zu inputs, expected 2",
                         build->node->input_count);
  int status = broadcast(build, 0, &dst, &op.src, &whole[0]);
  if (status || (status = broadcast(build, 1, &dst, &op.weights, &whole[1]))) return status;
  if (!whole[0] && whole[1] && kinds[kind].commutes) {
    struct dn_operand first = op.src;
    op.src = op.weights;
    op.weights = first;
  } else if (!whole[0] && (status = expand(build, &op.src, &dst))) {
    return status;
  }
  op.dst_view = &dst;
  op.problem.dst = dn_any_md(build, dst.rank, dst.dims, dst.type);
  return op.problem.dst ? build_rounded(build, &op) : MBLOB_E_KERNEL;
}

/* round(x / scale) + zero, cut to the type of the result; (x - zero) * scale. */
int dn_quantize(struct dn_build *build) {
  bool back = *build->node->name == 'd', whole;
  struct dn_operation op = {.problem = {.kind = DN_BINARY, .algorithm = DN_BINARY_SUBTRACT}};
  struct dn_view dst = dn_view_same(&build->graph->tensors[build->node->first_tensor]);
  struct dn_operand scale, zero;
  if (build->node->input_count != 3)
    return dn_fail_build(build, MBLOB_E_FORMAT, "it has %zu inputs, expected 3",
                         build->node->input_count);
  int status = broadcast(build, 0, &dst, &op.src, &whole);
  if (!status && !whole)
    status = dn_fail_build(build, MBLOB_E_FORMAT, "the data and the result differ in shape");
  if (status || (status = broadcast(build, 1, &dst, &scale, &whole)) ||
      (status = broadcast(build, 2, &dst, &zero, &whole)))
    return status;
  op.dst_view = &dst;
  op.weights = zero;
  if (!(op.problem.dst = dn_any_md(build, dst.rank, dst.dims, dst.type))) return MBLOB_E_KERNEL;
  if (back && (status = dn_widen_source(build, &op))) return status;
  begin_with_data(&op);
  int error = build->library->post_ops_create(&op.post_ops);
  if (error) return dn_fail_build(build, MBLOB_E_MEMORY, "oneDNN: %s", dn_status_text(error));
  if (back) {
    status = dn_append_binary(build, &op, DN_BINARY_SUBTRACT, &zero);
    if (!status) status = dn_append_binary(build, &op, DN_BINARY_MULTIPLY, &scale);
  } else {
    status = dn_append_binary(build, &op, DN_BINARY_DIVIDE, &scale);
    if (!status) status = dn_append_eltwise(build, &op, DN_ROUND, 0.0f, 0.0f);
    if (!status) status = dn_append_binary(build, &op, DN_BINARY_ADD, &zero);
  }
  if (!status) status = dn_build_operation(build, &op);
  (void)build->library->post_ops_destroy(op.post_ops);
  return status;
}

/* ---- fewer elements ---- */

/* The shape of the result, axes that are gone as 1. */
static int reduced(struct dn_build *build, const struct dn_tensor *data, int64_t *dims) {
  int64_t axes[DN_MAX_RANK];
  size_t count = dn_count_texts(build->node, "axis");
  if (count > DN_MAX_RANK) count = 0; /* refused below */
  int status = dn_get_ints(build->graph, build->node, "axis", count, -data->rank, axes);
  memcpy(dims, data->dims, sizeof(data->dims));
  for (size_t i = 0; i < count && !status; ++i) {
    if (axes[i] >= data->rank)
      return dn_fail_build(build, MBLOB_E_FORMAT,
                           "the attribute axis is %lld, and the data has %d axes",
                           (long long)axes[i], data->rank);
    dims[axes[i] < 0 ? axes[i] + data->rank : axes[i]] = 1;
  }
  return status;
}

/* Row-major, with the axes that become 1 in `dims` behind the others, as oneDNN's fast loops want
 * them; `dims` are put into the same order. */
static int put_last(struct dn_build *build, const struct dn_tensor *data, int64_t *dims,
                    struct dn_operand *operand) {
  struct dn_view view = dn_view_same(data);
  int at = 0;
  for (int last = 0; last < 2; ++last)
    for (int i = 0; i < data->rank; ++i)
      if ((data->dims[i] != dims[i]) == last) view.permutation[i] = at++;
  for (int i = 0; i < data->rank; ++i) {
    if (view.permutation[i] != i) view.how = DN_PERMUTED;
    view.dims[view.permutation[i]] = data->dims[i];
  }
  int64_t before[DN_MAX_RANK];
  memcpy(before, dims, sizeof(before));
  for (int i = 0; i < data->rank; ++i) dims[view.permutation[i]] = before[i];
  int status = dn_view_apply(build, &view, operand);
  if (status) return status;
  const dn_md *plain = dn_plain_md(build, view.rank, view.dims, view.type);
  return plain ? dn_reorder(build, operand, plain) : MBLOB_E_KERNEL;
}

int dn_reduce(struct dn_build *build) {
  static const struct {
    const char *name;
    int algorithm;
  } kinds[] = {{"mean", DN_REDUCTION_MEAN},
               {"sum", DN_REDUCTION_SUM},
               {"max", DN_REDUCTION_MAXIMUM},
               {"min", DN_REDUCTION_MINIMUM}};
  size_t kind = 0;
  while (strcmp(kinds[kind].name, build->node->name)) ++kind;
  struct dn_operation op = {.problem = {.kind = DN_REDUCTION, .algorithm = kinds[kind].algorithm}};
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_tensor wanted = {.type = result->type};
  char one[160], other[160];
  int status = dn_input(build, 0, &op.src);
  if (status) return status;
  const struct dn_tensor *data = &build->graph->tensors[op.src.tensor];
  if ((status = reduced(build, data, wanted.dims))) return status;
  wanted.rank = data->rank;
  if (dn_tensor_bytes(&wanted) != result->bytes)
    return dn_fail_build(build, MBLOB_E_FORMAT, "%s over these axes of %s does not make %s",
                         build->node->name, dn_tensor_text(data, one, sizeof(one)),
                         dn_tensor_text(result, other, sizeof(other)));
  if (data->bytes == result->bytes && data->type == result->type) return dn_reshape(build);
  if ((status = put_last(build, data, wanted.dims, &op.src))) return status;
  struct dn_view dst = dn_view_reshaped(result, wanted.rank, wanted.dims);
  op.dst_view = &dst;
  op.problem.dst = dn_any_md(build, dst.rank, dst.dims, dst.type);
  return op.problem.dst ? dn_build_operation(build, &op) : MBLOB_E_KERNEL;
}
