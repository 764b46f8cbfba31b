#include "base/byte_order.h"

#include <mblob.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/tensor_check.h"

/* Bytes that are turned around together; 1 if there is nothing to turn. */
static size_t turned(DLDataType dtype) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  (void)dtype;
  return 1;
#else
  size_t bits = dtype.code == kDLComplex ? dtype.bits / 2 : dtype.bits; /* two numbers */
  return bits % 8 == 0 && bits ? bits / 8 : 1;
#endif
}

static void turn(uint8_t *to, const uint8_t *from, size_t size, size_t unit) {
  for (size_t i = 0; i < size; i++) to[i] = from[i - i % unit + (unit - 1 - i % unit)];
}

void mb_write_elements(FILE *out, const void *data, size_t size, DLDataType dtype) {
  uint8_t part[4096];
  const uint8_t *from = data;
  size_t unit = turned(dtype), most = sizeof(part) / unit * unit;
  if (unit == 1) {
    if (size) (void)fwrite(data, 1, size, out);
    return;
  }
  for (size_t at = 0; at < size; at += most) {
    size_t n = size - at < most ? size - at : most;
    turn(part, from + at, n, unit);
    (void)fwrite(part, 1, n, out);
  }
}

int mb_view_in_host_order(DLTensor *view, uint64_t size) {
  const size_t align = MB_TENSOR_ALIGNMENT;
  if (turned(view->dtype) == 1 || !size) return MBLOB_OK;
  size_t shape = (size_t)view->ndim * sizeof(int64_t), start = (shape + align - 1) / align * align;
  if (size > PTRDIFF_MAX - start - align) return mb_fail_memory(PTRDIFF_MAX);
  size_t all = (start + (size_t)size + align - 1) / align * align;
  uint8_t *block = aligned_alloc(align, all);
  if (!block) return mb_fail_memory(all);
  if (shape) memcpy(block, view->shape, shape);
  turn(block + start, view->data, (size_t)size, turned(view->dtype));
  free(view->shape);
  view->shape = (int64_t *)(void *)block;
  view->data = block + start;
  return MBLOB_OK;
}
