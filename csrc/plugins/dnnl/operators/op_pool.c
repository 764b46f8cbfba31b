/* op_pool.c - maximum and average over windows of 1 to 3 spatial axes, or over all of them
 * (global). */
#include <string.h>

#include "common.h"
#include "operators.h"

#define LETTERS "NCDHW"
static const char *const layouts[] = {"NCW", "NCHW", "NCDHW"};

struct pool {
  int axes;
  int64_t kernel[3], strides[3], dilation[3], before[3], after[3];
  struct dn_view src, dst;
};

static int read_layouts(struct dn_build *build, struct pool *pool, struct dn_operand *src) {
  const char *layout, *out_layout;
  const struct dn_graph *graph = build->graph;
  int status = dn_get_layout(graph, build->node, "layout", 0, layouts, &layout);
  if (!status) status = dn_get_layout(graph, build->node, "out_layout", 0, NULL, &out_layout);
  if (status || (status = dn_input(build, 0, src))) return status;
  status = dn_view_layout(build, "layout", layout, LETTERS, &graph->tensors[src->tensor], NULL,
                          &pool->src);
  if (!status)
    status = dn_view_layout(build, "out_layout", *out_layout ? out_layout : layout, LETTERS,
                            &graph->tensors[build->node->first_tensor], NULL, &pool->dst);
  if (status) return status;
  pool->axes = pool->src.rank - 2;
  if (pool->axes < 1 || pool->axes > 3 || pool->dst.rank != pool->src.rank ||
      pool->dst.dims[0] != pool->src.dims[0] || pool->dst.dims[1] != pool->src.dims[1])
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "data and result differ in more than 1 to 3 spatial axes");
  return dn_view_apply(build, &pool->src, src);
}

/* Windows that follow from the extents: side by side, where one divides the other. */
static int divide_windows(struct dn_build *build, struct pool *pool) {
  for (int i = 0; i < pool->axes; ++i) {
    int64_t in = pool->src.dims[i + 2], out = pool->dst.dims[i + 2];
    if (in % out)
      return dn_fail_build(
          build, MBLOB_E_KERNEL,
          "spatial axis %d goes from %lld to %lld: oneDNN has windows of one size only", i,
          (long long)in, (long long)out);
    pool->kernel[i] = pool->strides[i] = in / out;
  }
  return MBLOB_OK;
}

static int read_windows(struct dn_build *build, struct pool *pool) {
  const struct dn_graph *graph = build->graph;
  const struct dn_node *node = build->node;
  size_t axes = (size_t)pool->axes;
  for (size_t i = 0; i < axes; ++i) {
    pool->kernel[i] = pool->src.dims[i + 2];
    pool->strides[i] = pool->dilation[i] = 1;
  }
  if (strstr(node->name, "global")) return MBLOB_OK;
  if (strstr(node->name, "adaptive")) return divide_windows(build, pool);
  int status = dn_get_ints(graph, node, "pool_size", axes, 1, pool->kernel);
  if (!status) status = dn_get_ints(graph, node, "strides", axes, 1, pool->strides);
  if (!status && dn_has_attribute(node, "dilation")) /* from 0.9 on */
    status = dn_get_ints(graph, node, "dilation", axes, 1, pool->dilation);
  return status ? status : dn_get_padding(graph, node, axes, pool->before, pool->after);
}

/* ceil_mode adds windows that begin inside and end outside: oneDNN takes those as padding. */
static int check_extents(struct dn_build *build, struct pool *pool) {
  bool up = false;
  if (dn_has_attribute(build->node, "ceil_mode")) {
    int status = dn_get_bool(build->graph, build->node, "ceil_mode", &up);
    if (status) return status;
  }
  for (int i = 0; i < pool->axes; ++i) {
    int64_t in = pool->src.dims[i + 2], out = pool->dst.dims[i + 2], stride = pool->strides[i];
    int64_t reach = (pool->kernel[i] - 1) * pool->dilation[i] + 1;
    int64_t room = in + pool->before[i] + pool->after[i] - reach;
    int64_t expected = room < 0 ? 0 : (room + (up ? stride - 1 : 0)) / stride + 1;
    /* TVM leaves out a last window that begins in the padding behind. */
    bool begins_behind = up && expected > 1 && (expected - 1) * stride >= in + pool->before[i];
    if (out != expected && !(begins_behind && out == expected - 1))
      return dn_fail_build(
          build, MBLOB_E_FORMAT,
          "the result has %lld at spatial axis %d, and its attributes make it %lld", (long long)out,
          i, (long long)expected);
    int64_t missing = (out - 1) * stride - room;
    if (missing > 0) pool->after[i] += missing;
    --pool->dilation[i]; /* 0 is oneDNN's word for none */
  }
  return MBLOB_OK;
}

static int pool(struct dn_build *build, int algorithm) {
  struct pool p = {0};
  struct dn_operation op = {.problem = {.kind = DN_POOLING, .algorithm = algorithm},
                            .dst_view = &p.dst};
  int status = read_layouts(build, &p, &op.src);
  if (status || (status = read_windows(build, &p)) || (status = check_extents(build, &p)))
    return status;
  op.problem.strides = p.strides;
  op.problem.kernel = p.kernel;
  op.problem.dilates = p.dilation;
  op.problem.pad_before = p.before;
  op.problem.pad_after = p.after;
  if (!(op.problem.dst = dn_any_md(build, p.dst.rank, p.dst.dims, p.dst.type)))
    return MBLOB_E_KERNEL;
  return dn_build_operation(build, &op);
}

int dn_max_pool(struct dn_build *build) { return pool(build, DN_POOLING_MAX); }

int dn_average_pool(struct dn_build *build) {
  bool include = false;
  if (dn_has_attribute(build->node, "count_include_pad")) {
    int status = dn_get_bool(build->graph, build->node, "count_include_pad", &include);
    if (status) return status;
  }
  return pool(build,
              include ? DN_POOLING_AVERAGE_INCLUDE_PADDING : DN_POOLING_AVERAGE_EXCLUDE_PADDING);
}
