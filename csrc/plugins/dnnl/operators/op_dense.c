/* op_dense.c - dense (fully connected) and products of matrices. */
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
  dn_choose_floats(build, &op, src.type, weights.type);
  if (op.weights.place == DN_CONSTANT || op.in_floats) {
    op.problem.src = dn_any_md(build, 2, src.dims, dn_type_in(&op, src.type));
    op.problem.weights = dn_any_md(build, 2, weights.dims, dn_type_in(&op, weights.type));
    if (!op.problem.src || !op.problem.weights) return MBLOB_E_KERNEL;
  }
  if (!(op.problem.dst = dn_any_md(build, 2, dst.dims, dn_type_in(&op, dst.type))))
    return MBLOB_E_KERNEL;
  status = dn_fuse(build, &op, 1);
  if (!status) status = dn_build_operation(build, &op);
  if (op.post_ops) (void)build->library->post_ops_destroy(op.post_ops);
  return status;
}

/* ---- matmul ---- */

/* A factor with as many axes as the result: others are 1 and lie in front. The last two are
 * exchanged where the attribute says so, which batch_matmul has. */
static int view_factor(struct dn_build *build, const char *attribute, int rank,
                       struct dn_operand *operand, struct dn_view *view) {
  const struct dn_tensor *tensor = &build->graph->tensors[operand->tensor];
  int64_t dims[DN_MAX_RANK];
  bool transposed = false;
  int missing = rank - tensor->rank,
      status = dn_has_attribute(build->node, attribute)
                   ? dn_get_bool(build->graph, build->node, attribute, &transposed)
                   : MBLOB_OK;
  if (status) return status;
  if (tensor->rank < 2 || missing < 0 || (transposed && missing))
    return dn_fail_build(build, MBLOB_E_FORMAT, "an operand has %d axes, and the result %d",
                         tensor->rank, rank);
  for (int i = 0; i < rank; ++i) dims[i] = i < missing ? 1 : tensor->dims[i - missing];
  *view = dn_view_reshaped(tensor, rank, dims);
  if (transposed) {
    view->how = DN_PERMUTED;
    for (int i = 0; i < rank; ++i) view->permutation[i] = i;
    view->permutation[rank - 2] = rank - 1;
    view->permutation[rank - 1] = rank - 2;
    view->dims[rank - 2] = dims[rank - 1];
    view->dims[rank - 1] = dims[rank - 2];
  }
  return dn_view_apply(build, view, operand);
}

static int check_factors(struct dn_build *build, const struct dn_view *a, const struct dn_view *b,
                         const struct dn_tensor *result) {
  int rank = result->rank;
  bool fits = a->dims[rank - 1] == b->dims[rank - 2] &&
              result->dims[rank - 2] == a->dims[rank - 2] &&
              result->dims[rank - 1] == b->dims[rank - 1];
  for (int i = 0; i + 2 < rank && fits; ++i) {
    int64_t most = a->dims[i] > b->dims[i] ? a->dims[i] : b->dims[i];
    fits = result->dims[i] == most && (a->dims[i] == most || a->dims[i] == 1) &&
           (b->dims[i] == most || b->dims[i] == 1);
  }
  if (fits) return MBLOB_OK;
  char one[160], other[160], text[160];
  const struct dn_tensor *tensors = build->graph->tensors;
  return dn_fail_build(build, MBLOB_E_FORMAT, "operands %s and %s do not give %s",
                       dn_tensor_text(&tensors[build->node->inputs[0]], one, sizeof(one)),
                       dn_tensor_text(&tensors[build->node->inputs[1]], other, sizeof(other)),
                       dn_tensor_text(result, text, sizeof(text)));
}

/* Factors that are row-major, where oneDNN is slow with formats that the operators before them chose. */
static int choose_formats(struct dn_build *build, struct dn_operation *op,
                          const struct dn_view *src, const struct dn_view *weights) {
  bool fast;
  int status = dn_has_fast_loops(build, op, &fast);
  if (status || fast) return status;
  const dn_md *plain = dn_plain_md(build, src->rank, src->dims, src->type);
  if (!plain) return MBLOB_E_KERNEL;
  status = op->in_floats ? MBLOB_OK : dn_reorder(build, &op->src, plain);
  if (status || op->problem.weights) return status;
  plain = dn_plain_md(build, weights->rank, weights->dims, weights->type);
  return plain ? dn_reorder(build, &op->weights, plain) : MBLOB_E_KERNEL;
}

int dn_matmul(struct dn_build *build) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  struct dn_operation op = {.problem = {.kind = DN_MATMUL}};
  struct dn_view src, weights, dst = dn_view_same(result);
  int rank = result->rank, status = dn_input(build, 0, &op.src);
  if (status || (status = dn_input(build, 1, &op.weights)) ||
      (status = view_factor(build, "transpose_a", rank, &op.src, &src)) ||
      (status = view_factor(build, "transpose_b", rank, &op.weights, &weights)) ||
      (status = check_factors(build, &src, &weights, result)))
    return status;
  op.dst_view = &dst;
  dn_choose_floats(build, &op, src.type, weights.type);
  if (op.in_floats && !(op.problem.src = dn_plain_md(build, rank, src.dims, DN_F32)))
    return MBLOB_E_KERNEL;
  if ((op.weights.place == DN_CONSTANT || op.in_floats) &&
      !(op.problem.weights = dn_any_md(build, rank, weights.dims, dn_type_in(&op, weights.type))))
    return MBLOB_E_KERNEL;
  if (!(op.problem.dst = dn_plain_md(build, rank, dst.dims, dn_type_in(&op, dst.type))))
    return MBLOB_E_KERNEL;
  status = dn_fuse(build, &op, rank - 1);
  if (!status) status = choose_formats(build, &op, &src, &weights);
  if (!status) status = dn_build_operation(build, &op);
  if (op.post_ops) (void)build->library->post_ops_destroy(op.post_ops);
  return status;
}
