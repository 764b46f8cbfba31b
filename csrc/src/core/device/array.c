/* Counted tensors, in the memory of any device, and TVM's C API for them. */
#define _GNU_SOURCE
#include "core/device/array.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "core/argument.h"
#include "core/device/device.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/tensor_check.h"

struct array {
  DLTensor view; /* first: a handle points here */
  atomic_size_t references;
  void (*release)(void *owner); /* gives back whose memory it is; NULL for own memory */
  void *owner;
  int64_t shape[];
};

static struct array *array_of(DLTensor *handle) { return (struct array *)(void *)handle; }

void mb_array_retain(DLTensor *handle) {
  atomic_fetch_add_explicit(&array_of(handle)->references, 1, memory_order_relaxed);
}

void mb_array_release(DLTensor *handle) {
  struct array *array = array_of(handle);
  if (atomic_fetch_sub_explicit(&array->references, 1, memory_order_acq_rel) != 1) return;
  if (array->release)
    array->release(array->owner);
  else
    (void)mb_device_free(array->view.device, array->view.data);
  free(array);
}

size_t mb_array_references(const DLTensor *handle) {
  return atomic_load(&((const struct array *)(const void *)handle)->references);
}

bool mb_array_is_view(const DLTensor *handle) {
  return ((const struct array *)(const void *)handle)->release != NULL;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static int new_array(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, struct array **out) {
  int status = mb_shape_check(shape, ndim);
  if (status) return status;
  struct array *array = calloc(1, sizeof(*array) + (size_t)ndim * sizeof(int64_t));
  if (!array) return mb_fail_memory(sizeof(*array));
  if (ndim) memcpy(array->shape, shape, (size_t)ndim * sizeof(int64_t));
  array->view = (DLTensor){.device = device, .ndim = ndim, .dtype = dtype, .shape = array->shape};
  atomic_init(&array->references, 1);
  *out = array;
  return MBLOB_OK;
}

static int alloc_data(struct array *array) {
  size_t size = 0;
  int status = mb_tensor_size(&array->view, &size);
  return status ? status : mb_device_allocate(array->view.device, size, 0, &array->view.data);
}

static int allocate(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, DLTensor **out) {
  struct array *array = NULL;
  int status = mb_device_check(device);
  if (!status) status = new_array(shape, ndim, dtype, device, &array);
  if (!status) status = alloc_data(array);
  if (status)
    free(array);
  else
    *out = &array->view;
  return status;
}

int TVMArrayAlloc(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits, int dtype_lanes,
                  int device_type, int device_id, TVMArrayHandle *out) {
  const DLDevice device = {(DLDeviceType)device_type, device_id};
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (!mb_dtype_check(dtype_code, dtype_bits, dtype_lanes)) return mb_named_result(__func__, MBLOB_E_ARGUMENT);
  const DLDataType dtype = {(uint8_t)dtype_code, (uint8_t)dtype_bits, (uint16_t)dtype_lanes};
  return mb_named_result(__func__, allocate(shape, ndim, dtype, device, out));
}

int mb_array_view(const DLTensor *tensor, void *owner, void (*release)(void *owner), DLTensor **out) {
  struct array *array = NULL;
  *out = NULL;
  int status = new_array(tensor->shape, tensor->ndim, tensor->dtype, tensor->device, &array);
  if (status) return status;
  array->view.data = tensor->data;
  array->view.byte_offset = tensor->byte_offset;
  array->owner = owner;
  array->release = release;
  *out = &array->view;
  return MBLOB_OK;
}

int TVMArrayFree(TVMArrayHandle handle) {
  if (handle) mb_array_release(handle);
  return 0;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* Memory of the caller: `nbytes` bytes of the host, as a tensor to copy from or to. */
static DLTensor host_bytes(const void *data) {
  return (DLTensor){.data = (void *)(uintptr_t)data, .device = {kDLCPU, 0}};
}

/* Between `t` and `nbytes` others; the one is `from`, the other `to`. */
static int copy_bytes(const DLTensor *t, size_t nbytes, const DLTensor *from, const DLTensor *to, void *stream) {
  size_t size = 0;
  int status = mb_tensor_check(t, &size);
  if (status) return status;
  if (size != nbytes) return mb_fail(MBLOB_E_ARGUMENT, "the array has %zu bytes, the copy %zu", size, nbytes);
  return mb_device_copy_tensor(from, to, size, stream);
}

int TVMArrayCopyFromBytes(TVMArrayHandle handle, void *data, size_t nbytes) {
  if (MB_IS_NULL(handle) || (nbytes && MB_IS_NULL(data))) return -1;
  const DLTensor host = host_bytes(data);
  return mb_named_result(__func__, copy_bytes(handle, nbytes, &host, handle, NULL));
}

int TVMArrayCopyToBytes(TVMArrayHandle handle, void *data, size_t nbytes) {
  if (MB_IS_NULL(handle) || (nbytes && MB_IS_NULL(data))) return -1;
  const DLTensor host = host_bytes(data);
  return mb_named_result(__func__, copy_bytes(handle, nbytes, handle, &host, NULL));
}

int mb_array_copy(const DLTensor *from, const DLTensor *to, void *stream) {
  size_t size = 0;
  int status = mb_tensor_check(from, &size);
  if (status) {
    mb_error_prefix("from");
    return status;
  }
  status = copy_bytes(to, size, from, to, stream);
  if (status) mb_error_prefix("to");
  return status;
}

int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream) {
  if (MB_IS_NULL(from) || MB_IS_NULL(to)) return -1;
  return mb_named_result(__func__, mb_array_copy(from, to, stream));
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

static void release_import(void *owner) { TVMDLManagedTensorCallDeleter(owner); }

int TVMArrayFromDLPack(DLManagedTensor *from, TVMArrayHandle *out) {
  size_t size = 0;
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(from)) return -1;
  int status = mb_tensor_check(&from->dl_tensor, &size);
  if (!status) status = mb_array_view(&from->dl_tensor, from, release_import, out);
  return mb_named_result(__func__, status);
}

static void release_export(DLManagedTensor *exported) {
  mb_array_release(exported->manager_ctx);
  free(exported);
}

int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor **out) {
  if (MB_IS_NULL(out)) return -1;
  *out = NULL;
  if (MB_IS_NULL(from)) return -1;
  *out = calloc(1, sizeof(**out));
  if (!*out) return mb_named_result(__func__, mb_fail_memory(sizeof(**out)));
  **out = (DLManagedTensor){*from, from, release_export};
  mb_array_retain(from);
  return 0;
}

void TVMDLManagedTensorCallDeleter(DLManagedTensor *tensor) {
  if (tensor && tensor->deleter) tensor->deleter(tensor);
}
