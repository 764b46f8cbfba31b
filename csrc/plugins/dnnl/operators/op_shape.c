/* op_shape.c - operators that compute nothing: other shapes, other orders of axes, tensors one
 * behind another.
 *
 * A result that has the bytes of the data is the data, looked at in another way: no step, no
 * memory. */
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "operators.h"

int dn_get_axis(struct dn_build *build, int rank, int *out) {
  int64_t axis;
  int status = dn_get_int(build->graph, build->node, "axis", -rank, &axis);
  if (!status && axis >= rank)
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "the attribute axis is %lld, and the data has %d axes", (long long)axis,
                         rank);
  *out = status ? 0 : (int)(axis < 0 ? axis + rank : axis);
  return status;
}

bool dn_is_float(enum dn_type type) { return type == DN_F32 || type == DN_F16 || type == DN_BF16; }

static bool same_dims(const struct dn_tensor *a, const struct dn_tensor *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(*a->dims));
}

/* The node's result is this operand, which lies where the first input does or in a copy of it. */
static void look_at(struct dn_build *build, const struct dn_operand *operand, bool raw) {
  const struct dn_value *from = &build->values[build->node->inputs[0]];
  struct dn_value *to = &build->values[build->node->first_tensor];
  to->at = *operand;
  to->at.tensor = build->node->first_tensor;
  to->raw = raw;
  if (from->uses > 1)
    ++to->uses; /* who reads the input later must find it: nobody may write in place */
}

/* ---- the same bytes ---- */

bool dn_keeps_bytes(const struct dn_node *node) {
  static const char *const names[] = {"reshape", "reshape_like", "contrib_reverse_reshape",
                                      "squeeze", "expand_dims",  "nn.batch_flatten",
                                      "flatten", "copy",         "nn.dropout"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i)
    if (!strcmp(names[i], node->name)) return true;
  return false;
}

int dn_reshape(struct dn_build *build) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_operand operand;
  char one[160], other[160];
  int status = dn_input(build, 0, &operand);
  if (status) return status;
  const struct dn_tensor *data = &build->graph->tensors[build->node->inputs[0]];
  if (data->type != result->type || data->bytes != result->bytes)
    return dn_fail_build(build, MBLOB_E_FORMAT, "the data is %s, which cannot be looked at as %s",
                         dn_tensor_text(data, one, sizeof(one)),
                         dn_tensor_text(result, other, sizeof(other)));
  bool same = same_dims(data, result);
  if (!same) {
    if ((status = dn_raw_operand(build, build->node->inputs[0], &operand))) return status;
    if (!(operand.md = dn_plain_md(build, result->rank, result->dims, result->type)))
      return MBLOB_E_KERNEL;
  }
  look_at(build, &operand, !same || build->values[build->node->inputs[0]].raw);
  return MBLOB_OK;
}

/* ---- another type ---- */

/* float32, float16 or bfloat16 of any of them: the same bytes, where all are computed in float32. */
int dn_cast(struct dn_build *build) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_operand operand;
  char one[160], other[160];
  int status = dn_input(build, 0, &operand);
  if (status) return status;
  size_t input = build->node->inputs[0];
  const struct dn_tensor *data = &build->graph->tensors[input];
  if (!same_dims(data, result) || !dn_is_float(data->type) || !dn_is_float(result->type))
    return dn_fail_build(build, MBLOB_E_FORMAT, "%s cannot be cast to %s",
                         dn_tensor_text(data, one, sizeof(one)),
                         dn_tensor_text(result, other, sizeof(other)));
  bool same = data->type == result->type;
  const dn_md *plain = dn_plain_md(build, result->rank, result->dims, result->type);
  if (!plain) return MBLOB_E_KERNEL;
  if (!same && (status = dn_reorder(build, &operand, plain))) return status;
  look_at(build, &operand, !same || build->values[input].raw);
  return MBLOB_OK;
}

/* ---- axes in another order ---- */

