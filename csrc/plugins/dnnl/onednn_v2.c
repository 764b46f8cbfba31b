/* onednn_v2.c - oneDNN 2.6 and 2.7: descriptors are structs, operations are described in a
 * second struct first. */
#include <stdlib.h>
#include <string.h>

#include "onednn.h"
#include "onednn_abi.h"

static struct {
  int (*md_init_by_strides)(void *, int, const int64_t *, int, const int64_t *);
  int (*md_init_by_tag)(void *, int, const int64_t *, int, int);
  int (*md_permute_axes)(void *, const void *, const int *);
  int (*convolution)(void *, int, int, const void *, const void *, const void *, const void *,
                     const int64_t *, const int64_t *, const int64_t *, const int64_t *);
  int (*deconvolution)(void *, int, int, const void *, const void *, const void *, const void *,
                       const int64_t *, const int64_t *, const int64_t *, const int64_t *);
  int (*inner_product)(void *, int, const void *, const void *, const void *, const void *);
  int (*matmul)(void *, const void *, const void *, const void *, const void *);
  int (*pooling)(void *, int, int, const void *, const void *, const int64_t *, const int64_t *,
                 const int64_t *, const int64_t *, const int64_t *);
  int (*eltwise)(void *, int, int, const void *, float, float);
  int (*resampling)(void *, int, int, const float *, const void *, const void *);
  int (*softmax)(void *, int, int, const void *, const void *, int);
  int (*prelu)(void *, int, const void *, const void *);
  int (*reduction)(void *, int, const void *, const void *, float, float);
  int (*binary)(void *, int, const void *, const void *, const void *);
  int (*batch_normalization)(void *, int, const void *, float, unsigned);
  int (*layer_normalization)(void *, int, const void *, const void *, float, unsigned);
  int (*concat)(void **, const void *, int, int, const void *, const void *, void *);
  int (*primitive_desc_create)(void **, const void *, const void *, void *, const void *);
  int (*append_eltwise)(void *, float, int, float, float);
  int (*append_sum)(void *, float);
  int (*attr_set_zero_points)(void *, int, int64_t, int, const int32_t *);
} api;

static const char *bind(void *handle) {
  static const struct dn_symbol symbols[] = {
      {"dnnl_memory_desc_init_by_strides", (void **)&api.md_init_by_strides},
      {"dnnl_memory_desc_init_by_tag", (void **)&api.md_init_by_tag},
      {"dnnl_memory_desc_permute_axes", (void **)&api.md_permute_axes},
      {"dnnl_dilated_convolution_forward_desc_init", (void **)&api.convolution},
      {"dnnl_dilated_deconvolution_forward_desc_init", (void **)&api.deconvolution},
      {"dnnl_inner_product_forward_desc_init", (void **)&api.inner_product},
      {"dnnl_matmul_desc_init", (void **)&api.matmul},
      {"dnnl_pooling_v2_forward_desc_init", (void **)&api.pooling},
      {"dnnl_eltwise_forward_desc_init", (void **)&api.eltwise},
      {"dnnl_resampling_forward_desc_init", (void **)&api.resampling},
      {"dnnl_softmax_v2_forward_desc_init", (void **)&api.softmax},
      {"dnnl_prelu_forward_desc_init", (void **)&api.prelu},
      {"dnnl_reduction_desc_init", (void **)&api.reduction},
      {"dnnl_binary_desc_init", (void **)&api.binary},
      {"dnnl_batch_normalization_forward_desc_init", (void **)&api.batch_normalization},
      {"dnnl_layer_normalization_forward_desc_init", (void **)&api.layer_normalization},
      {"dnnl_concat_primitive_desc_create", (void **)&api.concat},
      {"dnnl_primitive_desc_create", (void **)&api.primitive_desc_create},
      {"dnnl_post_ops_append_eltwise", (void **)&api.append_eltwise},
      {"dnnl_post_ops_append_sum", (void **)&api.append_sum},
      {"dnnl_primitive_attr_set_zero_points", (void **)&api.attr_set_zero_points},
  };
  return dn_bind(handle, symbols, sizeof(symbols) / sizeof(*symbols));
}

/* ---- memory descriptors ---- */

static int keep(dn_md *md, int status, dn_md **out) {
  if (status) {
    free(md);
    md = NULL;
  }
  *out = md;
  return status;
}

static int md_strided(int rank, const int64_t *dims, int type, const int64_t *strides,
                      dn_md **out) {
  dn_md *md = calloc(1, DN_V2_MEMORY_DESC_SIZE);
  if (!md) return DN_OUT_OF_MEMORY;
  return keep(md,
              strides ? api.md_init_by_strides(md, rank, dims, type, strides)
                      : api.md_init_by_tag(md, rank, dims, type, DN_FORMAT_ANY),
              out);
}

static int md_tagged(int rank, const int64_t *dims, int type, int tag, dn_md **out) {
  dn_md *md = calloc(1, DN_V2_MEMORY_DESC_SIZE);
  if (!md) return DN_OUT_OF_MEMORY;
  return keep(md, api.md_init_by_tag(md, rank, dims, type, tag), out);
}

static int md_permuted(const dn_md *from, const int *permutation, dn_md **out) {
  dn_md *md = calloc(1, DN_V2_MEMORY_DESC_SIZE);
  if (!md) return DN_OUT_OF_MEMORY;
  return keep(md, api.md_permute_axes(md, from, permutation), out);
}

static int md_copy(const dn_md *from, dn_md **out) {
  dn_md *md = malloc(DN_V2_MEMORY_DESC_SIZE);
  if (!md) return DN_OUT_OF_MEMORY;
  memcpy(md, from, DN_V2_MEMORY_DESC_SIZE);
  return keep(md, DN_SUCCESS, out);
}

