/* op_dense.c - dense (fully connected) and batch_matmul. */
#include <string.h>

#include "common.h"
#include "operators.h"

/* All axes before the last one are rows. */
static struct dn_view rows_of(const struct dn_tensor *tensor) {
  int64_t dims[2] = {1, tensor->dims[tensor->rank - 1]};
  for (int i = 0; i + 1 < tensor->rank; ++i) dims[0] *= tensor->dims[i];
  return dn_view_reshaped(tensor, 2, dims);
}

/* [units, features]; packed ones say how in weight_layout, where N are the units and C the
 * features. */
static int view_weights(struct dn_build *build, const struct dn_tensor *tensor, int64_t units,
                        int64_t features, struct dn_view *out) {
  const char *layout;
  const int64_t wanted[DN_MAX_RANK] = {units, features};
  if (!dn_has_attribute(build->node, "weight_layout")) {
    *out = dn_view_same(tensor);
    return MBLOB_OK;
  }
  int status = dn_get_text(build->graph, build->node, "weight_layout", &layout);
  const char *letters = !status && strchr(layout, 'O')   ? "OI"
                        : !status && strchr(layout, 'K') ? "NK"
                                                         : "NC";
  return status ? status
                : dn_view_layout(build, "weight_layout", layout, letters, tensor, wanted, out);
}

static int check_dense(struct dn_build *build, const struct dn_view *src,
                       const struct dn_view *weights, const struct dn_view *dst) {
  if (weights->rank == 2 && weights->dims[0] == dst->dims[1] && weights->dims[1] == src->dims[1] &&
      src->dims[0] == dst->dims[0])
    return MBLOB_OK;
  return dn_fail_build(
      build, MBLOB_E_FORMAT,
      "data of [%lld, %lld] and weights of [%lld, %lld] do not give a result of [%lld, %lld]",
      (long long)src->dims[0], (long long)src->dims[1], (long long)weights->dims[0],
      (long long)(weights->rank > 1 ? weights->dims[1] : 1), (long long)dst->dims[0],
      (long long)dst->dims[1]);
}

int dn_dense(struct dn_build *build) {
  const struct dn_tensor *tensors = build->graph->tensors;
  struct dn_operation op = {.problem = {.kind = DN_INNER_PRODUCT}};
  int status = dn_input(build, 0, &op.src);
  if (status || (status = dn_input(build, 1, &op.weights))) return status;
  struct dn_view src = rows_of(&tensors[op.src.tensor]),
                 dst = rows_of(&tensors[build->node->first_tensor]), weights;
  status = view_weights(build, &tensors[op.weights.tensor], dst.dims[1], src.dims[1], &weights);
  if (status || (status = check_dense(build, &src, &weights, &dst)) ||
      (status = dn_view_apply(build, &src, &op.src)) ||
      (status = dn_view_apply(build, &weights, &op.weights)))
    return status;
  op.dst_view = &dst;
  /* Weights that come with each call are used as they lie: to reorder them costs more than it
   * gains. */
  if (op.weights.place == DN_CONSTANT) {
    op.problem.src = dn_any_md(build, 2, src.dims, src.type);
    op.problem.weights = dn_any_md(build, 2, weights.dims, weights.type);
    if (!op.problem.src || !op.problem.weights) return MBLOB_E_KERNEL;
  }
  if (!(op.problem.dst = dn_any_md(build, 2, dst.dims, dst.type))) return MBLOB_E_KERNEL;
  status = dn_fuse(build, &op, 1);
  if (!status) status = dn_build_operation(build, &op);
  if (op.post_ops) (void)build->library->post_ops_destroy(op.post_ops);
  return status;
}

/* ---- batch_matmul ---- */

/* The last two axes, exchanged where the attribute says so. */
static int view_factor(struct dn_build *build, const char *attribute, struct dn_operand *operand,
                       struct dn_view *view) {
  const struct dn_tensor *tensor = &build->graph->tensors[operand->tensor];
  bool transposed;
  int status = dn_get_bool(build->graph, build->node, attribute, &transposed);
  if (status) return status;
  *view = dn_view_same(tensor);
  if (tensor->rank != 3)
    return dn_fail_build(build, MBLOB_E_FORMAT, "an input has %d axes, expected 3", tensor->rank);
  if (!transposed) return MBLOB_OK;
  view->how = DN_PERMUTED;
  view->permutation[1] = 2;
  view->permutation[2] = 1;
  view->dims[1] = tensor->dims[2];
  view->dims[2] = tensor->dims[1];
  return dn_view_apply(build, view, operand);
}

int dn_batch_matmul(struct dn_build *build) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_operation op = {.problem = {.kind = DN_MATMUL}};
  struct dn_view src, weights, dst = dn_view_same(result);
  int status = dn_input(build, 0, &op.src);
  if (status || (status = dn_input(build, 1, &op.weights)) ||
      (status = view_factor(build, "transpose_a", &op.src, &src)) ||
      (status = view_factor(build, "transpose_b", &op.weights, &weights)))
    return status;
  int64_t batch = src.dims[0] > weights.dims[0] ? src.dims[0] : weights.dims[0];
  if (dst.rank != 3 || src.dims[2] != weights.dims[1] || dst.dims[1] != src.dims[1] ||
      dst.dims[2] != weights.dims[2] || dst.dims[0] != batch ||
      (src.dims[0] != batch && src.dims[0] != 1) ||
      (weights.dims[0] != batch && weights.dims[0] != 1)) {
    char text[160];
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "factors of [%lld, %lld, %lld] and [%lld, %lld, %lld] do not give %s",
                         (long long)src.dims[0], (long long)src.dims[1], (long long)src.dims[2],
                         (long long)weights.dims[0], (long long)weights.dims[1],
                         (long long)weights.dims[2], dn_tensor_text(result, text, sizeof(text)));
  }
  op.dst_view = &dst;
  if (op.weights.place == DN_CONSTANT &&
      !(op.problem.weights = dn_any_md(build, 3, weights.dims, weights.type)))
    return MBLOB_E_KERNEL;
  if (!(op.problem.dst = dn_plain_md(build, 3, dst.dims, dst.type))) return MBLOB_E_KERNEL;
  return dn_build_operation(build, &op);
}
