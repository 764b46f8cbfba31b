/* compact.h - whether the elements of a tensor lie as C has them, row after row. For the runtime and its plug-ins. */
#ifndef MB_COMPACT_H
#define MB_COMPACT_H

#include <dlpack/dlpack.h>
#include <stdbool.h>

/* The innermost axis whose stride is another than compact rows have, -1 if there is none; *expected: which those have.
 * Strides of extents 0 and 1 say nothing. */
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

#endif
