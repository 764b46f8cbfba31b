#define _GNU_SOURCE
#include "graph/parameter_bytes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/tensors.h"

#define PARAMS_MAGIC UINT64_C(0xF7E58D4F05049CB7)
#define NDARRAY_MAGIC UINT64_C(0xDD5E40F096B4A13F)

static void put(FILE *out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) (void)fputc((int)(value >> (8 * i) & 0xFF), out);
}

static void put_array(FILE *out, const DLTensor *t) {
  size_t size = 0;
  put(out, NDARRAY_MAGIC, 8);
  put(out, 0, 8);
  put(out, kDLCPU, 4);
  put(out, 0, 4);
  put(out, (uint64_t)t->ndim, 4);
  put(out, t->dtype.code, 1);
  put(out, t->dtype.bits, 1);
  put(out, t->dtype.lanes, 2);
  for (int32_t i = 0; i < t->ndim; i++) put(out, (uint64_t)t->shape[i], 8);
  (void)mb_tensor_size(t, &size); /* was checked when it was read */
  put(out, size, 8);
  if (size) (void)fwrite(t->data, 1, size, out);
}

char *mb_parameter_bytes(const struct mb_stored_arrays *arrays, size_t *size) {
  char *bytes = NULL;
  FILE *out = open_memstream(&bytes, size);
  if (!out) return NULL;
  put(out, PARAMS_MAGIC, 8);
  put(out, 0, 8);
  put(out, arrays->count, 8);
  for (size_t i = 0; i < arrays->count; i++) {
    put(out, strlen(arrays->items[i].name), 8);
    (void)fputs(arrays->items[i].name, out);
  }
  put(out, arrays->count, 8);
  for (size_t i = 0; i < arrays->count; i++) put_array(out, &arrays->items[i].view);
  bool failed = ferror(out) != 0;
  if (fclose(out) || failed) {
    free(bytes);
    return NULL;
  }
  return bytes;
}
