/* op_convolution.c - convolutions and transposed convolutions of 1 to 3 spatial axes. */
#include <string.h>

#include "common.h"
#include "operators.h"

#define DATA_LETTERS "NCDHW"
#define WEIGHT_LETTERS "GOIDHW"
static const char *const data_layouts[] = {"NCW", "NCHW", "NCDHW"}, *const weight_layouts[] = {
                                                                        "OIW", "OIHW", "OIDHW"};

struct convolution {
  bool transposed;
  bool upright; /* an image of one column, which is looked at as one row */
  int axes;     /* spatial */
  int64_t groups;
  int64_t strides[3], dilation[3], before[3], after[3];
  struct dn_view src, weights, dst;
  int64_t kernel[3];
};

/* ---- weights ---- */

/* TVM up to 0.9 calls a transposed convolution's weights OIHW and writes them as IOHW. */
static bool misnamed(const struct dn_build *build, const struct convolution *c, const char *layout,
                     const struct dn_tensor *weights) {
  if (!c->transposed || strncmp(layout, "OI", 2) || weights->rank != c->axes + 2) return false;
  int64_t outputs = c->dst.dims[1] / c->groups, inputs = c->src.dims[1];
  bool as_named = weights->dims[0] == outputs && weights->dims[1] == inputs;
  bool other = weights->dims[0] == inputs && weights->dims[1] == outputs;
  return other && (!as_named || !build->graph->json_has_symbol);
}

/* Groups that the layout does not tell lie in the axis that is whole: O, or I of a transposed
 * one. */
static int split_groups(struct dn_build *build, const struct convolution *c,
                        struct dn_operand *operand) {
  const struct dn_tensor *tensor = &build->graph->tensors[operand->tensor];
  int64_t raw[DN_MAX_RANK], dims[DN_MAX_RANK], strides[DN_MAX_RANK], step = 1;
  int whole = c->transposed ? 1 : 0;
  if (c->weights.how == DN_TAGGED)
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "the attribute kernel_layout has blocks and no G, and there are groups");
  for (int i = tensor->rank - 1; i >= 0; --i) {
    raw[c->weights.how == DN_PERMUTED ? c->weights.permutation[i] : i] = step;
    step *= tensor->dims[i];
  }
  int status = dn_raw_operand(build, operand->tensor, operand);
  if (status) return status;
  dims[0] = c->groups;
  for (int i = 0; i < c->weights.rank; ++i) {
    dims[i + 1] = c->weights.dims[i] / (i == whole ? c->groups : 1);
    strides[i + 1] = raw[i];
  }
  strides[0] = raw[whole] * dims[whole + 1];
  dn_md *md;
  operand->md = dn_keep_md(build,
                           build->library->version->md_strided(c->weights.rank + 1, dims,
                                                               (int)tensor->type, strides, &md),
                           &md, "grouped");
  return operand->md ? MBLOB_OK : MBLOB_E_KERNEL;
}

static int read_weights(struct dn_build *build, struct convolution *c, struct dn_operand *operand) {
  const char *layout;
  int64_t wanted[DN_MAX_RANK] = {0};
  char renamed[32] = "IO";
  int status =
      dn_get_layout(build->graph, build->node, "kernel_layout", 1, weight_layouts, &layout);
  if (status || (status = dn_input(build, 1, operand))) return status;
  const struct dn_tensor *tensor = &build->graph->tensors[operand->tensor];
  if (misnamed(build, c, layout, tensor)) {
    strncat(renamed, layout + 2, sizeof(renamed) - 3);
    layout = renamed;
  }
  if (c->upright) layout = "OIWH";
  bool grouped = strchr(layout, 'G') != NULL;
  int64_t outputs = c->dst.dims[1], inputs = c->src.dims[1];
  if (grouped) wanted[0] = c->groups;
  wanted[grouped] = grouped || c->transposed ? outputs / c->groups : outputs;
  wanted[grouped + 1] = !grouped && c->transposed ? inputs : inputs / c->groups;
  status =
      dn_view_layout(build, "kernel_layout", layout, WEIGHT_LETTERS, tensor, wanted, &c->weights);
  if (status) return status;
  if (c->weights.rank != c->axes + 2 + grouped)
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "the attribute kernel_layout is `%s`, and the data has %d spatial axes",
                         layout, c->axes);
  memcpy(c->kernel, &c->weights.dims[2 + grouped], (size_t)c->axes * sizeof(*c->kernel));
  return !grouped && c->groups > 1 ? split_groups(build, c, operand)
                                   : dn_view_apply(build, &c->weights, operand);
}

