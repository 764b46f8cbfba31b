/* operators.h - TVM's operators, each translated to primitives of oneDNN. They work on
 * build->node. */
#ifndef DN_OPERATORS_H
#define DN_OPERATORS_H

#include "../view.h"

int dn_convolution(struct dn_build *build);
int dn_transposed_convolution(struct dn_build *build);
int dn_dense(struct dn_build *build);
int dn_matmul(struct dn_build *build);
int dn_max_pool(struct dn_build *build);
int dn_average_pool(struct dn_build *build);
int dn_resize(struct dn_build *build);
int dn_batch_norm(struct dn_build *build);
int dn_layer_norm(struct dn_build *build);
int dn_softmax(struct dn_build *build);
int dn_log_softmax(struct dn_build *build);
int dn_eltwise(struct dn_build *build);
int dn_quantize(struct dn_build *build);
int dn_prelu(struct dn_build *build);
int dn_reduce(struct dn_build *build);
int dn_binary(struct dn_build *build);
int dn_concatenate(struct dn_build *build);
int dn_transpose(struct dn_build *build);
int dn_reshape(struct dn_build *build);
int dn_cast(struct dn_build *build);
int dn_slice(struct dn_build *build);

/* An attribute that is an axis, from the end if negative. */
int dn_get_axis(struct dn_build *build, int rank, int *out);
bool dn_is_float(enum dn_type type);
/* Whether the result has the bytes of the node's first input, as dn_reshape takes it. */
bool dn_keeps_bytes(const struct dn_node *node);

/* ---- what TVM fused behind a convolution or a dense: bias, scales, sums, activations (post_ops.c) */

/* Add the node's bias ([channels]) and post-ops to the operation, whose dst_view and axis of
 * channels are known. operation->post_ops is the caller's to destroy, also after an error. */
int dn_fuse(struct dn_build *build, struct dn_operation *operation, int channel_axis);

/* Apply a function of one element behind an operation with post-ops. */
int dn_append_eltwise(struct dn_build *build, struct dn_operation *op, enum dn_eltwise algorithm,
                      float alpha, float beta);

/* Multiply by or add a tensor, spread over the result, behind an operation with post-ops. */
int dn_append_binary(struct dn_build *build, struct dn_operation *op, int algorithm,
                     const struct dn_operand *operand);

/* What follows the node's own operation if it has the attribute quantize_scale, behind an operation with
 * post-ops. The result is rounded to steps of that size: a number of bytes is round(x / quantize_scale) +
 * quantize_zero; a float is that of a step from quantize_min to quantize_max, as if it had been a byte. */
int dn_append_rounding(struct dn_build *build, struct dn_operation *op);

/* The one number of a constant. `what`: for errors. */
int dn_scalar(struct dn_build *build, size_t tensor, const char *what, float *out);
/* A constant of one float, spread over a tensor of any shape of that rank. */
int dn_number(struct dn_build *build, int rank, float number, struct dn_operand *out);

/* An element-wise operator's algorithm by TVM's name ("nn.relu", "clip"), -1 if oneDNN has none. */
int dn_eltwise_of(const char *name);

/* alpha and beta of an element-wise algorithm, of the attributes of the node that has it. */
int dn_eltwise_numbers(struct dn_build *build, enum dn_eltwise algorithm, float *alpha,
                       float *beta);

#endif
