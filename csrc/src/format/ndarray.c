#define _GNU_SOURCE
#include "format/ndarray.h"

#include <stdlib.h>

#include "base/base.h"

#define SMALLEST_ARRAY 40 /* bytes of a record without dimensions and data */

static bool bad_array(const struct mb_cursor *c, uint64_t at, const char *text) {
  (void)mb_fail_format("payload", (int64_t)at, c->entry, "%s", text);
  return false;
}

struct shape {
  uint32_t ndim;
  int64_t extents[MB_NDIM_LIMIT];
};

bool mb_is_addressable(const int64_t *shape, uint32_t ndim, uint64_t item_size, uint64_t *bytes) {
  int64_t size = (int64_t)item_size;
  for (uint32_t i = 0; i < ndim; i++)
    if (__builtin_mul_overflow(size, shape[i] ? shape[i] : 1, &size)) return false;
  *bytes = (uint64_t)size;
  return true;
}

/* Lanes do not count in the byte count and bits are rounded up to bytes, as TVM's writer does. */
static bool read_shape(struct mb_cursor *c, uint64_t start, uint64_t item_size, struct shape *shape,
                       uint64_t *bytes) {
  bool empty = false;
  for (uint32_t i = 0; i < shape->ndim; i++) {
    uint64_t extent = 0;
    if (!mb_read_u64(c, &extent, "array.shape")) return false;
    if (extent > INT64_MAX) return bad_array(c, start, "array: negative dimension");
    shape->extents[i] = (int64_t)extent;
    empty |= extent == 0;
  }
  if (!mb_is_addressable(shape->extents, shape->ndim, item_size, bytes))
    return bad_array(c, start, "array: the elements of this shape have no addresses");
  if (empty) *bytes = 0;
  return true;
}

static bool keep_array(DLDataType dtype, const struct shape *shape, const uint8_t *data,
                       uint64_t bytes, DLTensor *out) {
  size_t size = shape->ndim * sizeof(int64_t);
  *out = (DLTensor){.data = (void *)(uintptr_t)data,
                    .device = {kDLCPU, 0},
                    .ndim = (int32_t)shape->ndim,
                    .dtype = dtype,
                    .shape = malloc(size ? size : 1)};
  if (!out->shape) {
    (void)mb_fail_memory(size);
    return false;
  }
  memcpy(out->shape, shape->extents, size);
  return mb_view_in_host_order(out, bytes) == MBLOB_OK;
}

bool mb_array_read(struct mb_cursor *c, DLTensor *out) {
  uint64_t start = c->pos, magic = 0, declared = 0, bytes = 0;
  uint32_t device = 0, dtype = 0;
  struct shape shape;
  if (!mb_read_u64(c, &magic, "array.magic")) return false;
  if (magic != MB_NDARRAY_MAGIC)
    return bad_array(c, start, "array: no array record here (wrong magic)");
  if (!mb_skip(c, 8, "array.reserved") || !mb_read_u32(c, &device, "array.device_type") ||
      !mb_skip(c, 4, "array.device_id"))
    return false;
  if (device != kDLCPU) return bad_array(c, start, "array: not stored for the cpu");
  if (!mb_read_u32(c, &shape.ndim, "array.ndim")) return false;
  if (shape.ndim > MB_NDIM_LIMIT) return bad_array(c, start, "array: more than 64 dimensions");
  if (!mb_read_u32(c, &dtype, "array.dtype")) return false;
  DLDataType type = {(uint8_t)dtype, (uint8_t)(dtype >> 8), (uint16_t)(dtype >> 16)};
  if (type.lanes != 1)
    return bad_array(c, start,
                     "array: its elements have lanes; the format holds arrays of 1 lane only");
  if (!mb_dtype_check(type.code, type.bits, 1))
    return bad_array(c, start, "array: no such element type");
  if (!read_shape(c, start, (type.bits + 7u) / 8u, &shape, &bytes) ||
      !mb_read_u64(c, &declared, "array.byte_count"))
    return false;
  if (declared != bytes) return bad_array(c, start, "array: byte count and shape disagree");
  if (!mb_skip(c, declared, "array.data")) return false;
  return !out || keep_array(type, &shape, c->data + c->pos - declared, declared, out);
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

bool mb_params_is(const uint8_t *bytes, uint64_t size) {
  return size >= 8 && mb_u64_at(bytes) == MB_PARAMS_MAGIC;
}

static int by_array_name(const void *a, const void *b) {
  return strcmp(((const struct mb_tensor *)a)->name, ((const struct mb_tensor *)b)->name);
}

static bool read_names(struct mb_cursor *c, struct mb_tensors *out) {
  uint64_t names = 0;
  if (!mb_read_count(c, &names, 8 + SMALLEST_ARRAY, "params.names")) return false;
  out->items = mb_new_items(names, sizeof(*out->items));
  if (!out->items) return false;
  for (out->capacity = mb_size(names); out->count < names;) {
    struct mb_slice name;
    if (!mb_read_string(c, &name, "params.name")) return false;
    struct mb_tensor *tensor = &out->items[out->count++];
    tensor->name = strndup((const char *)name.data, mb_size(name.size));
    if (tensor->name) continue;
    (void)mb_fail_memory(mb_size(name.size));
    return false;
  }
  return true;
}

bool mb_named_arrays_read(struct mb_cursor *c, bool count_behind, struct mb_tensors *out) {
  if (!read_names(c, out)) return false;
  uint64_t start = c->pos, count = out->count;
  if (count_behind && !mb_read_u64(c, &count, "params.count")) return false;
  if (count != out->count)
    return bad_array(c, start, "params: counts of names and of arrays differ");
  for (size_t i = 0; i < out->count; i++)
    if (!mb_array_read(c, &out->items[i].view)) return false;
  qsort(out->items, out->count, sizeof(*out->items), by_array_name);
  return true;
}

static bool read_param_arrays(struct mb_cursor *c, struct mb_tensors *out) {
  if (!mb_skip(c, 16, "params.magic") || !mb_named_arrays_read(c, true, out)) return false;
  return !mb_left(c) || bad_array(c, c->pos, "params: bytes follow the last array");
}

int mb_params_read(const uint8_t *bytes, uint64_t size, int64_t entry, struct mb_tensors *out) {
  struct mb_cursor c = {bytes, 0, size, entry};
  *out = (struct mb_tensors){0};
  if (read_param_arrays(&c, out)) return MBLOB_OK;
  mb_tensors_free(out);
  return mblob_last_error_info()->status;
}