/* ---- the rest ---- */

/* oneDNN is fast along the last axis, and slow where that has one element. */
static bool is_upright(const struct dn_build *build, const char *layout, const char *kernel_layout,
                       const struct dn_tensor *src) {
  const struct dn_tensor *dst = &build->graph->tensors[build->node->first_tensor];
  return !strcmp(layout, "NCHW") && !strcmp(kernel_layout, "OIHW") && src->rank == 4 &&
         dst->rank == 4 && src->dims[3] == 1 && dst->dims[3] == 1 && src->dims[2] > 1;
}

static int read_data(struct dn_build *build, struct convolution *c, struct dn_operand *src) {
  const char *layout, *out_layout, *kernel_layout;
  const struct dn_graph *graph = build->graph;
  int status = dn_get_layout(graph, build->node, "data_layout", 0, data_layouts, &layout);
  if (status || (status = dn_get_layout(graph, build->node, "out_layout", 0, NULL, &out_layout)) ||
      (status =
           dn_get_layout(graph, build->node, "kernel_layout", 1, weight_layouts, &kernel_layout)) ||
      (status = dn_input(build, 0, src)))
    return status;
  c->upright = !c->transposed && (!*out_layout || !strcmp(out_layout, layout)) &&
               is_upright(build, layout, kernel_layout, &graph->tensors[src->tensor]);
  if (c->upright) layout = out_layout = "NCWH";
  status = dn_view_layout(build, "data_layout", layout, DATA_LETTERS, &graph->tensors[src->tensor],
                          NULL, &c->src);
  if (!status)
    status = dn_view_layout(build, "out_layout", *out_layout ? out_layout : layout, DATA_LETTERS,
                            &graph->tensors[build->node->first_tensor], NULL, &c->dst);
  if (status) return status;
  c->axes = c->src.rank - 2;
  if (c->axes < 1 || c->axes > 3 || c->dst.rank != c->src.rank)
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "the data has %d spatial axes and the result %d, expected 1 to 3 of both",
                         c->axes, c->dst.rank - 2);
  return dn_view_apply(build, &c->src, src);
}

static int read_numbers(struct dn_build *build, struct convolution *c) {
  const struct dn_graph *graph = build->graph;
  const struct dn_node *node = build->node;
  size_t axes = (size_t)c->axes;
  for (size_t i = 0; i < axes; ++i) c->dilation[i] = 1;
  c->groups = 1;
  int status = dn_get_ints(graph, node, "strides", axes, 1, c->strides);
  if (!status && dn_has_attribute(node, "dilation"))
    status = dn_get_ints(graph, node, "dilation", axes, 1, c->dilation);
  if (!status && dn_has_attribute(node, "groups"))
    status = dn_get_int(graph, node, "groups", 1, &c->groups);
  if (status || (status = dn_get_padding(graph, node, axes, c->before, c->after))) return status;
  int64_t *const pairs[] = {c->strides, c->dilation, c->before, c->after};
  for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs) && c->upright; ++i) {
    int64_t first = pairs[i][0];
    pairs[i][0] = pairs[i][1];
    pairs[i][1] = first;
  }
  if (c->src.dims[1] % c->groups || c->dst.dims[1] % c->groups)
    return dn_fail_build(
        build, MBLOB_E_FORMAT, "%lld channels and %lld results cannot be divided into %lld groups",
        (long long)c->src.dims[1], (long long)c->dst.dims[1], (long long)c->groups);
  return MBLOB_OK;
}