static void md_free(dn_md *md) { free(md); }

static size_t md_tell(const dn_md *md, unsigned char out[DN_TOLD_FORMAT]) {
  memcpy(out, md, DN_V2_MEMORY_DESC_SIZE);
  return DN_V2_MEMORY_DESC_SIZE;
}

static bool md_has_odd_blocks(const dn_md *md) {
  int count;
  int64_t axis;
  memcpy(&count, (const char *)md + DN_V2_BLOCK_COUNT_AT, sizeof(count));
  for (int i = 0; i < count && i < DN_MAX_RANK; ++i) {
    memcpy(&axis, (const char *)md + DN_V2_BLOCK_AXES_AT + (size_t)i * sizeof(axis), sizeof(axis));
    if (axis != 1) return true;
  }
  return false;
}

/* ---- primitives ---- */

static int describe(const struct dn_problem *p, void *desc) {
  switch (p->kind) {
    case DN_CONVOLUTION:
      return api.convolution(desc, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->weights, p->bias,
                             p->dst, p->strides, p->dilates, p->pad_before, p->pad_after);
    case DN_DECONVOLUTION:
      return api.deconvolution(desc, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->weights,
                               p->bias, p->dst, p->strides, p->dilates, p->pad_before,
                               p->pad_after);
    case DN_INNER_PRODUCT:
      return api.inner_product(desc, DN_FORWARD_INFERENCE, p->src, p->weights, p->bias, p->dst);
    case DN_MATMUL: return api.matmul(desc, p->src, p->weights, p->bias, p->dst);
    case DN_POOLING:
      return api.pooling(desc, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->dst, p->strides,
                         p->kernel, p->dilates, p->pad_before, p->pad_after);
    case DN_RESAMPLING: /* factors NULL: as the extents say */
      return api.resampling(desc, DN_FORWARD_INFERENCE, p->algorithm, NULL, p->src, p->dst);
    case DN_ELTWISE:
      return api.eltwise(desc, DN_FORWARD_INFERENCE,
                         dn_eltwise_number(2, (enum dn_eltwise)p->algorithm), p->src, p->alpha,
                         p->beta);
    case DN_SOFTMAX:
      return api.softmax(desc, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->dst, p->axis);
    case DN_PRELU: return api.prelu(desc, DN_FORWARD_INFERENCE, p->src, p->weights);
    case DN_REDUCTION: return api.reduction(desc, p->algorithm, p->src, p->dst, 0.0f, 0.0f);
    case DN_BINARY: return api.binary(desc, p->algorithm, p->src, p->weights, p->dst);
    case DN_BATCH_NORMALIZATION:
      return api.batch_normalization(desc, DN_FORWARD_INFERENCE, p->src, p->epsilon,
                                     dn_normalization_flags(2, p->flags));
    case DN_LAYER_NORMALIZATION:
      return api.layer_normalization(desc, DN_FORWARD_INFERENCE, p->src, NULL, p->epsilon,
                                     dn_normalization_flags(2, p->flags));
    case DN_CONCATENATION: break; /* has no description */
  }
  return DN_UNIMPLEMENTED;
}

/* Sources are structs one after another. */
static int concatenation(const struct dn_problem *p, void *engine, void **out) {
  char *sources = calloc((size_t)p->source_count, DN_V2_MEMORY_DESC_SIZE);
  if (!sources) return DN_OUT_OF_MEMORY;
  for (int i = 0; i < p->source_count; ++i)
    memcpy(sources + (size_t)i * DN_V2_MEMORY_DESC_SIZE, p->sources[i], DN_V2_MEMORY_DESC_SIZE);
  int status = api.concat(out, p->dst, p->source_count, p->axis, sources, p->attributes, engine);
  free(sources);
  return status;
}

static int primitive_desc(const struct dn_problem *problem, void *engine, void **out) {
  if (problem->kind == DN_CONCATENATION) return concatenation(problem, engine, out);
  void *desc = calloc(1, DN_V2_OPERATION_DESC_SIZE);
  *out = NULL;
  if (!desc) return DN_OUT_OF_MEMORY;
  int status = describe(problem, desc);
  if (!status) status = api.primitive_desc_create(out, desc, problem->attributes, engine, NULL);
  free(desc);
  return status;
}

static int append_eltwise(void *post_ops, enum dn_eltwise algorithm, float alpha, float beta) {
  return api.append_eltwise(post_ops, 1.0f, dn_eltwise_number(2, algorithm), alpha, beta);
}

static int append_sum(void *post_ops, float scale) { return api.append_sum(post_ops, scale); }

static int use_source_zero(void *attributes) {
  const int32_t of_each_call = DN_V2_RUNTIME_S32;
  return api.attr_set_zero_points(attributes, DN_ARG_SRC, 1, 0, &of_each_call);
}

const struct dn_version dn_version_2 = {
    .major = 2,
    .bind = bind,
    .md_strided = md_strided,
    .md_tagged = md_tagged,
    .md_permuted = md_permuted,
    .md_copy = md_copy,
    .md_free = md_free,
    .md_tell = md_tell,
    .md_has_odd_blocks = md_has_odd_blocks,
    .primitive_desc = primitive_desc,
    .append_eltwise = append_eltwise,
    .append_sum = append_sum,
    .use_source_zero = use_source_zero,
    .vnni = DN_V2_VNNI,
    .bf16 = DN_V2_BF16,
    .f16 = DN_V2_F16,
    .zero_argument = DN_V2_SOURCE_ZERO,
    .post_op_argument = DN_V2_POST_OP_ARGUMENT,
};
