#include "base/tensor_check.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/texts.h"

int mb_shape_check(const int64_t *shape, int ndim) {
  if (ndim < 0 || ndim > MB_NDIM_LIMIT)
    return mb_fail(MBLOB_E_ARGUMENT, "ndim is %d, expected 0 to %d", ndim, MB_NDIM_LIMIT);
  if (ndim && !shape) return mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_SHAPE_IS_NULL, ndim);
  for (int i = 0; i < ndim; i++)
    if (shape[i] < 0)
      return mb_fail(MBLOB_E_ARGUMENT, "shape[%d] is %lld, expected at least 0", i,
                     (long long)shape[i]);
  return MBLOB_OK;
}

int mb_tensor_size(const DLTensor *t, size_t *out) {
  size_t size = ((size_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
  bool empty = false, large = false;
  int status = mb_shape_check(t->shape, t->ndim);
  for (int32_t i = 0; !status && i < t->ndim; i++) {
    empty |= t->shape[i] == 0;
    large |=
        __builtin_mul_overflow(size, t->shape[i], &size); /* exact, also where size_t is narrower */
  }
  if (!status && !empty && (large || size > PTRDIFF_MAX))
    status =
        mb_fail(MBLOB_E_ARGUMENT, "the shape is impossible: it has more bytes than memory can");
  *out = empty ? 0 : size;
  return status;
}

const char *mb_shape_text(const DLTensor *t, char text[MB_SHAPE_TEXT]) {
  size_t used = 1;
  text[0] = '[';
  for (int32_t i = 0; i < t->ndim; i++) {
    if (used > MB_SHAPE_TEXT - 32) {
      used += (size_t)snprintf(text + used, MB_SHAPE_TEXT - used, ",...");
      break;
    }
    used += (size_t)snprintf(text + used, MB_SHAPE_TEXT - used, "%s%lld", i ? "," : "",
                             (long long)t->shape[i]);
  }
  (void)snprintf(text + used, MB_SHAPE_TEXT - used, "]");
  return text;
}

int mb_tensor_match(const char *what, const DLTensor *expected, const DLTensor *given) {
  char want[MB_DTYPE_TEXT], have[MB_DTYPE_TEXT], want_shape[MB_SHAPE_TEXT],
      have_shape[MB_SHAPE_TEXT];
  if (!mb_dtype_takes(expected->dtype, given->dtype))
    return mb_fail_argument(MB_ARGUMENT_DTYPE, "%s: " MB_TEXT_DTYPE, what,
                            mb_dtype_text(expected->dtype, want),
                            mb_dtype_text(given->dtype, have));
  if (expected->ndim != given->ndim ||
      (given->ndim &&
       memcmp(expected->shape, given->shape, (size_t)given->ndim * sizeof(int64_t)) != 0))
    return mb_fail(MBLOB_E_ARGUMENT, "%s: " MB_TEXT_SHAPE, what,
                   mb_shape_text(expected, want_shape), mb_shape_text(given, have_shape));
  return MBLOB_OK;
}
