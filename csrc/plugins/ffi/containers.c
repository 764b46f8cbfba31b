#include "containers.h"

#include <limits.h>
#include <stdlib.h>

#include "common.h"
#include "maps.h"

enum {
  STRING_OBJECT = 3,
  ARRAY_OBJECT = 4,
  MAP_OBJECT = 5,
  SHAPE_OBJECT = 6
}; /* TVM's numbers up to 0.20 */

int mb_call_global(const char *name, const TVMValue *args, const int *codes, int count,
                   TVMValue *ret, int *ret_code) {
  const mblob_host *host = mb_plugin_host();
  mblob_function *function = NULL;
  int status = host->global_function(name, &function);
  if (!status) status = host->function_call(function, args, codes, count, ret, ret_code);
  if (function) host->function_release(function);
  return status;
}

int mb_ask_container(const char *name, TVMValue container, int64_t i, int count, TVMValue *out,
                     int *code) {
  const TVMValue args[2] = {container, {.v_int64 = i}};
  const int codes[2] = {kTVMObjectHandle, kTVMArgInt};
  return mb_call_global(name, args, codes, count, out, code);
}

static int shape_object(enum mb_releases releases, TVMValue container, struct mb_any *out) {
  TVMValue count = {.v_int64 = 0}, extent;
  int code, status = mb_ask_container("runtime.GetShapeTupleSize", container, 0, 1, &count, &code);
  if (status) return status;
  const size_t size = ((size_t)count.v_int64 + 1) * sizeof(int64_t);
  int64_t *extents = mb_block_take(size);
  if (!extents) return mb_fail_memory(size);
  for (int64_t i = 0; !status && i < count.v_int64; i++) {
    status = mb_ask_container("runtime.GetShapeTupleElem", container, i, 2, &extent, &code);
    extents[i] = extent.v_int64;
  }
  void *object = status ? NULL : mb_object_shape(releases, extents, (size_t)count.v_int64);
  mb_block_give(extents, size);
  if (!object) return status ? status : MBLOB_E_MEMORY;
  struct mb_record *record = mb_object_record(object); /* it turns back into the very ShapeTuple */
  record->value = container;
  record->code = kTVMObjectHandle;
  record->counted = true;
  mb_plugin_host()->value_retain(container, kTVMObjectHandle);
  return mb_any_set_object(releases, out, MB_ANY_SHAPE, object);
}

static int string_value(enum mb_releases releases, TVMValue container, struct mb_any *out) {
  TVMValue found;
  int code, status = mb_ask_container("mblob.StringBytes", container, 0, 1, &found, &code);
  const TVMByteArray *bytes = status ? NULL : found.v_handle;
  return status ? status : mb_any_set_text(releases, out, true, bytes->data, bytes->size);
}

/* ---- arrays: from 0.22 on -------------------------------------------------------------------- */

/* What an array has behind its header; the values follow. */
struct array_cell {
  struct mb_any *items;
  int64_t size, capacity;
  void (*delete_items)(void *items); /* NULL: they are part of the object */
};

static void release_items(void *owner) {
  struct array_cell *cell = owner;
  for (int64_t i = 0; i < cell->size; i++) mb_any_release(MB_RELEASES_0_22, &cell->items[i]);
  cell->size = 0;
}

static int set_any_item(TVMValue container, int64_t i, struct array_cell *cell) {
  TVMValue value;
  int code, status = mb_ask_container("runtime.ArrayGetItem", container, i, 2, &value, &code);
  if (status) return status;
  status = mb_any_of_value(MB_RELEASES_0_22, value, code, false, &cell->items[i]);
  mb_plugin_host()->value_release(value, code);
  if (!status) cell->size = i + 1;
  return status;
}

static int array_object(TVMValue container, struct mb_any *out) {
  static __thread int depth;
  TVMValue count = {.v_int64 = 0};
  int code, status = mb_ask_container("runtime.ArraySize", container, 0, 1, &count, &code);
  if (!status && depth == MB_NESTING_LIMIT) status = mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_NESTED);
  if (status) return status;
  void *object =
      mb_object_new(MB_RELEASES_0_22, MB_ANY_ARRAY,
                    sizeof(struct array_cell) + (size_t)count.v_int64 * sizeof(struct mb_any));
  if (!object) return MBLOB_E_MEMORY;
  struct array_cell *cell = mb_object_cell(MB_RELEASES_0_22, object);
  struct mb_record *record = mb_object_record(object);
  *cell =
      (struct array_cell){.items = (struct mb_any *)(void *)(cell + 1), .capacity = count.v_int64};
  record->owner = cell;
  record->release = release_items;
  record->value = container;
  record->code = kTVMObjectHandle;
  record->counted = true;
  mb_plugin_host()->value_retain(container, kTVMObjectHandle);
  depth++;
  for (int64_t i = 0; !status && i < count.v_int64; i++) status = set_any_item(container, i, cell);
  depth--;
  if (status) mb_ffi_object_release(MB_RELEASES_0_22, object);
  return status ? status : mb_any_set_object(MB_RELEASES_0_22, out, MB_ANY_ARRAY, object);
}