/* axes[i]: which axis of the data is axis i of the result. Relay's None and [] turn them round. */
static int read_axes(struct dn_build *build, int rank, int64_t *axes) {
  const char *text = "";
  bool seen[DN_MAX_RANK] = {false};
  for (int i = 0; i < rank; ++i) axes[i] = rank - 1 - i;
  if (!dn_has_attribute(build->node, "axes") || dn_count_texts(build->node, "axes") == 0)
    return MBLOB_OK;
  if (dn_count_texts(build->node, "axes") == 1) {
    int status = dn_get_text(build->graph, build->node, "axes", &text);
    if (status || !*text) return status;
  }
  int status = dn_get_ints(build->graph, build->node, "axes", (size_t)rank, -rank, axes);
  for (int i = 0; i < rank && !status; ++i) {
    if (axes[i] < 0) axes[i] += rank;
    if (axes[i] >= rank || seen[axes[i]])
      return dn_fail_build(build, MBLOB_E_FORMAT,
                           "the attribute axes does not name each of %d axes once", rank);
    seen[axes[i]] = true;
  }
  return status;
}

int dn_transpose(struct dn_build *build) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_operand operand;
  int64_t axes[DN_MAX_RANK];
  char one[160], other[160];
  int status = dn_input(build, 0, &operand);
  if (status) return status;
  const struct dn_tensor *data = &build->graph->tensors[build->node->inputs[0]];
  struct dn_view view = dn_view_same(data);
  if ((status = read_axes(build, data->rank, axes))) return status;
  bool fits = data->rank == result->rank && data->type == result->type;
  view.how = DN_PERMUTED;
  for (int i = 0; i < data->rank && fits; ++i) {
    fits = data->dims[axes[i]] == result->dims[i];
    view.permutation[axes[i]] = i;
  }
  if (!fits)
    return dn_fail_build(
        build, MBLOB_E_FORMAT,
        "the data is %s, and its axes in the order of the attribute axes do not make %s",
        dn_tensor_text(data, one, sizeof(one)), dn_tensor_text(result, other, sizeof(other)));
  if ((status = dn_view_apply(build, &view, &operand))) return status;
  look_at(build, &operand, false);
  return MBLOB_OK;
}

/* ---- one behind another ---- */

static int check_sources(struct dn_build *build, int axis) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  int64_t left = result->dims[axis];
  char one[160], other[160];
  for (size_t i = 0; i < build->node->input_count; ++i) {
    const struct dn_tensor *source = &build->graph->tensors[build->node->inputs[i]];
    bool fits = source->rank == result->rank && source->type == result->type;
    for (int k = 0; k < result->rank && fits; ++k)
      fits = k == axis || source->dims[k] == result->dims[k];
    if (fits) left -= source->dims[axis] <= left ? source->dims[axis] : left + 1;
    if (!fits || left < 0 || (left && i + 1 == build->node->input_count))
      return dn_fail_build(build, MBLOB_E_FORMAT,
                           "input %zu is %s, which does not fit axis %d of %s", i,
                           dn_tensor_text(source, one, sizeof(one)), axis,
                           dn_tensor_text(result, other, sizeof(other)));
  }
  return MBLOB_OK;
}

/* `sources` and `mds` have room for all inputs. */
static int join(struct dn_build *build, int axis, struct dn_operand *sources, const dn_md **mds) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_view dst = dn_view_same(result);
  struct dn_operation op = {
      .problem = {.kind = DN_CONCATENATION, .axis = axis}, .dst_view = &dst, .sources = sources};
  for (size_t i = 0; i < build->node->input_count; ++i) {
    int status = dn_input(build, i, &sources[i]);
    if (status) return status;
    mds[i] = sources[i].md;
  }
  op.problem.sources = mds;
  op.problem.source_count = (int)build->node->input_count;
  op.problem.dst = dn_any_md(build, dst.rank, dst.dims, dst.type);
  return op.problem.dst ? dn_build_operation(build, &op) : MBLOB_E_KERNEL;
}

int dn_concatenate(struct dn_build *build) {
  size_t count = build->node->input_count;
  int axis,
      status = dn_get_axis(build, build->graph->tensors[build->node->first_tensor].rank, &axis);
  if (status) return status;
  if (count < 1 || count > DN_MAX_SOURCES)
    return dn_fail_build(build, MBLOB_E_FORMAT, "it has %zu inputs, expected 1 to %d", count,
                         DN_MAX_SOURCES);
  if ((status = check_sources(build, axis))) return status;
  if (count == 1) return dn_reshape(build);
  struct dn_operand *sources = calloc(count, sizeof(*sources));
  const dn_md **mds = calloc(count, sizeof(*mds));
  status =
      sources && mds ? join(build, axis, sources, mds) : mb_fail_memory(count * sizeof(*sources));
  free(sources);
  free(mds);
  return status;
}
