/* operators.h - TVM's operators, each translated to primitives of oneDNN. They work on
 * build->node. */
#ifndef DN_OPERATORS_H
#define DN_OPERATORS_H

#include "view.h"

int dn_convolution(struct dn_build *build);
int dn_transposed_convolution(struct dn_build *build);
int dn_dense(struct dn_build *build);
int dn_batch_matmul(struct dn_build *build);
int dn_max_pool(struct dn_build *build);
int dn_average_pool(struct dn_build *build);
int dn_batch_norm(struct dn_build *build);
int dn_layer_norm(struct dn_build *build);
int dn_softmax(struct dn_build *build);
int dn_log_softmax(struct dn_build *build);
int dn_eltwise(struct dn_build *build);
int dn_binary(struct dn_build *build);
int dn_concatenate(struct dn_build *build);
int dn_transpose(struct dn_build *build);
int dn_reshape(struct dn_build *build);

/* An attribute that is an axis, from the end if negative. */
int dn_get_axis(struct dn_build *build, int rank, int *out);
/* Whether the result has the bytes of the node's first input, as dn_reshape takes it. */
bool dn_keeps_bytes(const struct dn_node *node);

#endif
