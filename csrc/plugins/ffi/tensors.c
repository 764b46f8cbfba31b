#include "tensors.h"

#include <stdlib.h>

#include "base/base.h"
#include "common.h"
#include "errors.h"
#include "values.h"

#define ERA MB_ERA_0_22 /* 0.21 has none of these functions for kernels */

static void *null_argument(const char *function) {
  (void)mb_fail(MBLOB_E_ARGUMENT, "%s: an argument is NULL", function);
  return NULL;
}

static int no_place(const char *function) {
  (void)null_argument(function);
  return mb_error_raise_last();
}

static int finish(void *object, void **out) {
  *out = object;
  return object ? 0 : mb_error_raise_last();
}

/* ---- from DLPack ----------------------------------------------------------------------------- */

static void *import(const DLTensor *tensor, int32_t alignment, int32_t contiguous, void *owner, void (*release)(void *owner)) {
  uintptr_t at = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
  if (alignment > 1 && at % (uintptr_t)alignment != 0) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "tensor from DLPack: its data is not aligned to %d bytes", alignment);
    return NULL;
  }
  if (contiguous && !mb_is_compact(tensor)) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "tensor from DLPack: its rows are not contiguous");
    return NULL;
  }
  return mb_object_tensor(ERA, tensor, owner, release);
}

static void release_managed(void *owner) {
  DLManagedTensor *managed = owner;
  if (managed->deleter) managed->deleter(managed);
}

static void release_versioned(void *owner) {
  DLManagedTensorVersioned *managed = owner;
  if (managed->deleter) managed->deleter(managed);
}

int mb_tensor_from_dlpack(DLManagedTensor *from, int32_t alignment, int32_t contiguous, void **out) {
  if (!out) return no_place("TVMFFITensorFromDLPack");
  return finish(from ? import(&from->dl_tensor, alignment, contiguous, from, release_managed) : null_argument("TVMFFITensorFromDLPack"),
                out);
}

int mb_tensor_from_dlpack_versioned(DLManagedTensorVersioned *from, int32_t alignment, int32_t contiguous, void **out) {
  if (!out) return no_place("TVMFFITensorFromDLPackVersioned");
  static const char name[] = "TVMFFITensorFromDLPackVersioned";
  return finish(from ? import(&from->dl_tensor, alignment, contiguous, from, release_versioned) : null_argument(name), out);
}

/* ---- to DLPack ------------------------------------------------------------------------------- */

static void delete_managed(DLManagedTensor *managed) {
  mb_object_release(ERA, managed->manager_ctx);
  free(managed);
}

static void delete_versioned(DLManagedTensorVersioned *managed) {
  mb_object_release(ERA, managed->manager_ctx);
  free(managed);
}

static const DLTensor *tensor_of(void *object, const char *function) {
  if (object && mb_object_type(ERA, object) == MB_ANY_TENSOR) return mb_object_cell(ERA, object);
  (void)mb_fail(MBLOB_E_ARGUMENT, "%s: expected a tensor", function);
  return NULL;
}

int mb_tensor_to_dlpack(void *object, DLManagedTensor **out) {
  if (!out) return no_place("TVMFFITensorToDLPack");
  const DLTensor *tensor = tensor_of(object, "TVMFFITensorToDLPack");
  *out = tensor ? malloc(sizeof(**out)) : NULL;
  if (tensor && !*out) (void)mb_fail_memory(sizeof(**out));
  if (!*out) return mb_error_raise_last();
  **out = (DLManagedTensor){*tensor, object, delete_managed};
  mb_object_retain(ERA, object);
  return 0;
}

int mb_tensor_to_dlpack_versioned(void *object, DLManagedTensorVersioned **out) {
  if (!out) return no_place("TVMFFITensorToDLPackVersioned");
  const DLTensor *tensor = tensor_of(object, "TVMFFITensorToDLPackVersioned");
  *out = tensor ? calloc(1, sizeof(**out)) : NULL;
  if (tensor && !*out) (void)mb_fail_memory(sizeof(**out));
  if (!*out) return mb_error_raise_last();
  (*out)->version = (DLPackVersion){1, 0};
  (*out)->manager_ctx = object;
  (*out)->deleter = delete_versioned;
  (*out)->dl_tensor = *tensor;
  mb_object_retain(ERA, object);
  return 0;
}

/* ---- others ---------------------------------------------------------------------------------- */

static void release_object(void *object) { mb_object_release(ERA, object); }

int mb_tensor_view(void *source, const DLTensor *like, void **out) {
  if (!out) return no_place("TVMFFITensorCreateUnsafeView");
  void *object = source && like ? mb_object_tensor(ERA, like, source, release_object)
                                : null_argument("TVMFFITensorCreateUnsafeView");
  if (object) mb_object_retain(ERA, source);
  return finish(object, out);
}

int mb_tensor_allocate(const DLTensor *like, void **out) {
  if (!out) return no_place("TVMFFIEnvTensorAlloc");
  union {
    void *address;
    int (*call)(const int64_t *shape, int ndim, int code, int bits, int lanes, int device_type, int device_id, TVMArrayHandle *out);
  } allocate = {mb_plugin_host()->symbol("TVMArrayAlloc")};
  TVMArrayHandle array = NULL;
  struct mb_any any = {.type = MB_ANY_NONE};
  *out = NULL;
  if (!like) (void)null_argument("TVMFFIEnvTensorAlloc");
  const DLDataType dtype = like ? mb_dtype_of_runtime(ERA, like->dtype) : (DLDataType){0, 0, 0};
  if (like && allocate.address && !allocate.call(like->shape, like->ndim, dtype.code, dtype.bits, dtype.lanes,
                             (int)like->device.device_type, like->device.device_id, &array)) {
    if (!mb_any_of_value(ERA, (TVMValue){.v_handle = array}, kTVMNDArrayHandle, false, &any)) *out = any.u.pointer;
    mb_plugin_host()->array_release(array);
  }
  return *out ? 0 : mb_error_raise_last();
}
