/* onednn_v3.c - oneDNN 3: descriptors are objects, an operation is described by one call. */
#include "onednn.h"
#include <string.h>

#include "onednn_abi.h"

static struct {
  int (*md_create_with_strides)(void **, int, const int64_t *, int, const int64_t *);
  int (*md_create_with_tag)(void **, int, const int64_t *, int, int);
  int (*md_permute_axes)(void **, const void *, const int *);
  int (*md_clone)(void **, const void *);
  int (*md_destroy)(void *);
  int (*md_query)(const void *, int, void *);
  int (*convolution)(void **, void *, int, int, const void *, const void *, const void *,
                     const void *, const int64_t *, const int64_t *, const int64_t *,
                     const int64_t *, const void *);
  int (*deconvolution)(void **, void *, int, int, const void *, const void *, const void *,
                       const void *, const int64_t *, const int64_t *, const int64_t *,
                       const int64_t *, const void *);
  int (*inner_product)(void **, void *, int, const void *, const void *, const void *, const void *,
                       const void *);
  int (*matmul)(void **, void *, const void *, const void *, const void *, const void *,
                const void *);
  int (*pooling)(void **, void *, int, int, const void *, const void *, const int64_t *,
                 const int64_t *, const int64_t *, const int64_t *, const int64_t *, const void *);
  int (*eltwise)(void **, void *, int, int, const void *, const void *, float, float, const void *);
  int (*resampling)(void **, void *, int, int, const float *, const void *, const void *,
                    const void *);
  int (*softmax)(void **, void *, int, int, const void *, const void *, int, const void *);
  int (*prelu)(void **, void *, int, const void *, const void *, const void *, const void *);
  int (*reduction)(void **, void *, int, const void *, const void *, float, float, const void *);
  int (*binary)(void **, void *, int, const void *, const void *, const void *, const void *);
  int (*batch_normalization)(void **, void *, int, const void *, const void *, float, unsigned,
                             const void *);
  int (*layer_normalization)(void **, void *, int, const void *, const void *, const void *, float,
                             unsigned, const void *);
  int (*concat)(void **, void *, const void *, int, int, const void *, const void *);
  int (*append_eltwise)(void *, int, float, float);
  int (*append_sum)(void *, float, int32_t, int);
  int (*attr_set_zero_points_mask)(void *, int, int);
} api;

static const char *bind(void *handle) {
  static const struct dn_symbol symbols[] = {
      {"dnnl_memory_desc_create_with_strides", (void **)&api.md_create_with_strides},
      {"dnnl_memory_desc_create_with_tag", (void **)&api.md_create_with_tag},
      {"dnnl_memory_desc_permute_axes", (void **)&api.md_permute_axes},
      {"dnnl_memory_desc_clone", (void **)&api.md_clone},
      {"dnnl_memory_desc_destroy", (void **)&api.md_destroy},
      {"dnnl_memory_desc_query", (void **)&api.md_query},
      {"dnnl_convolution_forward_primitive_desc_create", (void **)&api.convolution},
      {"dnnl_deconvolution_forward_primitive_desc_create", (void **)&api.deconvolution},
      {"dnnl_inner_product_forward_primitive_desc_create", (void **)&api.inner_product},
      {"dnnl_matmul_primitive_desc_create", (void **)&api.matmul},
      {"dnnl_pooling_forward_primitive_desc_create", (void **)&api.pooling},
      {"dnnl_resampling_forward_primitive_desc_create", (void **)&api.resampling},
      {"dnnl_eltwise_forward_primitive_desc_create", (void **)&api.eltwise},
      {"dnnl_softmax_forward_primitive_desc_create", (void **)&api.softmax},
      {"dnnl_prelu_forward_primitive_desc_create", (void **)&api.prelu},
      {"dnnl_reduction_primitive_desc_create", (void **)&api.reduction},
      {"dnnl_binary_primitive_desc_create", (void **)&api.binary},
      {"dnnl_batch_normalization_forward_primitive_desc_create", (void **)&api.batch_normalization},
      {"dnnl_layer_normalization_forward_primitive_desc_create", (void **)&api.layer_normalization},
      {"dnnl_concat_primitive_desc_create", (void **)&api.concat},
      {"dnnl_post_ops_append_eltwise", (void **)&api.append_eltwise},
      {"dnnl_post_ops_append_sum", (void **)&api.append_sum},
      {"dnnl_primitive_attr_set_zero_points_mask", (void **)&api.attr_set_zero_points_mask},
  };
  return dn_bind(handle, symbols, sizeof(symbols) / sizeof(*symbols));
}

