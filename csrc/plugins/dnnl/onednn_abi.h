/* onednn_abi.h - numbers in which oneDNN 2 and 3 differ, as each version's headers have them
 * (tests/c/plugins/dnnl_headers.c compares all of them, and those of onednn.h, with the headers where
 * there are any). */
#ifndef DN_ONEDNN_ABI_H
#define DN_ONEDNN_ABI_H

#define DN_AVX2 0x4 /* a bit of the instructions in both */

/* 2.6, 2.7 */
#define DN_V2_MEMORY_DESC_SIZE 696
#define DN_V2_OPERATION_DESC_SIZE \
  8192 /* at least as large as any that is used; the library knows the real sizes */
#define DN_V2_POST_OP_ARGUMENT 16384
#define DN_V2_SOURCE_ZERO 4097
#define DN_V2_BLOCK_COUNT_AT 416    /* int, in a descriptor */
#define DN_V2_BLOCK_AXES_AT 520     /* int64_t each */
#define DN_V2_RUNTIME_S32 INT32_MIN /* what is told by each call */
#define DN_V2_VNNI 0x440
#define DN_V2_BF16 0x80
#define DN_V2_F16 0
enum dn_v2 {
  DN_V2_RELU = 31,
  DN_V2_POWER = 32,
  DN_V2_TANH = 47,
  DN_V2_GELU_ERF = 48,
  DN_V2_ELU = 63,
  DN_V2_ROUND = 64,
  DN_V2_ABS = 95,
  DN_V2_MISH = 96,
  DN_V2_SQRT = 111,
  DN_V2_HARDSWISH = 112,
  DN_V2_LINEAR = 127,
  DN_V2_LOGISTIC = 175,
  DN_V2_EXP = 191,
  DN_V2_GELU_TANH = 207,
  DN_V2_SWISH = 223,
  DN_V2_LOG = 239,
  DN_V2_CLIP = 255,
  DN_V2_GLOBAL_STATS = 1,
  DN_V2_USE_SCALE = 8,
  DN_V2_USE_SHIFT = 16
};

/* 3 */
#define DN_V3_POST_OP_ARGUMENT 32768
#define DN_V3_SOURCE_ZERO 8193
#define DN_V3_VNNI 0x48
#define DN_V3_BF16 0x90
#define DN_V3_F16 0x110
enum dn_v3 {
  DN_V3_BLOCKED = 2,
  DN_V3_MD_STRIDES = 14,
  DN_V3_MD_RANK = 256,
  DN_V3_MD_DIMS = 257,
  DN_V3_MD_TYPE = 258,
  DN_V3_MD_OFFSET = 259,
  DN_V3_MD_PADDED_DIMS = 260,
  DN_V3_MD_PADDED_OFFSETS = 261,
  DN_V3_MD_KIND = 262,
  DN_V3_MD_BLOCK_COUNT = 263,
  DN_V3_MD_BLOCKS = 264,
  DN_V3_MD_BLOCK_AXES = 265,
  DN_V3_RELU = 32,
  DN_V3_TANH = 33,
  DN_V3_ELU = 34,
  DN_V3_ABS = 36,
  DN_V3_SQRT = 37,
  DN_V3_LINEAR = 38,
  DN_V3_LOGISTIC = 41,
  DN_V3_EXP = 42,
  DN_V3_GELU_TANH = 43,
  DN_V3_SWISH = 44,
  DN_V3_LOG = 45,
  DN_V3_CLIP = 46,
  DN_V3_POWER = 48,
  DN_V3_GELU_ERF = 49,
  DN_V3_ROUND = 50,
  DN_V3_MISH = 51,
  DN_V3_HARDSWISH = 52,
  DN_V3_GLOBAL_STATS = 1,
  DN_V3_USE_SCALE = 2,
  DN_V3_USE_SHIFT = 4
};

#endif