/* The extents must agree; a transposed one is cut (or, with output_padding, not cut) at its end. */
static int check_extents(struct dn_build *build, struct convolution *c) {
  for (int i = 0; i < c->axes; ++i) {
    int64_t in = c->src.dims[i + 2], out = c->dst.dims[i + 2];
    int64_t reach = (c->kernel[i] - 1) * c->dilation[i] + 1, expected;
    if (c->transposed) {
      int64_t whole = (in - 1) * c->strides[i] + reach - c->before[i];
      expected = whole - c->after[i];
      if (out >= expected && out < expected + c->strides[i]) {
        c->after[i] = whole - out;
        continue;
      }
    } else {
      int64_t room = in + c->before[i] + c->after[i] - reach;
      expected = room < 0 ? 0 : room / c->strides[i] + 1;
      if (out == expected) continue;
    }
    return dn_fail_build(
        build, MBLOB_E_FORMAT,
        "the result has %lld at spatial axis %d, and data of %lld, kernel %lld, stride %lld, dilation "
        "%lld and padding make it %lld",
        (long long)out, i, (long long)in, (long long)c->kernel[i], (long long)c->strides[i],
        (long long)c->dilation[i], (long long)expected);
  }
  for (int i = 0; i < c->axes; ++i) --c->dilation[i]; /* 0 is oneDNN's word for none */
  return MBLOB_OK;
}

/* Whether some result has no data under any point of its window, on one axis at least: where
 * that is so, oneDNN 2.6.3 ends the process in a fused sum, or loses it (seen with AVX-512). */
static bool has_empty_window(const struct convolution *c) {
  for (int i = 0; i < c->axes; ++i) {
    int64_t in = c->src.dims[i + 2], last = (c->dst.dims[i + 2] - 1) * c->strides[i],
            step = c->dilation[i] + 1;
    int64_t reach = (c->kernel[i] - 1) * step + 1;
    if (reach <= c->before[i] || last - c->before[i] >= in || step > in) return true;
  }
  return false;
}

/* ---- a zero point of the data ---- */

/* Without sums of bytes: what oneDNN would subtract of each element, a step of its own subtracts. */
static int subtract(struct dn_build *build, const struct dn_view *view, float zero,
                    struct dn_operand *src) {
  const dn_md *plain = dn_plain_md(build, view->rank, view->dims, DN_F32);
  struct dn_operand number, to = {.tensor = src->tensor, .md = plain};
  if (!plain) return MBLOB_E_KERNEL;
  int status = dn_reorder(build, src, plain);
  if (status || (status = dn_number(build, view->rank, zero, &number)) ||
      (status = dn_new_buffer(build, &to)))
    return status;
  struct dn_problem problem = {.kind = DN_BINARY,
                               .algorithm = DN_BINARY_SUBTRACT,
                               .src = plain,
                               .weights = number.md,
                               .dst = plain};
  struct dn_step_operands list = {.kind = dn_kind_name(problem.kind)};
  void *desc = NULL;
  dn_add_operand(&list, DN_ARG_SRC, src);
  dn_add_operand(&list, DN_ARG_SRC_1, &number);
  dn_add_operand(&list, DN_ARG_DST, &to);
  int error = build->library->version->primitive_desc(&problem, build->library->engine, &desc);
  status = error ? dn_fail_build(build, MBLOB_E_KERNEL, "oneDNN cannot subtract a number: %s",
                                 dn_status_text(error))
                 : dn_add_step(build, desc, &list);
  if (desc) (void)build->library->primitive_desc_destroy(desc);
  *src = to;
  return status;
}