/* ---- memory descriptors ---- */

static int md_strided(int rank, const int64_t *dims, int type, const int64_t *strides,
                      dn_md **out) {
  *out = NULL;
  return strides ? api.md_create_with_strides((void **)out, rank, dims, type, strides)
                 : api.md_create_with_tag((void **)out, rank, dims, type, DN_FORMAT_ANY);
}

static int md_tagged(int rank, const int64_t *dims, int type, int tag, dn_md **out) {
  *out = NULL;
  return api.md_create_with_tag((void **)out, rank, dims, type, tag);
}

static int md_permuted(const dn_md *md, const int *permutation, dn_md **out) {
  *out = NULL;
  return api.md_permute_axes((void **)out, md, permutation);
}

static int md_copy(const dn_md *md, dn_md **out) {
  *out = NULL;
  return api.md_clone((void **)out, md);
}

static void md_free(dn_md *md) {
  if (md) (void)api.md_destroy(md);
}

/* Numbers and lists of them. A tensor of blocks has nothing beside them, but int8 may have sums behind
 * its elements. */
static size_t md_tell(const dn_md *md, unsigned char out[DN_TOLD_FORMAT]) {
  static const int lists[] = {DN_V3_MD_DIMS, DN_V3_MD_PADDED_DIMS, DN_V3_MD_PADDED_OFFSETS,
                              DN_V3_MD_STRIDES};
  static const int blocks[] = {DN_V3_MD_BLOCKS, DN_V3_MD_BLOCK_AXES};
  int rank = 0, type = 0, kind = 0, block_count = 0;
  int64_t offset = 0, told[DN_TOLD_FORMAT / sizeof(int64_t)];
  size_t count = 0;
  if (api.md_query(md, DN_V3_MD_RANK, &rank) || api.md_query(md, DN_V3_MD_TYPE, &type) ||
      api.md_query(md, DN_V3_MD_KIND, &kind) || kind != DN_V3_BLOCKED || type == DN_S8 ||
      type == DN_U8 || rank < 1 || rank > DN_MAX_RANK ||
      api.md_query(md, DN_V3_MD_OFFSET, &offset) ||
      api.md_query(md, DN_V3_MD_BLOCK_COUNT, &block_count) || block_count < 0 ||
      block_count > DN_MAX_RANK)
    return 0;
  const int64_t head[] = {rank, type, offset, block_count};
  for (size_t i = 0; i < sizeof(head) / sizeof(*head); ++i) told[count++] = head[i];
  for (size_t k = 0; k < sizeof(lists) / sizeof(*lists) + (block_count ? 2U : 0U); ++k) {
    bool of_blocks = k >= sizeof(lists) / sizeof(*lists);
    const int64_t *list = NULL;
    if (api.md_query(md, of_blocks ? blocks[k - sizeof(lists) / sizeof(*lists)] : lists[k],
                     (void *)&list) ||
        !list)
      return 0;
    for (int i = 0; i < (of_blocks ? block_count : rank); ++i) told[count++] = list[i];
  }
  memcpy(out, told, count * sizeof(*told));
  return count * sizeof(*told);
}

