/* Functions of the ffi dialect that tell, as text, what they are given. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "abi.h"

#define FUNCTION(name)                                                                           \
  int __tvm_ffi_##name(void *self, const struct mb_any *args, int32_t n, struct mb_any *result); \
  int __tvm_ffi_##name(void *self, const struct mb_any *args, int32_t n, struct mb_any *result)

int TVMFFIAnyViewToOwnedAny(const struct mb_any *view, struct mb_any *out);
int TVMFFIFunctionCall(void *function, const struct mb_any *args, int32_t n, struct mb_any *result);
int TVMFFIStringFromByteArray(const struct mb_text *text, struct mb_any *out);
int TVMFFIObjectDecRef(void *object);

struct items {
  const struct mb_any *at;
  int64_t count, room;
  void *deleter;
};

static const void *cell(const void *object) { return (const char *)object + 24; }

static void put_text(FILE *out, const char *kind, const char *data, size_t size) {
  (void)fprintf(out, "%s(", kind);
  for (size_t i = 0; i < size; i++) data[i] ? (void)fputc(data[i], out) : (void)fputs("\\0", out);
  (void)fputs(")", out);
}

static void put(FILE *out, const struct mb_any *any) {
  const struct mb_text *text = any->type >= 64 ? cell(any->u.pointer) : NULL;
  switch (any->type) {
    case MB_ANY_INT: (void)fprintf(out, "int(%lld)", (long long)any->u.i64); return;
    case MB_ANY_BOOL: (void)fprintf(out, "bool(%lld)", (long long)any->u.i64); return;
    case MB_ANY_FLOAT: (void)fprintf(out, "float(%g)", any->u.f64); return;
    case MB_ANY_DTYPE:
      (void)fprintf(out, "dtype(%d,%d,%d)", any->u.dtype.code, any->u.dtype.bits,
                    any->u.dtype.lanes);
      return;
    case MB_ANY_DEVICE:
      (void)fprintf(out, "device(%d,%d)", (int)any->u.device.device_type, any->u.device.device_id);
      return;
    case MB_ANY_C_STRING: (void)fprintf(out, "str(%s)", (const char *)any->u.pointer); return;
    case MB_ANY_BYTES_VIEW:
      text = any->u.pointer;
      put_text(out, "bytes", text->data, text->size);
      return;
    case MB_ANY_SMALL_STRING: put_text(out, "str", any->u.text, any->size); return;
    case MB_ANY_SMALL_BYTES: put_text(out, "bytes", any->u.text, any->size); return;
    case MB_ANY_STRING: put_text(out, "str", text->data, text->size); return;
    case MB_ANY_BYTES: put_text(out, "bytes", text->data, text->size); return;
    case MB_ANY_ARRAY: {
      const struct items *items = cell(any->u.pointer);
      (void)fputs("[", out);
      for (int64_t i = 0; i < items->count; i++) put(out, items->at + i);
      (void)fputs("]", out);
      return;
    }
    default: (void)fprintf(out, "%d", any->type);
  }
}

FUNCTION(kinds) {
  char *data = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&data, &size);
  (void)self;
  for (int32_t i = 0; i < n; i++) put(out, args + i);
  (void)fclose(out);
  const struct mb_text text = {data, size};
  int rc = TVMFFIStringFromByteArray(&text, result);
  free(data);
  return rc;
}

FUNCTION(echo) {
  (void)self;
  return n == 1 ? TVMFFIAnyViewToOwnedAny(args, result) : -1;
}

/* What args[0] returns for the others: the value, or its kind. */
FUNCTION(call) {
  (void)self;
  return TVMFFIFunctionCall(args[0].u.pointer, args + 1, n - 1, result);
}

FUNCTION(kind_of_result) {
  struct mb_any found = {.type = MB_ANY_NONE};
  if (__tvm_ffi_call(self, args, n, &found)) return -1;
  int rc = __tvm_ffi_kinds(self, &found, 1, result);
  if (found.type >= MB_ANY_OBJECT) (void)TVMFFIObjectDecRef(found.u.pointer);
  return rc;
}

/* Adds one to the floats of the tensors in an array. How far the worst aligned of them is from a
 * multiple of 64. */
FUNCTION(bump) {
  const struct items *items = cell(args[0].u.pointer);
  (void)self, (void)n;
  *result = (struct mb_any){.type = MB_ANY_INT};
  for (int64_t i = 0; i < items->count; i++) {
    const DLTensor *tensor = cell(items->at[i].u.pointer);
    result->u.i64 |= (int64_t)((uintptr_t)tensor->data % 64);
    for (int64_t k = 0; k < tensor->shape[0]; k++) ((float *)tensor->data)[k] += 1;
  }
  return 0;
}
