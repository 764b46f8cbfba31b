/* view.h - a tensor of the graph as oneDNN looks at it: the axes in oneDNN's order, blocks as
 * one axis.
 *
 * TVM names axes by letters (NHWC, NCHW16c, OIHW16i16o): capital letters are axes, a number
 * before a small letter is a block of that axis. oneDNN's order is N C D H W and G O I D H W. */
#ifndef DN_VIEW_H
#define DN_VIEW_H

#include "build.h"

struct dn_view {
  int rank;
  int64_t dims[DN_MAX_RANK]; /* in oneDNN's order */
  enum dn_type type;
  enum { DN_SAME, DN_PERMUTED, DN_TAGGED, DN_RESHAPED } how;
  int permutation[DN_MAX_RANK]; /* DN_PERMUTED: axis i of the graph's shape is oneDNN's axis
                                   permutation[i] */
  int tag;                      /* DN_TAGGED */
};

/* The tensor as the graph's shape says. */
struct dn_view dn_view_same(const struct dn_tensor *tensor);
/* Row-major, with other dimensions of the same count. */
struct dn_view dn_view_reshaped(const struct dn_tensor *tensor, int rank, const int64_t *dims);
/* By the layout that attribute `name` gives, its axes in the order of `letters`. `wanted`: the
 * true extents of axes that blocks may have rounded up, -1 where the shape says it; NULL: all by
 * the shape. */
int dn_view_layout(struct dn_build *build, const char *name, const char *layout,
                   const char *letters, const struct dn_tensor *tensor, const int64_t *wanted,
                   struct dn_view *out);

/* The descriptor of the tensor's row-major bytes under the view. */
const dn_md *dn_view_md(struct dn_build *build, const struct dn_view *view,
                        const struct dn_tensor *tensor);
/* Look at an operand (md of the graph's dimensions) through the view. */
int dn_view_apply(struct dn_build *build, const struct dn_view *view, struct dn_operand *operand);
/* The graph's dimensions again of a descriptor under the view; NULL without an error where that
 * is impossible. */
int dn_view_undo(struct dn_build *build, const struct dn_view *view, const dn_md *md,
                 const dn_md **out);

#endif
