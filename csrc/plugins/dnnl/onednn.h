/* onednn.h - oneDNN as the rest of the plug-in sees it: one interface over libdnnl.so.2 (2.6 and
 * 2.7) and libdnnl.so.3.
 *
 * The library is found and opened at run time; nothing of its headers is needed to build. What
 * is the same in both versions is called through the members of `struct dn_library`; what
 * differs through `struct dn_version`, which onednn_v2.c and onednn_v3.c fill. Handles of the
 * library are `void *`. Functions that return int return its status, DN_SUCCESS or another;
 * dn_status_text() names it. */
#ifndef DN_ONEDNN_H
#define DN_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DN_MAX_RANK 12
#define DN_TOLD_FORMAT 1024 /* bytes */

enum dn_status {
  DN_SUCCESS = 0,
  DN_OUT_OF_MEMORY = 1,
  DN_INVALID_ARGUMENTS = 2,
  DN_UNIMPLEMENTED = 3
};
enum dn_type {
  DN_NO_TYPE = 0,
  DN_F16 = 1,
  DN_BF16 = 2,
  DN_F32 = 3,
  DN_S32 = 4,
  DN_S8 = 5,
  DN_U8 = 6
};
enum dn_query {
  DN_IMPLEMENTATION = 8, /* a text that the primitive descriptor owns */
  DN_SRC_MD = 129,
  DN_WEIGHTS_MD = 131,
  DN_DST_MD = 133,
  DN_SCRATCHPAD_MD = 136
};
enum dn_argument {
  DN_ARG_SRC = 1,
  DN_ARG_SRC_1 = 2,
  DN_ARG_DST = 17,
  DN_ARG_WEIGHTS = 33,
  DN_ARG_BIAS = 41,
  DN_ARG_MEAN = 49,
  DN_ARG_VARIANCE = 50,
  DN_ARG_SCALE = 51,
  DN_ARG_SHIFT = 52,
  DN_ARG_SCRATCHPAD = 80,
  DN_ARG_SOURCES = 1024 /* the first of the sources of a concatenation */
};
#define DN_MAX_SOURCES 1024
#define DN_FORMAT_ANY 1
#define DN_FORWARD_INFERENCE 96
#define DN_ENGINE_CPU 1
#define DN_SCRATCHPAD_USER 1
#define DN_IN_ORDER 1

/* Numbers that both versions share. */
enum dn_algorithm {
  DN_CONVOLUTION_DIRECT = 1,
  DN_DECONVOLUTION_DIRECT = 10,
  DN_POOLING_MAX = 511,
  DN_POOLING_AVERAGE_INCLUDE_PADDING = 767,
  DN_POOLING_AVERAGE_EXCLUDE_PADDING = 1023,
  DN_BINARY_ADD = 131056,
  DN_BINARY_MULTIPLY = 131057,
  DN_BINARY_MAXIMUM = 131058,
  DN_BINARY_MINIMUM = 131059,
  DN_BINARY_DIVIDE = 131060,
  DN_BINARY_SUBTRACT = 131061,
  DN_SOFTMAX_ACCURATE = 196608,
  DN_SOFTMAX_LOG = 196609,
  DN_RESAMPLING_NEAREST = 196592,
  DN_RESAMPLING_LINEAR = 196593,
  DN_REDUCTION_MAXIMUM = 196594,
  DN_REDUCTION_MINIMUM = 196595,
  DN_REDUCTION_SUM = 196596,
  DN_REDUCTION_MEAN = 196598
};

/* Element-wise algorithms: each version has numbers of its own for them. */
enum dn_eltwise {
  DN_RELU,
  DN_TANH,
  DN_ABS,
  DN_SQRT,
  DN_LOGISTIC,
  DN_EXP,
  DN_GELU_ERF,
  DN_GELU_TANH,
  DN_LOG,
  DN_CLIP,
  DN_ROUND,
  DN_SWISH,
  DN_MISH,
  DN_HARDSWISH,
  DN_LINEAR,
  DN_ELU,
  DN_POWER,
  DN_ELTWISE_COUNT
};

enum dn_normalization { DN_GLOBAL_STATS = 1, DN_USE_SCALE = 2, DN_USE_SHIFT = 4 };

/* dnnl_memory_desc_t of the caller: the struct of 2.x, the object of 3.x. */
typedef struct dn_md dn_md;

enum dn_kind {
  DN_CONVOLUTION,
  DN_DECONVOLUTION,
  DN_INNER_PRODUCT,
  DN_MATMUL,
  DN_POOLING,
  DN_RESAMPLING,
  DN_ELTWISE,
  DN_SOFTMAX,
  DN_PRELU,
  DN_REDUCTION,
  DN_BINARY,
  DN_BATCH_NORMALIZATION,
  DN_LAYER_NORMALIZATION,
  DN_CONCATENATION
};

/* What a primitive shall do. A kind uses the members it needs; `weights` is the second source of
 * a binary. */
struct dn_problem {
  enum dn_kind kind;
  int algorithm;                           /* dn_algorithm; dn_eltwise of DN_ELTWISE */
  const dn_md *src, *weights, *bias, *dst; /* bias may be NULL */
  const dn_md **sources;                   /* of a concatenation, instead of src */
  int source_count;
  const int64_t *strides, *dilates, *kernel, *pad_before,
      *pad_after; /* one number for each spatial axis */
  int axis;
  unsigned flags; /* dn_normalization */
  float epsilon, alpha, beta;
  void *attributes; /* may be NULL */
};

