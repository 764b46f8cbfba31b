/* post_ops.h - what TVM fused behind a convolution or a dense: bias, scales, sums and
 * activations. */
#ifndef DN_POST_OPS_H
#define DN_POST_OPS_H

#include "view.h"

/* Add the node's bias ([channels]) and post-ops to the operation, whose dst_view and axis of
 * channels are known. operation->post_ops is the caller's to destroy, also after an error. */
int dn_fuse(struct dn_build *build, struct dn_operation *operation, int channel_axis);

/* An element-wise operator's algorithm by TVM's name ("nn.relu", "clip"), -1 if oneDNN has none. */
int dn_eltwise_of(const char *name);

#endif
