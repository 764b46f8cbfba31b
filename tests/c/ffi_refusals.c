/* What libmblob-ffi refuses of its callers: objects of another kind, tensors that describe
 * nothing. Prints each error. */
#include <dlpack/dlpack.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"

void TVMFFIErrorMoveFromRaised(void **out);
void TVMFFIErrorSetRaised(void *error);
int TVMFFIObjectCreateOpaque(void *handle, int32_t type, void (*deleter)(void *handle), void **out);
int TVMFFIObjectDecRef(void *object);
int TVMFFIStringFromByteArray(const struct mb_text *from, struct mb_any *out);
int TVMFFITensorCreateUnsafeView(void *source, const DLTensor *like, void **out);
int TVMFFITensorFromDLPack(DLManagedTensor *from, int32_t alignment, int32_t contiguous,
                           void **out);
int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned *from, int32_t alignment,
                                    int32_t contiguous, void **out);

static int failed;

/* The error that was left: its kind and text start the cell behind a header of 24 bytes. */
static void says(const char *what, int rc) {
  char *error = NULL;
  TVMFFIErrorMoveFromRaised((void **)&error);
  if (!rc || !error) {
    printf("%s: no error\n", what);
    failed = 1;
    return;
  }
  struct mb_text cell[2];
  memcpy(cell, error + 24, sizeof(cell));
  printf("%s: %.*s\n", what, (int)cell[1].size, cell[1].data);
  TVMFFIObjectDecRef(error);
}

int main(void) {
  static int64_t shape[2] = {2, 3}, negative[2] = {2, -3}, huge[2] = {INT64_C(1) << 62, 4};
  static float data[6];
  const DLTensor good = {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  const struct mb_text text = {"a text that is an object", 24};
  struct mb_any string = {.type = MB_ANY_NONE};
  void *out = NULL;
  if (TVMFFIStringFromByteArray(&text, &string)) return 1;

  TVMFFIErrorSetRaised(string.u.pointer);
  says("raised", -1);
  says("opaque", TVMFFIObjectCreateOpaque(data, MB_ANY_TENSOR, NULL, &out));
  says("opaque", TVMFFIObjectCreateOpaque(data, -1, NULL, &out));

  const struct {
    const char *name;
    DLTensor tensor;
  } bad[] = {
      {"no shape", {data, good.device, 1, good.dtype, NULL, NULL, 0}},
      {"-1", {data, good.device, -1, good.dtype, shape, NULL, 0}},
      {"INT_MIN", {data, good.device, INT_MIN, good.dtype, shape, NULL, 0}},
      {"INT_MAX", {data, good.device, INT_MAX, good.dtype, shape, NULL, 0}},
      {"negative", {data, good.device, 2, good.dtype, negative, NULL, 0}},
      {"huge", {data, good.device, 2, good.dtype, huge, NULL, 0}},
      {"no data", {NULL, good.device, 2, good.dtype, shape, NULL, 0}},
      {"far", {data, good.device, 2, good.dtype, shape, NULL, UINT64_C(1) << 63}},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
    for (int contiguous = 0; contiguous < 2; contiguous++) {
      DLManagedTensor managed = {bad[i].tensor, NULL, NULL};
      DLManagedTensorVersioned versioned = {.version = {1, 0}, .dl_tensor = bad[i].tensor};
      says(bad[i].name, TVMFFITensorFromDLPack(&managed, 0, contiguous, &out));
      says(bad[i].name, TVMFFITensorFromDLPackVersioned(&versioned, 0, contiguous, &out));
      says(bad[i].name, TVMFFITensorCreateUnsafeView(string.u.pointer, &bad[i].tensor, &out));
    }
  DLManagedTensorVersioned versioned = {.version = {77, 0}, .dl_tensor = good};
  says("version", TVMFFITensorFromDLPackVersioned(&versioned, 0, 0, &out));
  versioned.version.major = 1;
  versioned.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  says("padded", TVMFFITensorFromDLPackVersioned(&versioned, 0, 0, &out));
  versioned.flags = 0;
  if (TVMFFITensorFromDLPackVersioned(&versioned, 0, 1, &out) || TVMFFIObjectDecRef(out)) return 1;
  return failed || TVMFFIObjectDecRef(string.u.pointer);
}