static bool md_has_odd_blocks(const dn_md *md) {
  int count = 0;
  const int64_t *axes = NULL;
  if (api.md_query(md, DN_V3_MD_BLOCK_COUNT, &count) ||
      (count && api.md_query(md, DN_V3_MD_BLOCK_AXES, (void *)&axes)))
    return true;
  for (int i = 0; i < count; ++i)
    if (axes[i] != 1) return true;
  return false;
}

/* ---- primitives ---- */

static int primitive_desc(const struct dn_problem *p, void *engine, void **out) {
  *out = NULL;
  switch (p->kind) {
    case DN_CONVOLUTION:
      return api.convolution(out, engine, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->weights,
                             p->bias, p->dst, p->strides, p->dilates, p->pad_before, p->pad_after,
                             p->attributes);
    case DN_DECONVOLUTION:
      return api.deconvolution(out, engine, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->weights,
                               p->bias, p->dst, p->strides, p->dilates, p->pad_before, p->pad_after,
                               p->attributes);
    case DN_INNER_PRODUCT:
      return api.inner_product(out, engine, DN_FORWARD_INFERENCE, p->src, p->weights, p->bias,
                               p->dst, p->attributes);
    case DN_MATMUL:
      return api.matmul(out, engine, p->src, p->weights, p->bias, p->dst, p->attributes);
    case DN_POOLING:
      return api.pooling(out, engine, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->dst,
                         p->strides, p->kernel, p->dilates, p->pad_before, p->pad_after,
                         p->attributes);
    case DN_RESAMPLING:
      return api.resampling(out, engine, DN_FORWARD_INFERENCE, p->algorithm, NULL, p->src, p->dst,
                            p->attributes);
    case DN_ELTWISE:
      return api.eltwise(out, engine, DN_FORWARD_INFERENCE,
                         dn_eltwise_number(3, (enum dn_eltwise)p->algorithm), p->src, p->dst,
                         p->alpha, p->beta, p->attributes);
    case DN_SOFTMAX:
      return api.softmax(out, engine, DN_FORWARD_INFERENCE, p->algorithm, p->src, p->dst, p->axis,
                         p->attributes);
    case DN_PRELU:
      return api.prelu(out, engine, DN_FORWARD_INFERENCE, p->src, p->weights, p->dst,
                       p->attributes);
    case DN_REDUCTION:
      return api.reduction(out, engine, p->algorithm, p->src, p->dst, 0.0f, 0.0f, p->attributes);
    case DN_BINARY:
      return api.binary(out, engine, p->algorithm, p->src, p->weights, p->dst, p->attributes);
    case DN_BATCH_NORMALIZATION:
      return api.batch_normalization(out, engine, DN_FORWARD_INFERENCE, p->src, p->dst, p->epsilon,
                                     dn_normalization_flags(3, p->flags), p->attributes);
    case DN_LAYER_NORMALIZATION:
      return api.layer_normalization(out, engine, DN_FORWARD_INFERENCE, p->src, p->dst, NULL,
                                     p->epsilon, dn_normalization_flags(3, p->flags),
                                     p->attributes);
    case DN_CONCATENATION:
      return api.concat(out, engine, p->dst, p->source_count, p->axis, p->sources, p->attributes);
  }
  return DN_UNIMPLEMENTED;
}

static int append_eltwise(void *post_ops, enum dn_eltwise algorithm, float alpha, float beta) {
  return api.append_eltwise(post_ops, dn_eltwise_number(3, algorithm), alpha, beta);
}

static int append_sum(void *post_ops, float scale) {
  return api.append_sum(post_ops, scale, 0, DN_NO_TYPE);
}

static int use_source_zero(void *attributes) {
  return api.attr_set_zero_points_mask(attributes, DN_ARG_SRC, 0);
}

const struct dn_version dn_version_3 = {
    .major = 3,
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
    .vnni = DN_V3_VNNI,
    .bf16 = DN_V3_BF16,
    .f16 = DN_V3_F16,
    .zero_argument = DN_V3_SOURCE_ZERO,
    .post_op_argument = DN_V3_POST_OP_ARGUMENT,
};
