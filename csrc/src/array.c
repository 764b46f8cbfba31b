/* Counted tensors, in the memory of any device, and TVM's C API for them. */
#define _GNU_SOURCE
#include "array.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "argument.h"
#include "device/device.h"
#include "dtype.h"
#include "error.h"

#define NDIM_LIMIT 64

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

/* ---- sizes --------------------------------------------------------------------------------------------- */

static int check_shape(const int64_t *shape, int ndim) {
  if (ndim < 0 || ndim > NDIM_LIMIT)
    return mb_fail(MBLOB_E_ARGUMENT, "ndim is %d, expected 0 to %d", ndim, NDIM_LIMIT);
  if (ndim && !shape) return mb_fail(MBLOB_E_ARGUMENT, "shape is NULL, expected %d extents", ndim);
  for (int i = 0; i < ndim; i++)
    if (shape[i] < 0)
      return mb_fail(MBLOB_E_ARGUMENT, "shape[%d] is %lld, expected at least 0", i, (long long)shape[i]);
  return MBLOB_OK;
}

bool mb_data_size(const DLTensor *t, size_t *out) {
  if (check_shape(t->shape, t->ndim) || !mb_dtype_check(t->dtype.code, t->dtype.bits, t->dtype.lanes))
    return false;
  size_t size = ((size_t)t->dtype.bits * t->dtype.lanes + 7) / 8;
  bool empty = false, large = false;
  for (int32_t i = 0; i < t->ndim; i++) {
    empty |= t->shape[i] == 0;
    large |= __builtin_mul_overflow(size, t->shape[i], &size);
  }
  *out = empty ? 0 : size;
  if (empty || (!large && size <= PTRDIFF_MAX)) return true;
  (void)mb_fail(MBLOB_E_ARGUMENT, "the shape is impossible: it has more bytes than memory can");
  return false;
}

/* Of a tensor whose bytes were counted, so that extents cannot overflow. */
static bool is_compact(const DLTensor *t) {
  int64_t expected = 1;
  for (int32_t i = t->ndim; t->strides && i-- > 0; expected *= t->shape[i])
    if (t->shape[i] != 1 && t->strides[i] != expected) return false;
  return true;
}

/* Whether all of it can be read, and how many bytes that is; recorded if not. */
static bool is_copyable(const DLTensor *t, size_t *size) {
  if (mb_device_check(t->device) || !mb_data_size(t, size)) return false;
  if (*size && !is_compact(t)) {
    (void)mb_fail(MBLOB_E_ARGUMENT, "the strides are not those of compact rows");
    return false;
  }
  if (*size && !t->data) (void)mb_fail(MBLOB_E_ARGUMENT, "data is NULL, expected %zu bytes", *size);
  return !*size || t->data;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static int new_array(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device, struct array **out) {
  int status = check_shape(shape, ndim);
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
  if (!mb_data_size(&array->view, &size)) return MBLOB_E_ARGUMENT;
  return mb_device_allocate(array->view.device, size, 0, &array->view.data);
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
  if (!is_copyable(t, &size)) return mblob_last_error_info()->status;
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
  if (is_copyable(from, &size)) {
    int status = copy_bytes(to, size, from, to, stream);
    if (status) mb_error_prefix("to");
    return status;
  }
  mb_error_prefix("from");
  return mblob_last_error_info()->status;
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
  int status = is_copyable(&from->dl_tensor, &size)
                   ? mb_array_view(&from->dl_tensor, from, release_import, out)
                   : mblob_last_error_info()->status;
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
