#include "core/call/object.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/device/device.h"
#include "core/call/aligned.h"
#include "core/call/method.h"
#include "core/call/return_value.h"
#include "core/loaded/loaded.h"

struct mb_object {
  uint32_t tag; /* MB_TAG_OBJECT */
  enum mb_object_type type;
  bool unaligned; /* some tensor in it is less aligned than compiled code assumes */
  atomic_size_t references;
  struct mb_object *next; /* in the list of those that are being freed */
  size_t count, room;
  struct mb_return items[];
};

static size_t size_of_container(size_t room) {
  return sizeof(struct mb_object) + room * sizeof(struct mb_return);
}

/* ---- counting -------------------------------------------------------------------------------- */

bool mb_handle_is_object(const void *handle) { return *(const uint32_t *)handle == MB_TAG_OBJECT; }

enum mb_object_type mb_object_type(const struct mb_object *object) { return object->type; }

void mb_object_retain(struct mb_object *object) {
  atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
}

size_t mb_object_references(const struct mb_object *object) {
  return atomic_load(&object->references);
}

static bool was_last(struct mb_object *object) {
  return atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) == 1;
}

/* The object in an item; NULL if it is something else. */
static struct mb_object *object_in(const struct mb_return *item) {
  void *handle = item->code == kTVMObjectHandle ? item->value.v_handle : NULL;
  return handle && mb_handle_is_object(handle) ? handle : NULL;
}

/* Iterative: containers may hold containers to any depth. */
void mb_object_release(struct mb_object *object) {
  struct mb_object *pending = was_last(object) ? object : NULL;
  while ((object = pending)) {
    pending = object->next;
    for (size_t i = 0; i < object->count; i++) {
      struct mb_object *child = object_in(&object->items[i]);
      if (!child) {
        mb_return_drop(&object->items[i]);
      } else if (was_last(child)) {
        child->next = pending;
        pending = child;
      }
    }
    mb_block_give(object, size_of_container(object->room));
  }
}

/* ---- items ----------------------------------------------------------------------------------- */

static TVMValue value_of(const struct mb_return *item) {
  TVMValue value = item->value;
  if (item->code == kTVMStr) value.v_str = item->text;
  if (item->code == kTVMBytes) value.v_handle = (void *)(uintptr_t)&item->bytes;
  return value;
}

static int return_item(struct mb_call *call, const struct mb_return *item) {
  return mb_return_set(call->result, value_of(item), item->code);
}

bool mb_value_text(TVMValue value, int code, TVMByteArray *out) {
  const struct mb_object *string = code == kTVMObjectHandle ? value.v_handle : NULL;
  if (string && mb_handle_is_object(string) && string->type == MB_STRING_TYPE)
    *out = string->items[0].bytes;
  else if (code == kTVMStr && value.v_str)
    *out = (TVMByteArray){value.v_str, strlen(value.v_str)};
  else
    return false;
  return true;
}

/* Keys are equal by their text or number, other things if they are the same thing. */
static bool is_equal(const struct mb_return *item, TVMValue value, int code) {
  const bool whole = item->code == kTVMArgInt || item->code == kTVMArgBool;
  TVMByteArray key, bytes;
  if (mb_value_text(value_of(item), item->code, &key)) {
    if (!mb_value_text(value, code, &bytes)) return false;
  } else {
    if (item->code != code && !(whole && (code == kTVMArgInt || code == kTVMArgBool))) return false;
    if (code != kTVMBytes || !value.v_handle) return item->value.v_int64 == value.v_int64;
    key = item->bytes;
    bytes = *(const TVMByteArray *)value.v_handle;
  }
  return bytes.size == key.size && (!key.size || !memcmp(bytes.data, key.data, key.size));
}