struct dn_exec_arg {
  int argument;
  void *memory;
};

/* A function of the library, and where its address goes. */
struct dn_symbol {
  const char *name;
  void **place;
};
/* All of them; NULL, or the name of the first that the library has not. */
const char *dn_bind(void *handle, const struct dn_symbol *symbols, size_t count);
/* As version 2 or 3 has them. */
int dn_eltwise_number(int major, enum dn_eltwise algorithm);
unsigned dn_normalization_flags(int major, unsigned flags);

/* What the versions do differently. */
struct dn_version {
  int major;
  /* The addresses of the library's functions; NULL, or the name of one that is missing. */
  const char *(*bind)(void *handle);
  /* New descriptors, given back to md_free. `strides` NULL: the tensor's own format is left to a
   * primitive. */
  int (*md_strided)(int rank, const int64_t *dims, int type, const int64_t *strides, dn_md **out);
  int (*md_tagged)(int rank, const int64_t *dims, int type, int tag, dn_md **out);
  int (*md_permuted)(const dn_md *md, const int *permutation, dn_md **out);
  int (*md_copy)(const dn_md *md, dn_md **out);
  void (*md_free)(dn_md *md);
  int (*primitive_desc)(const struct dn_problem *problem, void *engine, void **out);
  int (*append_eltwise)(void *post_ops, enum dn_eltwise algorithm, float alpha, float beta);
  int (*append_sum)(void *post_ops, float scale);
  /* The source has a zero point, which each call gives: argument zero_argument, int32[1]. */
  int (*use_source_zero)(void *attributes);
  /* Whether the elements of an axis other than 1 lie in blocks. */
  bool (*md_has_odd_blocks)(const dn_md *md);
  /* All that decides which bytes a tensor of this descriptor has; returns the size, 0 if that cannot
   * be told. */
  size_t (*md_tell)(const dn_md *md, unsigned char out[DN_TOLD_FORMAT]);
  /* Bits of the instructions: for sums of bytes (AVX2_VNNI, AVX512_CORE_VNNI), and for products of
   * these types (AVX512_CORE_BF16, AVX512_CORE_FP16, AVX2_VNNI_2 for both). */
  unsigned vnni, bf16, f16;
  int zero_argument;    /* DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC */
  int post_op_argument; /* DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE */
};
extern const struct dn_version dn_version_2, dn_version_3;

struct dn_library {
  int major, minor, patch;
  const struct dn_version *version;
  void *engine; /* the processor; shared by all threads */
  int (*engine_create)(void **engine, int kind, size_t index);
  int (*stream_create)(void **stream, void *engine, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*stream_wait)(void *stream);
  int (*memory_create)(void **memory, const dn_md *md, void *engine, void *data);
  int (*memory_destroy)(void *memory);
  int (*memory_set_data_handle)(void *memory, void *data);
  int (*md_equal)(const dn_md *a, const dn_md *b); /* 1 or 0 */
  size_t (*md_size)(const dn_md *md);
  const dn_md *(*query_md)(const void *primitive_desc, int what,
                           int index); /* belongs to the primitive descriptor */
  int (*query)(const void *primitive_desc, int what, int index, void *out);
  int (*primitive_desc_destroy)(void *primitive_desc);
  int (*primitive_create)(void **primitive, const void *primitive_desc);
  int (*primitive_destroy)(void *primitive);
  int (*primitive_execute)(const void *primitive, void *stream, int count,
                           const struct dn_exec_arg *args);
  int (*reorder_desc_create)(void **primitive_desc, const dn_md *from, void *from_engine,
                             const dn_md *to, void *to_engine, const void *attributes);
  int (*attr_create)(void **attributes);
  int (*attr_destroy)(void *attributes);
  int (*attr_set_post_ops)(void *attributes, const void *post_ops);
  int (*attr_set_scratchpad_mode)(void *attributes, int mode);
  int (*post_ops_create)(void **post_ops);
  int (*post_ops_destroy)(void *post_ops);
  int (*post_ops_append_binary)(void *post_ops, int algorithm, const dn_md *md);
  const char *(*tag_name)(int tag);
  /* OpenMP's, NULL where the library was built without: threads of the calling thread's next
   * parallel region. */
  int (*get_threads)(void);
  void (*set_threads)(int count);
  unsigned (*instructions)(void); /* a number for those that are used; may be NULL */
  char path[4096];                /* as it was given to the dynamic linker */
};

/* Whether products of 8-bit integers are summed in 32 bits, and so exact. Processors of x86 without
 * VNNI sum pairs of them in 16 bits, which saturate; of other processors nothing is known. */
bool dn_sums_bytes(const struct dn_library *library);

/* Whether the processor computes with numbers of a type, and not only oneDNN by other instructions:
 * true of all but float16 and bfloat16, which float32 may stand for. */
bool dn_computes(const struct dn_library *library, enum dn_type type);
/* Whether oneDNN uses the instructions of AVX2. */
bool dn_has_avx2(const struct dn_library *library);

/* The library, found and opened at the first call that succeeds; NULL after recording what was
 * tried. */
const struct dn_library *dn_library_open(void);
const char *dn_status_text(int status);
/* What oneDNN's texts call primitives of a kind. */
const char *dn_kind_name(enum dn_kind kind);
/* The number of a format by oneDNN's name for it ("aBcd16b"), 0 if this version has none of that
 * name. */
int dn_find_tag(const struct dn_library *library, const char *name);
/* Bytes of one element. */
size_t dn_type_size(enum dn_type type);

#endif
