#include "tensors.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/base.h"
#include "common.h"
#include "errors.h"
#include "values.h"

#define TENSOR_NDIM_LIMIT 64
#define RELEASES MB_RELEASES_0_22 /* 0.21 has none of these functions for kernels */

static void *null_argument(const char *function) {
  (void)mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_IS_NULL, function);
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

/* True if what somebody else wrote describes a tensor: what is made of it reads its shape, and
 * multiplies. */
static bool is_described(const DLTensor *t) {
  size_t size = ((size_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
  bool empty = false, large = false;
  if (t->ndim < 0 || t->ndim > TENSOR_NDIM_LIMIT)
    return mb_fail(MBLOB_E_ARGUMENT, "tensor: " MB_TEXT_NDIM, (int)t->ndim, TENSOR_NDIM_LIMIT),
           false;
  if (t->ndim && !t->shape)
    return mb_fail(MBLOB_E_ARGUMENT, "tensor: " MB_TEXT_SHAPE_IS_NULL, (int)t->ndim), false;
  for (int32_t i = 0; i < t->ndim; i++) {
    if (t->shape[i] < 0)
      return mb_fail(MBLOB_E_ARGUMENT, "tensor: shape[%d] is %lld", (int)i, (long long)t->shape[i]),
             false;
    empty |= t->shape[i] == 0;
    large |= __builtin_mul_overflow(size, (uint64_t)t->shape[i], &size);
  }
  if (empty) return true;
  if (large || size > PTRDIFF_MAX || t->byte_offset > PTRDIFF_MAX)
    return mb_fail(MBLOB_E_ARGUMENT,
                   "tensor: it has more bytes than memory can, or lies outside of it"),
           false;
  return t->data || !size ||
         (mb_fail(MBLOB_E_ARGUMENT, "tensor: " MB_TEXT_DATA_IS_NULL, size), false);
}

static void *import(const DLTensor *tensor, int32_t alignment, int32_t contiguous, void *owner,
                    void (*release)(void *owner)) {
  if (!is_described(tensor)) return NULL;
  uintptr_t at = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
  if (alignment > 1 && at % (uintptr_t)alignment != 0) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "tensor from DLPack: " MB_TEXT_NOT_ALIGNED, alignment);
    return NULL;
  }
  if (contiguous && !mb_is_compact(tensor)) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "tensor from DLPack: its rows are not contiguous");
    return NULL;
  }
  return mb_object_tensor(RELEASES, tensor, owner, release);
}

static void release_managed(void *owner) {
  DLManagedTensor *managed = owner;
  if (managed->deleter) managed->deleter(managed);
}

static void release_versioned(void *owner) {
  DLManagedTensorVersioned *managed = owner;
  if (managed->deleter) managed->deleter(managed);
}

int mb_tensor_from_dlpack(DLManagedTensor *from, int32_t alignment, int32_t contiguous,
                          void **out) {
  if (!out) return no_place("TVMFFITensorFromDLPack");
  return finish(from ? import(&from->dl_tensor, alignment, contiguous, from, release_managed)
                     : null_argument("TVMFFITensorFromDLPack"),
                out);
}

int mb_tensor_from_dlpack_versioned(DLManagedTensorVersioned *from, int32_t alignment,
                                    int32_t contiguous, void **out) {
  if (!out) return no_place("TVMFFITensorFromDLPackVersioned");
  static const char name[] = "TVMFFITensorFromDLPackVersioned";
  void *object = NULL;
  if (!from)
    (void)null_argument(name);
  else if (from->version.major != DLPACK_MAJOR_VERSION)
    (void)mb_fail(MBLOB_E_ARGUMENT, "%s: " MB_TEXT_DLPACK_VERSION, name,
                  (unsigned)from->version.major, DLPACK_MAJOR_VERSION);
  else if (from->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED)
    (void)mb_fail(MBLOB_E_ARGUMENT, "%s: " MB_TEXT_DLPACK_PADDED, name);
  else
    object = import(&from->dl_tensor, alignment, contiguous, from, release_versioned);
  return finish(object, out);
}