int mb_array_of_object(void *object, TVMValue *value, int *code) {
  struct argument {
    struct mb_place place;
    TVMValue value;
    int code;
  };
  static __thread int depth;
  const struct array_cell *cell = mb_object_cell(MB_RELEASES_0_22, object);
  const size_t count = cell->size > 0 ? (size_t)cell->size : 0;
  if (count > INT_MAX)
    return mb_fail(MBLOB_E_ARGUMENT, "an array of %zu items, at most %d can be passed", count,
                   INT_MAX);
  if (depth == MB_NESTING_LIMIT) return mb_fail(MBLOB_E_ARGUMENT, MB_TEXT_NESTED);
  struct mb_place *places = mb_block_take((count + 1) * sizeof(struct argument));
  if (!places) return mb_fail_memory(count * sizeof(struct argument));
  TVMValue *values = (TVMValue *)(void *)(places + count);
  int *codes = (int *)(values + count), status = MBLOB_OK;
  size_t made = 0;
  depth++;
  for (; !status && made < count; made++)
    status = mb_value_of_any(MB_RELEASES_0_22, &cell->items[made], &values[made], &codes[made],
                             &places[made]);
  depth--;
  if (!status) status = mb_call_global("runtime.Array", values, codes, (int)count, value, code);
  while (made-- > 0) mb_place_release(&places[made]);
  mb_block_give(places, (count + 1) * sizeof(struct argument));
  return status;
}

int mb_any_of_container(enum mb_releases releases, TVMValue container, struct mb_any *out) {
  union {
    void *address;
    int (*call)(TVMObjectHandle object, unsigned *type);
  } type_of = {mb_plugin_host()->symbol("TVMObjectGetTypeIndex")};
  unsigned type = 0;
  if (type_of.call(container.v_handle, &type) != 0) type = 0;
  if (type == SHAPE_OBJECT) return shape_object(releases, container, out);
  if (type == STRING_OBJECT) return string_value(releases, container, out);
  if (type == ARRAY_OBJECT && releases == MB_RELEASES_0_22) return array_object(container, out);
  if (type == MAP_OBJECT && releases == MB_RELEASES_0_22) return mb_any_of_map(container, out);
  return mb_any_set_wrapped(releases, out, container, kTVMObjectHandle);
}

/* ---- alignment ------------------------------------------------------------------------------- */

#define ALIGNMENT 64        /* that compiled code assumes: MB_DEFAULT_ALIGNMENT of the runtime */
#define LOOKED_AT (1 << 16) /* items of a value; arrays may have one in many places */

/* True if there may be a tensor in the value that compiled code cannot take. */
static bool is_unaligned(enum mb_releases releases, const struct mb_any *any, int depth,
                         int *left) {
  const int32_t type = mb_type_of_releases(releases, any->type);
  const void *cell = mb_object_cell(releases, any->u.pointer);
  if (type == MB_ANY_TENSOR) {
    const DLTensor *tensor = cell;
    return (((uintptr_t)tensor->data | (uintptr_t)tensor->byte_offset) & (ALIGNMENT - 1)) != 0;
  }
  if (releases != MB_RELEASES_0_22 || !depth) return false;
  if (type == MB_ANY_MAP || type == MB_ANY_DICT) return true; /* the runtime knows */
  if (type != MB_ANY_ARRAY && type != MB_ANY_LIST) return false;
  const struct array_cell *array = cell;
  for (int64_t i = 0; i < array->size && --*left > 0; i++)
    if (array->items[i].type >= MB_ANY_OBJECT &&
        is_unaligned(releases, &array->items[i], depth - 1, left))
      return true;
  return false;
}

int mb_any_align(enum mb_releases releases, struct mb_any *any) {
  int left = LOOKED_AT, code, aligned_code = kTVMNullptr;
  if (any->type < MB_ANY_OBJECT || !any->u.pointer ||
      !is_unaligned(releases, any, MB_NESTING_LIMIT, &left))
    return MBLOB_OK;
  struct mb_place place;
  struct mb_any made;
  TVMValue value, aligned = {.v_handle = NULL};
  int status = mb_value_of_any(releases, any, &value, &code, &place);
  if (!status && (code == kTVMNDArrayHandle || code == kTVMObjectHandle))
    status = mb_call_global("mblob.Aligned", &value, &code, 1, &aligned, &aligned_code);
  if (!status && aligned.v_handle && aligned.v_handle != value.v_handle) {
    status = mb_any_of_value(releases, aligned, aligned_code, false, &made);
    if (!status) {
      mb_any_release(releases, any);
      *any = made;
    }
  }
  if (aligned.v_handle) mb_plugin_host()->value_release(aligned, aligned_code);
  mb_place_release(&place);
  return status;
}