/* Where the key of a map is, counted in items; `count` if it is not there. */
static __attribute__((cold)) size_t find_key(const struct mb_object *map, TVMValue key, int code) {
  size_t i = 0;
  while (i < map->count && !is_equal(&map->items[i], key, code)) i += 2;
  return i;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* With room for `room` items, none yet. */
static int new_object(enum mb_object_type type, size_t room, struct mb_object **out) {
  size_t size = 0;
  *out = NULL;
  if (!__builtin_mul_overflow(room, sizeof(struct mb_return), &size) && size < PTRDIFF_MAX / 2)
    *out = mb_block_take(size = size_of_container(room));
  if (!*out) return mb_fail_memory(size);
  (*out)->room = room;
  (*out)->tag = MB_TAG_OBJECT;
  (*out)->type = type;
  atomic_init(&(*out)->references, 1);
  return MBLOB_OK;
}

static int set_item(struct mb_object *object, size_t at, TVMValue value, int code) {
  if (at == object->count) object->items[object->count++] = (struct mb_return)MB_RETURN_NOTHING;
  object->unaligned |= !mb_value_is_aligned(value, code);
  return mb_return_set(&object->items[at], value, code);
}

/* A borrowed tensor cannot be kept. */
static int check_argument(const struct mb_call *call, int i) {
  if (call->codes[i] != kTVMDLTensorHandle) return MBLOB_OK;
  return mb_fail_argument(
      MB_ARGUMENT_TYPE, "argument %d: expected something counted, found a tensor that is borrowed",
      i);
}

static int finish_object(struct mb_call *call, struct mb_object *object, int status) {
  if (!object) return status;
  if (status) {
    mb_object_release(object);
    return status;
  }
  mb_return_drop(call->result);
  call->result->value.v_handle = object;
  call->result->code = kTVMObjectHandle;
  return MBLOB_OK;
}

static __attribute__((cold)) int return_texts(struct mb_call *call, const char *const *texts,
                                              size_t count) {
  struct mb_object *array = NULL;
  int status = new_object(MB_ARRAY_TYPE, count, &array);
  for (size_t i = 0; !status && i < count; i++)
    status = set_item(array, i, (TVMValue){.v_str = texts[i]}, kTVMStr);
  return finish_object(call, array, status);
}

int mb_object_return_texts(struct mb_call *call, const char *const *texts, size_t count) {
  return return_texts(call, texts, count);
}

static __attribute__((cold)) int return_named_arrays(struct mb_call *call, const char *const *names,
                                                     DLTensor *const *arrays, size_t count) {
  struct mb_object *map = NULL;
  int status = new_object(MB_MAP_TYPE, 2 * count, &map);
  for (size_t i = 0; !status && i < count; i++) {
    status = set_item(map, 2 * i, (TVMValue){.v_str = names[i]}, kTVMStr);
    if (!status)
      status = set_item(map, 2 * i + 1, (TVMValue){.v_handle = arrays[i]}, kTVMNDArrayHandle);
  }
  for (size_t i = 0; i < count; i++) mb_array_release(arrays[i]);
  return finish_object(call, map, status);
}

int mb_object_return_arrays(struct mb_call *call, const char *const *names, DLTensor *const *arrays,
                            size_t count) {
  return return_named_arrays(call, names, arrays, count);
}

int mb_object_make_array(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *array = NULL;
  int status = new_object(MB_ARRAY_TYPE, (size_t)call->count, &array);
  for (int i = 0; !status && i < call->count; i++) {
    status = check_argument(call, i);
    if (!status) status = set_item(array, array->count, call->args[i], call->codes[i]);
  }
  return finish_object(call, array, status);
}

static int make_shape_object(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *shape = NULL;
  int status = new_object(MB_SHAPE_TYPE, (size_t)call->count, &shape);
  for (int i = 0; !status && i < call->count; i++) {
    TVMValue extent = {.v_int64 = 0};
    status = mb_call_int(call, i, &extent.v_int64);
    if (!status) status = set_item(shape, shape->count, extent, kTVMArgInt);
  }
  return finish_object(call, shape, status);
}

/* Keys and values in turn; of a key that comes twice the last value counts. */
static __attribute__((cold)) int return_map(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *map = NULL;
  if (call->count % 2)
    return mb_fail_argument(MB_ARGUMENT_COUNT,
                            "expected keys and values in turn, found %d arguments", call->count);
  int status = new_object(MB_MAP_TYPE, (size_t)call->count, &map);
  for (int i = 0; !status && i < call->count; i += 2) {
    status = check_argument(call, i);
    if (!status) status = check_argument(call, i + 1);
    if (status) break;
    const size_t at = find_key(map, call->args[i], call->codes[i]);
    if (at == map->count) status = set_item(map, at, call->args[i], call->codes[i]);
    if (!status) status = set_item(map, at + 1, call->args[i + 1], call->codes[i + 1]);
  }
  return finish_object(call, map, status);
}

int mb_object_make_map(void *unused, struct mb_call *call) { return return_map(unused, call); }

static __attribute__((cold)) int make_string(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *string = NULL;
  const void *data = NULL;
  size_t size = 0;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_call_bytes(call, 0, &data, &size);
  if (!status) status = new_object(MB_STRING_TYPE, 1, &string);
  TVMByteArray bytes = {data, size};
  if (!status) status = set_item(string, 0, (TVMValue){.v_handle = &bytes}, kTVMBytes);
  return finish_object(call, string, status);
}

/* ---- for code of the runtime ------------------------------------------------------------------ */

size_t mb_object_count(const struct mb_object *object) { return object->count; }

const struct mb_return *mb_object_item(const struct mb_object *object, size_t i) {
  return &object->items[i];
}

TVMValue mb_object_value(const struct mb_object *object, size_t i) {
  return value_of(&object->items[i]);
}

int mb_object_new_shape(const int64_t *extents, size_t count, struct mb_object **out) {
  int status = new_object(MB_SHAPE_TYPE, count, out);
  for (size_t i = 0; !status && i < count; i++)
    (*out)->items[i] = (struct mb_return){.value = {.v_int64 = extents[i]}, .code = kTVMArgInt};
  if (!status) (*out)->count = count;
  return status;
}

int mb_object_new_string(const char *data, size_t size, struct mb_object **out) {
  TVMByteArray bytes = {data, size};
  int status = new_object(MB_STRING_TYPE, 1, out);
  if (!status) status = set_item(*out, 0, (TVMValue){.v_handle = &bytes}, kTVMBytes);
  if (!status || !*out) return status;
  mb_object_release(*out);
  *out = NULL;
  return status;
}

bool mb_object_is_aligned(const void *handle) {
  return !mb_handle_is_object(handle) || !((const struct mb_object *)handle)->unaligned;
}

int mb_object_copy(const struct mb_object *object, struct mb_object **out) {
  int status = new_object(object->type, object->count, out);
  for (size_t i = 0; !status && i < object->count; i++)
    status = set_item(*out, i, value_of(&object->items[i]), object->items[i].code);
  if (!status)
    (*out)->unaligned = false;
  else if (*out)
    mb_object_release(*out);
  return status;
}

int mb_object_set_item(struct mb_object *copy, size_t i, TVMValue value, int code) {
  return set_item(copy, i, value, code);
}

void mb_object_reset_item(struct mb_object *array, size_t i) { mb_return_drop(&array->items[i]); }

/* ---- looking --------------------------------------------------------------------------------- */

static const char type_names[][16] = {[MB_STRING_TYPE] = "a String",
                                      [MB_ARRAY_TYPE] = "an Array",
                                      [MB_MAP_TYPE] = "a Map",
                                      [MB_SHAPE_TYPE] = "a ShapeTuple"};

/* Argument 0 as an object of that type, of a call with `count` arguments. */
static int receiver(const struct mb_call *call, int count, enum mb_object_type type,
                    struct mb_object **out) {
  int status = mb_call_expect(call, count, count);
  if (status) return status;
  void *handle = call->codes[0] == kTVMObjectHandle ? call->args[0].v_handle : NULL;
  *out = handle && mb_handle_is_object(handle) ? handle : NULL;
  if (*out && (*out)->type == type) return MBLOB_OK;
  return mb_fail_argument(MB_ARGUMENT_TYPE, "argument 0: expected %s, found %s", type_names[type],
                          *out ? type_names[(*out)->type] : "something else");
}

static int get_container_item(struct mb_call *call, enum mb_object_type type) {
  struct mb_object *object = NULL;
  int64_t i = 0;
  int status = receiver(call, 2, type, &object);
  if (!status) status = mb_call_int(call, 1, &i);
  if (status) return status;
  if (i < 0 || (uint64_t)i >= object->count)
    return mb_fail_argument(MB_ARGUMENT_INDEX, "index %lld of %zu items", (long long)i,
                            object->count);
  return return_item(call, &object->items[i]);
}

static int get_container_size(struct mb_call *call, enum mb_object_type type, size_t items_each) {
  struct mb_object *object = NULL;
  int status = receiver(call, 1, type, &object);
  if (!status) mb_call_return_int(call, (int64_t)(object->count / items_each));
  return status;
}

static int array_item(void *unused, struct mb_call *call) {
  (void)unused;
  return get_container_item(call, MB_ARRAY_TYPE);
}

static int array_size(void *unused, struct mb_call *call) {
  (void)unused;
  return get_container_size(call, MB_ARRAY_TYPE, 1);
}

static int shape_item(void *unused, struct mb_call *call) {
  (void)unused;
  return get_container_item(call, MB_SHAPE_TYPE);
}

static int shape_size(void *unused, struct mb_call *call) {
  (void)unused;
  return get_container_size(call, MB_SHAPE_TYPE, 1);
}

static __attribute__((cold)) int map_size(void *unused, struct mb_call *call) {
  (void)unused;
  return get_container_size(call, MB_MAP_TYPE, 2);
}

static __attribute__((cold)) int map_item(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *map = NULL;
  int status = receiver(call, 2, MB_MAP_TYPE, &map);
  if (status) return status;
  const size_t at = find_key(map, call->args[1], call->codes[1]);
  if (at < map->count) return return_item(call, &map->items[at + 1]);
  if (call->codes[1] == kTVMStr && call->args[1].v_str)
    return mb_fail(MBLOB_E_NOT_FOUND, "no key '%s' is in the map", call->args[1].v_str);
  return mb_fail(MBLOB_E_NOT_FOUND, "the key is not in the map");
}

static __attribute__((cold)) int map_count(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *map = NULL;
  int status = receiver(call, 2, MB_MAP_TYPE, &map);
  if (!status) mb_call_return_int(call, find_key(map, call->args[1], call->codes[1]) < map->count);
  return status;
}

/* An array of the keys and values in turn. */
static __attribute__((cold)) int map_items(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *map = NULL, *array = NULL;
  int status = receiver(call, 1, MB_MAP_TYPE, &map);
  if (!status) status = new_object(MB_ARRAY_TYPE, map->count, &array);
  for (size_t i = 0; !status && i < map->count; i++)
    status = set_item(array, i, value_of(&map->items[i]), map->items[i].code);
  return finish_object(call, array, status);
}

/* A pointer to the TVMByteArray of a String, which lives as long. */
static int string_bytes(void *unused, struct mb_call *call) {
  (void)unused;
  struct mb_object *string = NULL;
  int status = receiver(call, 1, MB_STRING_TYPE, &string);
  return status ? status
                : mb_return_set(call->result, (TVMValue){.v_handle = &string->items[0].bytes},
                                kTVMOpaqueHandle);
}

/* (value) -> it, or a copy with tensors that are aligned as compiled code assumes */
static int aligned(void *unused, struct mb_call *call) {
  (void)unused;
  int status = mb_call_expect(call, 1, 1);
  if (!status) status = mb_return_set(call->result, call->args[0], call->codes[0]);
  if (!status) status = mb_value_keep_aligned(&call->result->value, call->codes[0]);
  if (status) *call->result = (struct mb_return)MB_RETURN_NOTHING;
  return status;
}

const struct mb_method mb_object_functions[] = {
    {"mblob.Aligned", aligned},
    {"mblob.StringBytes", string_bytes},
    {"runtime.Array", mb_object_make_array},
    {"runtime.ArrayGetItem", array_item},
    {"runtime.ArraySize", array_size},
    {"runtime.Map", mb_object_make_map},
    {"runtime.MapCount", map_count},
    {"runtime.MapGetItem", map_item},
    {"runtime.MapItems", map_items},
    {"runtime.MapSize", map_size},
    {"runtime.ShapeTuple", make_shape_object},
    {"runtime.String", make_string},
    {"runtime.GetShapeTupleElem", shape_item},
    {"runtime.GetShapeTupleSize", shape_size},
    {"", NULL},
};
