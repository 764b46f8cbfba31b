/* The numbers that the oneDNN plug-in has of its own, against oneDNN's headers: of whichever
 * version -I names. Compiled alone, it is the test. */
#include <oneapi/dnnl/dnnl.h>

#include "../../../csrc/plugins/dnnl/onednn.h"
#include "../../../csrc/plugins/dnnl/onednn_abi.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define FITS(type) _Static_assert(sizeof(type) <= DN_V2_OPERATION_DESC_SIZE, #type)

SAME(DN_SUCCESS, dnnl_success);
SAME(DN_OUT_OF_MEMORY, dnnl_out_of_memory);
SAME(DN_INVALID_ARGUMENTS, dnnl_invalid_arguments);
SAME(DN_UNIMPLEMENTED, dnnl_unimplemented);
SAME(DN_F16, dnnl_f16);
SAME(DN_BF16, dnnl_bf16);
SAME(DN_F32, dnnl_f32);
SAME(DN_S32, dnnl_s32);
SAME(DN_S8, dnnl_s8);
SAME(DN_U8, dnnl_u8);
SAME(DN_IMPLEMENTATION, dnnl_query_impl_info_str);
SAME(DN_SRC_MD, dnnl_query_src_md);
SAME(DN_WEIGHTS_MD, dnnl_query_weights_md);
SAME(DN_DST_MD, dnnl_query_dst_md);
SAME(DN_SCRATCHPAD_MD, dnnl_query_scratchpad_md);
SAME(DN_ARG_SRC, DNNL_ARG_SRC_0);
SAME(DN_ARG_SRC_1, DNNL_ARG_SRC_1);
SAME(DN_ARG_DST, DNNL_ARG_DST);
SAME(DN_ARG_WEIGHTS, DNNL_ARG_WEIGHTS);
SAME(DN_ARG_BIAS, DNNL_ARG_BIAS);
SAME(DN_ARG_MEAN, DNNL_ARG_MEAN);
SAME(DN_ARG_VARIANCE, DNNL_ARG_VARIANCE);
SAME(DN_ARG_SCALE, DNNL_ARG_SCALE);
SAME(DN_ARG_SHIFT, DNNL_ARG_SHIFT);
SAME(DN_ARG_SCRATCHPAD, DNNL_ARG_SCRATCHPAD);
SAME(DN_ARG_SOURCES, DNNL_ARG_MULTIPLE_SRC);
SAME(DN_ARG_SOURCES + DN_MAX_SOURCES, DNNL_ARG_MULTIPLE_DST);
SAME(DN_FORMAT_ANY, dnnl_format_tag_any);
SAME(DN_FORWARD_INFERENCE, dnnl_forward_inference);
SAME(DN_ENGINE_CPU, dnnl_cpu);
SAME(DN_SCRATCHPAD_USER, dnnl_scratchpad_mode_user);
SAME(DN_IN_ORDER, dnnl_stream_in_order);
SAME(DN_CONVOLUTION_DIRECT, dnnl_convolution_direct);
SAME(DN_DECONVOLUTION_DIRECT, dnnl_deconvolution_direct);
SAME(DN_POOLING_MAX, dnnl_pooling_max);
SAME(DN_POOLING_AVERAGE_INCLUDE_PADDING, dnnl_pooling_avg_include_padding);
SAME(DN_POOLING_AVERAGE_EXCLUDE_PADDING, dnnl_pooling_avg_exclude_padding);
SAME(DN_BINARY_ADD, dnnl_binary_add);
SAME(DN_BINARY_MULTIPLY, dnnl_binary_mul);
SAME(DN_BINARY_MAXIMUM, dnnl_binary_max);
SAME(DN_BINARY_MINIMUM, dnnl_binary_min);
SAME(DN_BINARY_DIVIDE, dnnl_binary_div);
SAME(DN_BINARY_SUBTRACT, dnnl_binary_sub);
SAME(DN_RESAMPLING_NEAREST, dnnl_resampling_nearest);
SAME(DN_RESAMPLING_LINEAR, dnnl_resampling_linear);
SAME(DN_SOFTMAX_ACCURATE, dnnl_softmax_accurate);
SAME(DN_SOFTMAX_LOG, dnnl_softmax_log);
SAME(DN_REDUCTION_MAXIMUM, dnnl_reduction_max);
SAME(DN_REDUCTION_MINIMUM, dnnl_reduction_min);
SAME(DN_REDUCTION_SUM, dnnl_reduction_sum);
SAME(DN_REDUCTION_MEAN, dnnl_reduction_mean);
SAME(DN_MAX_RANK, DNNL_MAX_NDIMS);
SAME(sizeof(struct dn_exec_arg), sizeof(dnnl_exec_arg_t));

