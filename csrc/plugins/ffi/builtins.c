#include "builtins.h"

#include <string.h>

#include "base/base.h"
#include "calls.h"
#include "common.h"

/* ---- vm.builtin.alloc_tensor ------------------------------------------------------------------ */

#define OFFSET_STEP 64 /* that of data which kernels take as it is */

/* Bytes of elements of that shape; false if there cannot be so many, or none are. */
static bool size_of(const struct mb_shape_cell *shape, DLDataType dtype, uint64_t *out) {
  const bool is_plain = dtype.lanes == 1 && dtype.bits >= 8 && !(dtype.bits & (dtype.bits - 1)) &&
                        shape->count <= MB_NDIM_LIMIT;
  *out = dtype.bits / 8;
  for (size_t i = 0; is_plain && i < shape->count; i++)
    if (shape->extents[i] <= 0 || __builtin_mul_overflow(*out, (uint64_t)shape->extents[i], out))
      return false;
  return is_plain;
}

/* An array of bytes that alloc_storage gave. */
static const DLTensor *storage_of(enum mb_releases releases, const struct mb_any *any) {
  if (mb_type_of_releases(releases, any->type) != MB_ANY_TENSOR ||
      !mb_object_is_own(releases, any->u.pointer) ||
      mb_object_record(any->u.pointer)->code != kTVMNDArrayHandle)
    return NULL;
  const DLTensor *tensor = mb_object_cell(releases, any->u.pointer);
  return tensor->ndim == 1 && tensor->dtype.bits == 8 && tensor->dtype.lanes == 1 ? tensor : NULL;
}

/* (storage, offset, shape, type) -> a tensor that keeps the storage */
static inline bool builtin_alloc_tensor_of(enum mb_releases releases, const struct mb_any *args,
                                           int32_t count, struct mb_any *result) {
  uint64_t size;
  const DLTensor *storage = count == 4 && args && result ? storage_of(releases, &args[0]) : NULL;
  if (!storage || args[1].type != MB_ANY_INT || args[3].type != MB_ANY_DTYPE ||
      mb_type_of_releases(releases, args[2].type) != MB_ANY_SHAPE)
    return false;
  const struct mb_shape_cell *shape = mb_object_cell(releases, args[2].u.pointer);
  const int64_t offset = args[1].u.i64;
  if (offset < 0 || offset % OFFSET_STEP || offset > storage->shape[0] ||
      !size_of(shape, args[3].u.dtype, &size) || size > (uint64_t)(storage->shape[0] - offset))
    return false;
  void *object = mb_object_part(releases, (int32_t)shape->count, args[0].u.pointer);
  if (!object) return false; /* which says so */
  DLTensor *tensor = mb_object_cell(releases, object);
  tensor->data = (char *)storage->data + offset;
  tensor->device = storage->device;
  tensor->dtype = args[3].u.dtype;
  tensor->byte_offset = storage->byte_offset;
  int64_t stride = 1;
  for (size_t i = shape->count; i-- > 0;) {
    tensor->shape[i] = shape->extents[i];
    tensor->strides[i] = stride;
    stride *= shape->extents[i];
  }
  result->type = mb_type_of_releases(releases, MB_ANY_TENSOR);
  result->size = 0;
  result->u.pointer = object;
  return true;
}

static int builtin_alloc_tensor(void *function, const struct mb_any *args, int32_t count,
                                struct mb_any *result) {
  return builtin_alloc_tensor_of(MB_RELEASES_0_22, args, count, result)
             ? 0
             : mb_object_call(MB_RELEASES_0_22, function, args, count, result);
}

static int builtin_alloc_tensor_old(void *function, const struct mb_any *args, int32_t count,
                                    struct mb_any *result) {
  return builtin_alloc_tensor_of(MB_RELEASES_0_21, args, count, result)
             ? 0
             : mb_object_call(MB_RELEASES_0_21, function, args, count, result);
}

/* () -> nothing, which the result is already */
static int builtin_null_value(void *function, const struct mb_any *args, int32_t count,
                              struct mb_any *result) {
  return count || !result ? mb_object_call(MB_RELEASES_0_22, function, args, count, result) : 0;
}

static int builtin_null_value_old(void *function, const struct mb_any *args, int32_t count,
                                  struct mb_any *result) {
  return count || !result ? mb_object_call(MB_RELEASES_0_21, function, args, count, result) : 0;
}

/* ---- finding and calling them ----------------------------------------------------------------- */

static const struct {
  char name[24];
  mb_safe_call calls[2]; /* of releases */
} builtins[] = {{"vm.builtin.alloc_tensor", {builtin_alloc_tensor_old, builtin_alloc_tensor}},
                {"vm.builtin.null_value", {builtin_null_value_old, builtin_null_value}}};

const uint64_t *mb_registry_generation;

void mb_builtin_prepare(enum mb_releases releases, void *object, mblob_function *function) {
  const mblob_host *host = mb_plugin_host();
  struct mb_record *record = mb_object_record(object);
  const uint64_t generation = __atomic_load_n(host->registry_generation, __ATOMIC_ACQUIRE);
  const char *name = host->builtin_name(function);
  mb_safe_call found = NULL;
  for (size_t i = 0; name && i < sizeof(builtins) / sizeof(*builtins); i++)
    if (strcmp(name, builtins[i].name) == 0) found = builtins[i].calls[releases];
  __atomic_store_n(&mb_registry_generation, host->registry_generation, __ATOMIC_RELAXED);
  atomic_store_explicit(&record->native, found, memory_order_relaxed);
  atomic_store_explicit(&record->generation, generation, memory_order_release);
}