/* The attribute src_zp_idx: the position of one number, which stands for 0 in the data and in what
 * padding adds. */
static int take_zero_point(struct dn_build *build, const struct convolution *c,
                           struct dn_operation *op) {
  size_t tensor;
  float zero;
  if (!dn_has_attribute(build->node, "src_zp_idx")) return MBLOB_OK;
  int status = dn_get_input_index(build->graph, build->node, "src_zp_idx", &tensor);
  if (status || (status = dn_scalar(build, tensor, "the zero point of the data", &zero)))
    return status;
  if ((c->src.type != DN_U8 && c->src.type != DN_S8) || !(zero >= -128.0f && zero <= 255.0f) ||
      zero != (float)(int32_t)zero)
    return dn_fail_build(build, MBLOB_E_FORMAT,
                         "the zero point of the data is %g, expected a byte, and data of bytes",
                         zero);
  if (op->in_floats) return subtract(build, &c->src, zero, &op->src);
  const int64_t one = 1;
  const int32_t whole = (int32_t)zero;
  struct dn_operand operand = {.place = DN_CONSTANT,
                               .number = dn_plan_constant(build->plan, sizeof(whole)),
                               .md = dn_plain_md(build, 1, &one, DN_S32)};
  if (operand.number == SIZE_MAX) return MBLOB_E_MEMORY;
  if (!operand.md) return MBLOB_E_KERNEL;
  memcpy(build->plan->constants[operand.number].data, &whole, sizeof(whole));
  op->has_zero = true;
  op->extra[op->extra_count].argument = build->library->version->zero_argument;
  op->extra[op->extra_count++].operand = operand;
  return MBLOB_OK;
}

static int convolve(struct dn_build *build, bool transposed) {
  struct convolution c = {.transposed = transposed};
  struct dn_operation op = {.dst_view = &c.dst};
  int status = read_data(build, &c, &op.src);
  if (status || (status = read_numbers(build, &c)) ||
      (status = read_weights(build, &c, &op.weights)) || (status = check_extents(build, &c)))
    return status;
  op.add_sum_apart = !transposed && has_empty_window(&c);
  bool grouped = c.groups > 1 || c.weights.rank > c.src.rank;
  int64_t dims[DN_MAX_RANK];
  dims[0] = c.groups;
  dims[grouped] = c.dst.dims[1] / c.groups;
  dims[grouped + 1] = c.src.dims[1] / c.groups;
  memcpy(&dims[grouped + 2], c.kernel, (size_t)c.axes * sizeof(*dims));
  struct dn_problem *p = &op.problem;
  p->kind = transposed ? DN_DECONVOLUTION : DN_CONVOLUTION;
  p->algorithm = transposed ? DN_DECONVOLUTION_DIRECT : DN_CONVOLUTION_DIRECT;
  dn_choose_floats(build, &op, c.src.type, c.weights.type);
  p->src = dn_any_md(build, c.src.rank, c.src.dims, dn_type_in(&op, c.src.type));
  p->weights = dn_any_md(build, c.axes + 2 + grouped, dims, dn_type_in(&op, c.weights.type));
  p->dst = dn_any_md(build, c.dst.rank, c.dst.dims, dn_type_in(&op, c.dst.type));
  p->strides = c.strides;
  p->dilates = c.dilation;
  p->pad_before = c.before;
  p->pad_after = c.after;
  if (!p->src || !p->weights || !p->dst) return MBLOB_E_KERNEL;
  status = take_zero_point(build, &c, &op);
  if (!status) status = dn_fuse(build, &op, 1);
  if (!status) status = dn_build_operation(build, &op);
  if (op.post_ops) (void)build->library->post_ops_destroy(op.post_ops);
  return status;
}

int dn_convolution(struct dn_build *build) { return convolve(build, false); }
int dn_transposed_convolution(struct dn_build *build) { return convolve(build, true); }
