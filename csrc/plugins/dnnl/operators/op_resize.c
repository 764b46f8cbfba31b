/* op_resize.c - images of another size (resize2d and its siblings of one and three axes).
 *
 * oneDNN asks for the middle of a point: half_pixel of TVM and ONNX. The nearest point is the one
 * of `asymmetric`, too, where each extent grows by a whole factor; other ways are refused. */
#include <string.h>

#include "common.h"
#include "operators.h"

#define LETTERS "NCDHW"
static const char *const layouts[] = {"NCW", "NCHW", "NCDHW"};

static int read_method(struct dn_build *build, bool *nearest) {
  const char *method, *mode;
  int status = dn_get_text(build->graph, build->node, "method", &method);
  if (status ||
      (status = dn_get_text(build->graph, build->node, "coordinate_transformation_mode", &mode)))
    return status;
  *nearest = !strcmp(method, "nearest_neighbor");
  if ((*nearest && (!strcmp(mode, "asymmetric") || !strcmp(mode, "half_pixel"))) ||
      (!strcmp(method, "linear") && !strcmp(mode, "half_pixel")))
    return MBLOB_OK;
  return dn_fail_build(build, MBLOB_E_KERNEL,
                       "oneDNN does not resize by method `%s`, coordinates `%s`", method, mode);
}

int dn_resize(struct dn_build *build) {
  const struct dn_tensor *result = &build->graph->tensors[build->node->first_tensor];
  const char *layout;
  bool nearest;
  struct dn_operation op = {.problem = {.kind = DN_RESAMPLING}};
  struct dn_view src, dst;
  int status = read_method(build, &nearest);
  if (status ||
      (status = dn_get_layout(build->graph, build->node, "layout", 0, layouts, &layout)) ||
      (status = dn_input(build, 0, &op.src)) ||
      (status = dn_view_layout(build, "layout", layout, LETTERS,
                               &build->graph->tensors[op.src.tensor], NULL, &src)) ||
      (status = dn_view_layout(build, "layout", layout, LETTERS, result, NULL, &dst)))
    return status;
  bool fits = src.rank == dst.rank && src.rank >= 3 && src.rank <= 5 &&
              !memcmp(src.dims, dst.dims, 2 * sizeof(*src.dims));
  for (int i = 2; i < src.rank && fits && nearest; ++i)
    fits = src.dims[i] && dst.dims[i] % src.dims[i] == 0;
  if (!fits)
    return dn_fail_build(
        build, MBLOB_E_KERNEL,
        "data and result differ in more than whole factors of 1 to 3 spatial axes");
  op.problem.algorithm = nearest ? DN_RESAMPLING_NEAREST : DN_RESAMPLING_LINEAR;
  op.dst_view = &dst;
  if ((status = dn_view_apply(build, &src, &op.src))) return status;
  op.problem.dst = dn_any_md(build, dst.rank, dst.dims, dst.type);
  return op.problem.dst ? dn_build_operation(build, &op) : MBLOB_E_KERNEL;
}
