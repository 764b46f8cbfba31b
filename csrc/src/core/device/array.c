/* Counted tensors, in the memory of any device. */
#define _GNU_SOURCE
#include "core/device/array.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/device/device.h"

struct array {
  union {
    DLTensor view;                /* first: a handle points here */
    struct mb_destruction ending; /* when nobody has it any more */
  };
  atomic_size_t references;
  void (*release)(void *owner); /* gives back whose memory it is; NULL for own memory */
  void *owner;
  int room;          /* of `extents`: holders may write to the view */
  int64_t extents[]; /* its shape; of a part its strides, too */
};

static size_t size_of_array(int room) {
  return sizeof(struct array) + (size_t)room * sizeof(int64_t);
}

static struct array *array_of(DLTensor *handle) { return (struct array *)(void *)handle; }

void mb_array_retain(DLTensor *handle) {
  atomic_fetch_add_explicit(&array_of(handle)->references, 1, memory_order_relaxed);
}

void mb_array_release_owner(void *array) { mb_array_release(array); }

static void end_view(struct mb_destruction *ending) {
  struct array *array = (struct array *)(void *)ending;
  array->release(array->owner);
  mb_block_give(array, size_of_array(array->room));
}

/* Views of views of .. end in a loop. */
void mb_array_release(DLTensor *handle) {
  for (struct array *array = array_of(handle); array;) {
    if (atomic_load_explicit(&array->references, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&array->references, 1, memory_order_acq_rel) != 1)
      return;
    if (array->release && array->release != mb_array_release_owner) {
      mb_destroy(&array->ending, end_view);
      return;
    }
    struct array *owner = array->release ? array->owner : NULL;
    if (!array->release) (void)mb_device_free(array->view.device, array->view.data);
    mb_block_give(array, size_of_array(array->room));
    array = owner;
  }
}

size_t mb_array_references(const DLTensor *handle) {
  return atomic_load(&((const struct array *)(const void *)handle)->references);
}

bool mb_array_is_view(const DLTensor *handle) {
  return ((const struct array *)(const void *)handle)->release != NULL;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

/* Those of compact rows. */
static void set_strides(struct array *array) {
  const int ndim = array->view.ndim;
  uint64_t rows = 1; /* unsigned: there may be no elements, of any extents */
  array->view.strides = array->extents + ndim;
  for (int i = ndim; i-- > 0; rows *= (uint64_t)array->extents[i])
    array->view.strides[i] = (int64_t)rows;
}

static int new_array(const int64_t *shape, int ndim, DLDataType dtype, DLDevice device,
                     bool has_strides, struct array **out) {
  const int room = has_strides ? 2 * ndim : ndim;
  int status = mb_shape_check(shape, ndim);
  if (status) return status;
  struct array *array = mb_block_take(size_of_array(room));
  if (!array) return mb_fail_memory(sizeof(*array));
  if (ndim) memcpy(array->extents, shape, (size_t)ndim * sizeof(int64_t));
  array->view = (DLTensor){.device = device, .ndim = ndim, .dtype = dtype, .shape = array->extents};
  array->room = room;
  if (has_strides) set_strides(array);
  atomic_init(&array->references, 1);
  *out = array;
  return MBLOB_OK;
}

static int alloc_data(struct array *array) {
  size_t size = 0;
  int status = mb_tensor_size(&array->view, &size);
  return status ? status : mb_device_allocate(array->view.device, size, 0, &array->view.data);
}

int mb_array_new(DLDevice device, int ndim, const int64_t *shape, DLDataType dtype,
                 DLTensor **out) {
  struct array *array = NULL;
  *out = NULL;
  int status = mb_dtype_check(dtype.code, dtype.bits, dtype.lanes) ? mb_device_check(device)
                                                                   : MBLOB_E_ARGUMENT;
  if (!status) status = new_array(shape, ndim, dtype, device, false, &array);
  if (!status) status = alloc_data(array);
  if (!status)
    *out = &array->view;
  else if (array)
    mb_block_give(array, size_of_array(array->room));
  return status;
}

int mb_array_view(const DLTensor *tensor, void *owner, void (*release)(void *owner),
                  DLTensor **out) {
  struct array *array = NULL;
  *out = NULL;
  int status = new_array(tensor->shape, tensor->ndim, tensor->dtype, tensor->device,
                         tensor->strides != NULL, &array);
  if (status) return status;
  array->view.data = tensor->data;
  array->view.byte_offset = tensor->byte_offset;
  array->owner = owner;
  array->release = release;
  *out = &array->view;
  return MBLOB_OK;
}

int mb_array_part(const DLTensor *like, DLTensor *whole, size_t offset, DLTensor **out) {
  const int ndim = like->ndim;
  struct array *array = mb_block_take_unset(size_of_array(2 * ndim));
  *out = NULL;
  if (!array) return mb_fail_memory(size_of_array(2 * ndim));
  array->view = (DLTensor){.data = (char *)whole->data + offset,
                           .device = whole->device,
                           .ndim = ndim,
                           .dtype = like->dtype,
                           .shape = array->extents,
                           .strides = array->extents + ndim,
                           .byte_offset = whole->byte_offset};
  for (int i = 0; i < ndim; i++) {
    array->extents[i] = like->shape[i];
    array->extents[ndim + i] = like->strides[i];
  }
  atomic_init(&array->references, 1);
  array->release = mb_array_release_owner;
  array->owner = whole;
  array->room = 2 * ndim;
  mb_array_retain(whole);
  *out = &array->view;
  return MBLOB_OK;
}

int mb_tensor_check(const DLTensor *t, size_t *size) {
  int status = mb_device_check(t->device);
  if (!status && !mb_dtype_check(t->dtype.code, t->dtype.bits, t->dtype.lanes))
    status = MBLOB_E_ARGUMENT;
  if (!status) status = mb_tensor_size(t, size);
  if (status || !*size) return status;
  if (!mb_is_compact(t))
    return mb_fail(MBLOB_E_ARGUMENT, "the strides are not those of compact rows");
  return t->data ? MBLOB_OK : mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_DATA_IS_NULL, *size);
}

/* ---- copying --------------------------------------------------------------------------------- */

int mb_array_copy_bytes(const DLTensor *t, size_t nbytes, const DLTensor *from, const DLTensor *to,
                        void *stream) {
  size_t size = 0;
  int status = mb_tensor_check(t, &size);
  if (status) return status;
  if (size != nbytes)
    return mb_fail(MBLOB_E_ARGUMENT, "the array has %zu bytes, the copy %zu", size, nbytes);
  return mb_device_copy_tensor(from, to, size, stream);
}

int mb_array_copy(const DLTensor *from, const DLTensor *to, void *stream) {
  size_t size = 0;
  int status = mb_tensor_check(from, &size);
  if (status) {
    mb_error_prefix("from");
    return status;
  }
  status = mb_array_copy_bytes(to, size, from, to, stream);
  if (status) mb_error_prefix("to");
  return status;
}