#if DNNL_VERSION_MAJOR == 2
#define OF_VERSION(name) DN_V2_##name
SAME(DN_V2_MEMORY_DESC_SIZE, sizeof(dnnl_memory_desc_t));
SAME(DN_V2_BLOCK_COUNT_AT, offsetof(dnnl_memory_desc_t, format_desc.blocking.inner_nblks));
SAME(DN_V2_BLOCK_AXES_AT, offsetof(dnnl_memory_desc_t, format_desc.blocking.inner_idxs));
SAME(DN_V2_RUNTIME_S32, INT32_MIN); /* DNNL_RUNTIME_S32_VAL, which is no constant expression */
FITS(dnnl_convolution_desc_t);
FITS(dnnl_inner_product_desc_t);
FITS(dnnl_matmul_desc_t);
FITS(dnnl_pooling_v2_desc_t);
FITS(dnnl_resampling_desc_t);
FITS(dnnl_eltwise_desc_t);
FITS(dnnl_softmax_v2_desc_t);
FITS(dnnl_prelu_desc_t);
FITS(dnnl_reduction_desc_t);
FITS(dnnl_binary_desc_t);
FITS(dnnl_batch_normalization_desc_t);
FITS(dnnl_layer_normalization_desc_t);
#else
#define OF_VERSION(name) DN_V3_##name
SAME(DN_V3_BLOCKED, dnnl_blocked);
SAME(DN_V3_MD_STRIDES, dnnl_query_strides);
SAME(DN_V3_MD_RANK, dnnl_query_ndims_s32);
SAME(DN_V3_MD_DIMS, dnnl_query_dims);
SAME(DN_V3_MD_TYPE, dnnl_query_data_type);
SAME(DN_V3_MD_OFFSET, dnnl_query_submemory_offset_s64);
SAME(DN_V3_MD_PADDED_DIMS, dnnl_query_padded_dims);
SAME(DN_V3_MD_PADDED_OFFSETS, dnnl_query_padded_offsets);
SAME(DN_V3_MD_KIND, dnnl_query_format_kind);
SAME(DN_V3_MD_BLOCK_COUNT, dnnl_query_inner_nblks_s32);
SAME(DN_V3_MD_BLOCKS, dnnl_query_inner_blks);
SAME(DN_V3_MD_BLOCK_AXES, dnnl_query_inner_idxs);
#endif
SAME(OF_VERSION(POST_OP_ARGUMENT), DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE);
SAME(OF_VERSION(SOURCE_ZERO), DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC);
SAME(OF_VERSION(VNNI) & (dnnl_cpu_isa_avx2 | dnnl_cpu_isa_avx512_core), 0);
SAME(OF_VERSION(VNNI) & dnnl_cpu_isa_avx512_core_vnni,
     dnnl_cpu_isa_avx512_core_vnni & ~dnnl_cpu_isa_avx512_core);
SAME(OF_VERSION(VNNI) & dnnl_cpu_isa_avx2_vnni, dnnl_cpu_isa_avx2_vnni & ~dnnl_cpu_isa_avx2);
SAME(DN_AVX2 | dnnl_cpu_isa_avx, dnnl_cpu_isa_avx2);
SAME(DN_AVX2 &dnnl_cpu_isa_avx512_core, DN_AVX2);
SAME(OF_VERSION(BF16) & dnnl_cpu_isa_avx512_core_vnni, 0);
SAME(OF_VERSION(BF16) & dnnl_cpu_isa_avx512_core_bf16,
     dnnl_cpu_isa_avx512_core_bf16 & ~dnnl_cpu_isa_avx512_core_vnni);
#if DNNL_VERSION_MAJOR == 3
SAME(DN_V3_BF16 &DN_V3_F16, dnnl_cpu_isa_avx2_vnni_2 & ~dnnl_cpu_isa_avx2_vnni);
SAME(DN_V3_F16 &dnnl_cpu_isa_avx512_core_bf16, 0);
SAME(DN_V3_F16 &dnnl_cpu_isa_avx512_core_fp16,
     dnnl_cpu_isa_avx512_core_fp16 & ~(dnnl_cpu_isa_avx512_core_bf16 | dnnl_cpu_isa_avx2_vnni));
#endif
SAME(OF_VERSION(RELU), dnnl_eltwise_relu);
SAME(OF_VERSION(TANH), dnnl_eltwise_tanh);
SAME(OF_VERSION(ABS), dnnl_eltwise_abs);
SAME(OF_VERSION(SQRT), dnnl_eltwise_sqrt);
SAME(OF_VERSION(LOGISTIC), dnnl_eltwise_logistic);
SAME(OF_VERSION(EXP), dnnl_eltwise_exp);
SAME(OF_VERSION(GELU_ERF), dnnl_eltwise_gelu_erf);
SAME(OF_VERSION(GELU_TANH), dnnl_eltwise_gelu_tanh);
SAME(OF_VERSION(ELU), dnnl_eltwise_elu);
SAME(OF_VERSION(POWER), dnnl_eltwise_pow);
SAME(OF_VERSION(LOG), dnnl_eltwise_log);
SAME(OF_VERSION(CLIP), dnnl_eltwise_clip);
SAME(OF_VERSION(ROUND), dnnl_eltwise_round);
SAME(OF_VERSION(SWISH), dnnl_eltwise_swish);
SAME(OF_VERSION(MISH), dnnl_eltwise_mish);
SAME(OF_VERSION(LINEAR), dnnl_eltwise_linear);
SAME(OF_VERSION(HARDSWISH), dnnl_eltwise_hardswish);
SAME(OF_VERSION(GLOBAL_STATS), dnnl_use_global_stats);
SAME(OF_VERSION(USE_SCALE), dnnl_use_scale);
SAME(OF_VERSION(USE_SHIFT), dnnl_use_shift);
