#define _GNU_SOURCE
#include "exec/common/stored_arrays.h"

#include <stdlib.h>

#include "base/base.h"
#include "core/device/device.h"
#include "exec/common/tensors.h"
#include "format/format.h"

#define SMALLEST_RECORD 40 /* bytes of an NDArray without dimensions and data */

/* Put `size` bytes of data where kernels can use them. */
static int copy_data(struct mb_stored_array *array, const void *data, size_t size) {
  array->copy = mb_host_allocate(size, MB_TENSOR_ALIGNMENT);
  if (!array->copy) return mb_fail_memory(size);
  if (size) memcpy(array->copy, data, size);
  array->view.data = array->copy;
  return MBLOB_OK;
}

int mb_stored_array_align(struct mb_stored_array *array) {
  size_t size = 0;
  int status = mb_tensor_size(&array->view, &size);
  if (status || (uintptr_t)array->view.data % MB_DEFAULT_ALIGNMENT == 0) return status;
  return copy_data(array, array->view.data, size);
}

int mb_stored_array_copy(const DLTensor *from, struct mb_stored_array *out) {
  size_t size = 0, shape = (size_t)from->ndim * sizeof(int64_t);
  int status = mb_tensor_check(from, &size);
  if (status) return status;
  out->view = (DLTensor){.device = {kDLCPU, 0}, .ndim = from->ndim, .dtype = from->dtype};
  out->view.shape = malloc(shape ? shape : 1);
  if (!out->view.shape) return mb_fail_memory(shape);
  if (shape) memcpy(out->view.shape, from->shape, shape);
  return copy_data(out, (const char *)from->data + from->byte_offset, size);
}

void mb_stored_array_clear(struct mb_stored_array *array) {
  free(array->name);
  free(array->view.shape);
  mb_host_release(array->copy);
  *array = (struct mb_stored_array){0};
}

static void release_arrays(void *module) { mblob_module_release(module); }

int mb_stored_array_share(const struct mb_stored_array *array, mblob_module *module,
                          DLTensor **out) {
  int status = mb_array_view(&array->view, module, release_arrays, out);
  if (!status) (void)mblob_module_retain(module);
  return status;
}

/* ---- lists ----------------------------------------------------------------------------------- */

bool mb_stored_arrays_names(struct mb_cursor *c, struct mb_stored_arrays *out) {
  uint64_t count = 0;
  if (!mb_read_count(c, &count, 8 + SMALLEST_RECORD, "arrays.names")) return false;
  out->items = mb_new_items(count, sizeof(*out->items));
  if (!out->items) return false;
  while (out->count < count) {
    struct mb_stored_array *item = &out->items[out->count];
    uint64_t start = c->pos;
    struct mb_slice name;
    if (!mb_read_string(c, &name, "arrays.name")) return false;
    item->name = strndup((const char *)name.data, mb_size(name.size));
    if (!item->name) {
      (void)mb_fail_memory(mb_size(name.size));
      return false;
    }
    out->count++;
    if (mb_map_get(&out->by_name, item->name)) {
      (void)mb_fail_format("payload", (int64_t)start, c->entry, "arrays: two are called '%.64s'",
                           item->name);
      return false;
    }
    if (!mb_map_put(&out->by_name, item->name, item)) return false;
  }
  return true;
}

bool mb_stored_arrays_data(struct mb_cursor *c, struct mb_stored_arrays *out) {
  for (size_t i = 0; i < out->count; i++)
    if (!mb_array_read(c, &out->items[i].view) || mb_stored_array_align(&out->items[i]))
      return false;
  return true;
}

struct mb_stored_array *mb_stored_arrays_find(const struct mb_stored_arrays *arrays,
                                              const char *name) {
  return mb_map_get(&arrays->by_name, name);
}

void mb_stored_arrays_free(struct mb_stored_arrays *arrays) {
  mb_map_free(&arrays->by_name);
  for (size_t i = 0; i < arrays->count; i++) mb_stored_array_clear(&arrays->items[i]);
  free(arrays->items);
  *arrays = (struct mb_stored_arrays){0};
}
