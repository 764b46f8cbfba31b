/* tensor_check.h - what shape, layout and size of a tensor can be: for arrays, executors and
 * plug-ins. */
#ifndef MB_TENSOR_CHECK_H
#define MB_TENSOR_CHECK_H

#include <mblob.h>
#include <stdbool.h>

#include "base/device_types.h"

#define MB_TENSOR_ALIGNMENT \
  128                    /* bytes; what kernels of TVM 0.7 - 0.9 assume, twice that of the others */
#define MB_NDIM_LIMIT 64 /* dimensions of a tensor; TVM has no limit, numpy's is 64 */

/* True if a device type is in a set of base/device_types.h. */
static inline bool mb_is_device_of(uint64_t set, int device_type) {
  return device_type >= 0 && device_type < 64 && (set >> device_type & 1);
}

/* MBLOB_E_ARGUMENT for an impossible number of dimensions, no shape, or a negative extent. */
int mb_shape_check(const int64_t *shape, int ndim);
/* Bytes of compact data, the bits of an element rounded up over all of its lanes.
 * MBLOB_E_ARGUMENT as of mb_shape_check, and for more bytes than there are. */
int mb_tensor_size(const DLTensor *t, size_t *out);
/* The innermost axis whose stride is another than compact rows have, -1 if there is none;
 * *expected: which those have. Strides of extents 0 and 1 say nothing. */
static inline int mb_loose_axis(const DLTensor *t, int64_t *expected) {
  *expected = 1;
  for (int i = t->ndim - 1; t->strides && i >= 0 && t->shape[i]; --i) {
    if (t->shape[i] != 1 && t->strides[i] != *expected) return i;
    if (__builtin_mul_overflow(*expected, t->shape[i], expected)) return i;
  }
  return -1;
}

static inline bool mb_is_compact(const DLTensor *t) {
  int64_t expected;
  return mb_loose_axis(t, &expected) < 0;
}

/* `given` must have dtype and shape of `expected`; the error names `what`. Both were checked. */
int mb_tensor_match(const char *what, const DLTensor *expected, const DLTensor *given);
/* "[1,8,8]"; shortened where it is long. */
#define MB_SHAPE_TEXT 128
const char *mb_shape_text(const DLTensor *t, char text[MB_SHAPE_TEXT]);

#endif
