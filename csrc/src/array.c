/* Counted tensors, in the memory of any device, and TVM's C API for them. */
#define _GNU_SOURCE
#include "array.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "device/device.h"
#include "error.h"

#define NDIM_LIMIT 64

struct array {
  DLTensor view; /* first: a handle points here */
  atomic_size_t references;
  void (*release)(void *owner); /* gives back whose memory it is; NULL for own memory */
  void *owner;
  int64_t shape[];
};

static int result(int status) { return status ? -1 : 0; }

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

/* ---- sizes --------------------------------------------------------------------------------------------- */

bool mb_data_size(const DLTensor *t, size_t *out) {
  size_t size = ((size_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] < 0 || __builtin_mul_overflow(size, (size_t)t->shape[i], &size)) {
      (void)mb_fail(MBLOB_E_ARGUMENT, "array: dimension %d of %lld is impossible", i, (long long)t->shape[i]);
      return false;
    }
  *out = size;
  return true;
}

static bool is_compact(const DLTensor *t) {
  int64_t expected = 1;
  for (int32_t i = t->ndim; t->strides && i-- > 0; expected *= t->shape[i])
    if (t->shape[i] != 1 && t->strides[i] != expected) return false;
  return true;
}

static bool is_copyable(const DLTensor *t) {
  if (is_compact(t)) return true;
  (void)mb_fail(MBLOB_E_ARGUMENT, "array: its strides are not compact");
  return false;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static int new_array(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, struct array **out) {
  if (ndim < 0 || ndim > NDIM_LIMIT || (ndim && !shape))
    return mb_fail(MBLOB_E_ARGUMENT, "array: %d dimensions, expected 0 to %d", ndim, NDIM_LIMIT);
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
  if (!mb_data_size(&array->view, &size)) return MBLOB_E_ARGUMENT;
  return mb_device_allocate(array->view.device, size, 0, &array->view.data);
}

int TVMArrayAlloc(const tvm_index_t *shape, int ndim, int dtype_code, int dtype_bits, int dtype_lanes,
                  int device_type, int device_id, TVMArrayHandle *out) {
  DLDataType dtype = {(uint8_t)dtype_code, (uint8_t)dtype_bits, (uint16_t)dtype_lanes};
  DLDevice device = {(DLDeviceType)device_type, device_id};
  struct array *array = NULL;
  if (!out) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMArrayAlloc: out is NULL"));
  *out = NULL;
  int status = mb_device_check(device);
  if (!status) status = new_array(shape, ndim, dtype, device, &array);
  if (!status) status = alloc_data(array);
  if (status)
    free(array);
  else
    *out = &array->view;
  return result(status);
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

static int copy_bytes(const DLTensor *t, size_t nbytes, const DLTensor *from, const DLTensor *to, void *stream) {
  size_t size = 0;
  if (!is_copyable(t) || !mb_data_size(t, &size)) return -1;
  if (size != nbytes)
    return result(mb_fail(MBLOB_E_ARGUMENT, "array: has %zu bytes, the copy %zu", size, nbytes));
  return result(mb_device_copy_tensor(from, to, size, stream));
}

int TVMArrayCopyFromBytes(TVMArrayHandle handle, void *data, size_t nbytes) {
  if (!handle || (!data && nbytes)) return result(mb_fail(MBLOB_E_ARGUMENT, "array: nothing to copy"));
  const DLTensor host = host_bytes(data);
  return copy_bytes(handle, nbytes, &host, handle, NULL);
}

int TVMArrayCopyToBytes(TVMArrayHandle handle, void *data, size_t nbytes) {
  if (!handle || (!data && nbytes)) return result(mb_fail(MBLOB_E_ARGUMENT, "array: nothing to copy"));
  const DLTensor host = host_bytes(data);
  return copy_bytes(handle, nbytes, handle, &host, NULL);
}

int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to, TVMStreamHandle stream) {
  size_t from_size = 0;
  if (!from || !to) return result(mb_fail(MBLOB_E_ARGUMENT, "array: nothing to copy"));
  if (!is_copyable(from) || !mb_data_size(from, &from_size)) return -1;
  return copy_bytes(to, from_size, from, to, stream);
}

/* ---- DLPack ---------------------------------------------------------------------------------- */

static void release_import(void *owner) { TVMDLManagedTensorCallDeleter(owner); }

int TVMArrayFromDLPack(DLManagedTensor *from, TVMArrayHandle *out) {
  if (!from || !out) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMArrayFromDLPack: an argument is NULL"));
  *out = NULL;
  if (!is_copyable(&from->dl_tensor) || mb_device_check(from->dl_tensor.device)) return -1;
  return result(mb_array_view(&from->dl_tensor, from, release_import, out));
}

static void release_export(DLManagedTensor *exported) {
  mb_array_release(exported->manager_ctx);
  free(exported);
}

int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor **out) {
  if (!from || !out) return result(mb_fail(MBLOB_E_ARGUMENT, "TVMArrayToDLPack: an argument is NULL"));
  *out = calloc(1, sizeof(**out));
  if (!*out) return result(mb_fail_memory(sizeof(**out)));
  **out = (DLManagedTensor){*from, from, release_export};
  mb_array_retain(from);
  return 0;
}

void TVMDLManagedTensorCallDeleter(DLManagedTensor *tensor) {
  if (tensor && tensor->deleter) tensor->deleter(tensor);
}