/* ---- to DLPack ------------------------------------------------------------------------------- */

static void delete_managed(DLManagedTensor *managed) {
  mb_ffi_object_release(RELEASES, managed->manager_ctx);
  free(managed);
}

static void delete_versioned(DLManagedTensorVersioned *managed) {
  mb_ffi_object_release(RELEASES, managed->manager_ctx);
  free(managed);
}

static const DLTensor *tensor_of(void *object, const char *function) {
  if (object && mb_ffi_object_type(RELEASES, object) == MB_ANY_TENSOR)
    return mb_object_cell(RELEASES, object);
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
  mb_ffi_object_retain(RELEASES, object);
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
  mb_ffi_object_retain(RELEASES, object);
  return 0;
}

/* ---- others ---------------------------------------------------------------------------------- */

static void release_object(void *object) { mb_ffi_object_release(RELEASES, object); }

int mb_tensor_view(void *source, const DLTensor *like, void **out) {
  if (!out) return no_place("TVMFFITensorCreateUnsafeView");
  void *object = NULL;
  if (!source || !like)
    (void)null_argument("TVMFFITensorCreateUnsafeView");
  else if (is_described(like))
    object = mb_object_tensor(RELEASES, like, source, release_object);
  if (object) mb_ffi_object_retain(RELEASES, source);
  return finish(object, out);
}

static __thread mb_tensor_allocator thread_allocator;
static _Atomic(mb_tensor_allocator) process_allocator;

int mb_tensor_set_allocator(mb_tensor_allocator allocator, int everywhere,
                            mb_tensor_allocator *before) {
  if (before) *before = thread_allocator;
  if (everywhere) atomic_store(&process_allocator, allocator);
  thread_allocator = allocator;
  return 0;
}

mb_tensor_allocator mb_tensor_get_allocator(void) {
  return thread_allocator ? thread_allocator : atomic_load(&process_allocator);
}

static void keep_allocator_error(void *context, const char *kind, const char *message) {
  (void)context;
  (void)mb_fail(MBLOB_E_KERNEL, "%s: %s", kind ? kind : "RuntimeError", message ? message : "");
}

static int allocate_by(mb_tensor_allocator allocator, const DLTensor *like, void **out) {
  DLManagedTensorVersioned *made = NULL;
  const uint64_t before = mb_plugin_host()->error_count();
  const int rc = allocator(like, &made, NULL, keep_allocator_error);
  if (!rc && made) return mb_tensor_from_dlpack_versioned(made, 0, 0, out);
  if (mb_plugin_host()->error_count() == before)
    (void)mb_fail(MBLOB_E_KERNEL, "TVMFFIEnvTensorAlloc: the allocator returned %d and no tensor",
                  rc);
  return mb_error_raise_last();
}

int mb_tensor_allocate(const DLTensor *like, void **out) {
  if (!out) return no_place("TVMFFIEnvTensorAlloc");
  *out = NULL;
  const mb_tensor_allocator allocator = mb_tensor_get_allocator();
  if (like && allocator) return allocate_by(allocator, like, out);
  union {
    void *address;
    int (*call)(const int64_t *shape, int ndim, int code, int bits, int lanes, int device_type,
                int device_id, TVMArrayHandle *out);
  } allocate = {mb_plugin_host()->symbol("TVMArrayAlloc")};
  TVMArrayHandle array = NULL;
  struct mb_any any = {.type = MB_ANY_NONE};
  if (!like) (void)null_argument("TVMFFIEnvTensorAlloc");
  const DLDataType dtype =
      like ? mb_dtype_of_runtime(RELEASES, like->dtype) : (DLDataType){0, 0, 0};
  if (like && allocate.address &&
      !allocate.call(like->shape, like->ndim, dtype.code, dtype.bits, dtype.lanes,
                     (int)like->device.device_type, like->device.device_id, &array)) {
    if (!mb_any_of_value(RELEASES, (TVMValue){.v_handle = array}, kTVMNDArrayHandle, false, &any))
      *out = any.u.pointer;
    mb_plugin_host()->array_release(array);
  }
  return *out ? 0 : mb_error_raise_last();
}
