#include "values.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "calls.h"
#include "common.h"
#include "containers.h"
#include "maps.h"
#include "modules.h"

/* ---- to the ffi ------------------------------------------------------------------------------ */

int mb_any_set_object(enum mb_releases releases, struct mb_any *out, int32_t type, void *object) {
  if (!object) return MBLOB_E_MEMORY;
  out->type = mb_type_of_releases(releases, type);
  out->u.pointer = object;
  return MBLOB_OK;
}

int mb_any_set_text(enum mb_releases releases, struct mb_any *out, bool is_text, const char *data,
                    size_t size) {
  if (releases == MB_RELEASES_0_22 && size <= MB_SMALL_TEXT) {
    out->type = is_text ? MB_ANY_SMALL_STRING : MB_ANY_SMALL_BYTES;
    out->size = (uint32_t)size;
    if (size) memcpy(out->u.text, data, size);
    return MBLOB_OK;
  }
  const int32_t type = is_text ? MB_ANY_STRING : MB_ANY_BYTES;
  return mb_any_set_object(releases, out, type, mb_object_text(releases, type, data, size));
}

_Static_assert(MB_FLOAT8_E3M4 == MBLOB_FLOAT8_E3M4, "one number");

static void release_array(void *array) { mb_plugin_host()->array_release(array); }

static int object_of_array(enum mb_releases releases, struct mb_any *out, DLTensor *array) {
  void *object = mb_object_tensor(releases, array, array, release_array);
  if (object) {
    DLTensor *tensor = mb_object_cell(releases, object);
    tensor->dtype = mb_dtype_to_releases(releases, tensor->dtype);
    mb_plugin_host()->array_retain(array);
    mb_object_record(object)->value.v_handle = array;
    mb_object_record(object)->code = kTVMNDArrayHandle;
    mb_object_record(object)->thread = pthread_self();
  }
  return mb_any_set_object(releases, out, MB_ANY_TENSOR, object);
}

/* One of others that came this way before is handed on as it is. */
static int function_object(enum mb_releases releases, struct mb_any *out,
                           mblob_function *function) {
  void *foreign = releases == MB_RELEASES_0_22 ? mb_foreign_object(function) : NULL;
  if (!foreign)
    return mb_any_set_object(releases, out, MB_ANY_FUNCTION,
                             mb_object_function(releases, function, true));
  mb_ffi_object_retain(releases, foreign);
  return mb_any_set_object(releases, out, mb_ffi_object_type(releases, foreign), foreign);
}

/* Nothing of the ffi knows what it is, so it goes through as it is. */
int mb_any_set_wrapped(enum mb_releases releases, struct mb_any *out, TVMValue value, int code) {
  void *object = mb_object_new(releases, MB_ANY_OBJECT, sizeof(void *));
  if (object) {
    struct mb_record *record = mb_object_record(object);
    record->value = value;
    record->code = code;
    record->counted = true;
    mb_plugin_host()->value_retain(value, code);
  }
  return mb_any_set_object(releases, out, MB_ANY_OBJECT, object);
}

static int module_object(enum mb_releases releases, struct mb_any *out, TVMValue value) {
  int status = releases == MB_RELEASES_0_22 ? mb_any_of_module(value.v_handle, out) : MBLOB_OK;
  if (status || out->type != MB_ANY_NONE) return status;
  return mb_any_set_wrapped(releases, out, value, kTVMModuleHandle);
}

int mb_any_of_value(enum mb_releases releases, TVMValue value, int code, bool borrowed,
                    struct mb_any *out) {
  *out = (struct mb_any){.type = MB_ANY_NONE};
  const bool pointer = code >= kTVMDLTensorHandle && code <= kTVMNDArrayHandle;
  if (pointer && !value.v_handle) return MBLOB_OK; /* nothing */
  switch (code) {
    case kTVMArgInt:
    case kTVMArgUInt: out->type = MB_ANY_INT, out->u.i64 = value.v_int64; return MBLOB_OK;
    case kTVMArgBool: out->type = MB_ANY_BOOL, out->u.i64 = value.v_int64 != 0; return MBLOB_OK;
    case kTVMArgFloat: out->type = MB_ANY_FLOAT, out->u.f64 = value.v_float64; return MBLOB_OK;
    case kTVMOpaqueHandle:
      out->type = MB_ANY_POINTER, out->u.pointer = value.v_handle;
      return MBLOB_OK;
    case kTVMNullptr: return MBLOB_OK;
    case kTVMDataType:
      out->type = MB_ANY_DTYPE;
      out->u.dtype = borrowed ? mb_dtype_of_releases(releases, value.v_type)
                              : mb_dtype_to_releases(releases, value.v_type);
      return MBLOB_OK;
    case kDLDevice: out->type = MB_ANY_DEVICE, out->u.device = value.v_device; return MBLOB_OK;
    case kTVMDLTensorHandle:
      out->type = MB_ANY_TENSOR_VIEW, out->u.pointer = value.v_handle;
      return MBLOB_OK;
    case kTVMObjectHandle: return mb_any_of_container(releases, value, out);
    case kTVMModuleHandle: return module_object(releases, out, value);
    case kTVMPackedFuncHandle: return function_object(releases, out, value.v_handle);
    case kTVMNDArrayHandle: return object_of_array(releases, out, value.v_handle);
    case kTVMStr:
      if (!borrowed) return mb_any_set_text(releases, out, true, value.v_str, strlen(value.v_str));
      out->type = MB_ANY_C_STRING, out->u.pointer = value.v_handle;
      return MBLOB_OK;
    case kTVMBytes: {
      const TVMByteArray *bytes = value.v_handle; /* the layout of struct mb_text */
      if (!borrowed) return mb_any_set_text(releases, out, false, bytes->data, bytes->size);
      out->type = MB_ANY_BYTES_VIEW, out->u.pointer = value.v_handle;
      return MBLOB_OK;
    }
    default:
      return mb_fail_argument(MB_ARGUMENT_TYPE,
                              "%s (type code %d) cannot be passed to a function of the ffi dialect",
                              mb_type_code_name(code), code);
  }
}

void mb_any_release(enum mb_releases releases, struct mb_any *any) {
  if (any->type >= MB_ANY_OBJECT) mb_ffi_object_release(releases, any->u.pointer);
  *any = (struct mb_any){.type = MB_ANY_NONE};
}

int mb_any_own(const struct mb_any *view, struct mb_any *out) {
  const struct mb_text *bytes;
  void **given;
  *out = (struct mb_any){.type = MB_ANY_NONE};
  switch (view->type) {
    case MB_ANY_C_STRING: {
      const char *text = view->u.pointer ? view->u.pointer : "";
      return mb_any_set_text(MB_RELEASES_0_22, out, true, text, strlen(text));
    }
    case MB_ANY_BYTES_VIEW:
      bytes = view->u.pointer;
      if (!bytes || (bytes->size && !bytes->data))
        return mb_fail(MBLOB_E_ARGUMENT, "a value of bytes has a NULL pointer");
      return mb_any_set_text(MB_RELEASES_0_22, out, false, bytes->data, bytes->size);
    case MB_ANY_MOVED:
      given = view->u.pointer;
      if (!given) return mb_fail(MBLOB_E_ARGUMENT, "an object that is given away has no place");
      out->u.pointer = *given;
      *given = NULL;
      if (out->u.pointer) out->type = mb_ffi_object_type(MB_RELEASES_0_22, out->u.pointer);
      return MBLOB_OK;
    default: break;
  }
  if (view->type >= MB_ANY_OBJECT && view->u.pointer)
    mb_ffi_object_retain(MB_RELEASES_0_22, view->u.pointer);
  *out = *view;
  return MBLOB_OK;
}

/* ---- to the runtime -------------------------------------------------------------------------- */

static int give_value(TVMValue *value, int *code, TVMValue given, int its_code) {
  *value = given;
  *code = its_code;
  return MBLOB_OK;
}

/* As give_value(), of a reference that `place` has to give back. */
static int give_owned(TVMValue *value, int *code, struct mb_place *place, void *handle,
                      int its_code) {
  place->value.v_handle = handle;
  place->code = its_code;
  return give_value(value, code, place->value, its_code);
}

/* A text with a NUL inside would end there as a kTVMStr: it is a String. */
static int give_text(TVMValue *value, int *code, struct mb_place *place, const struct mb_text *text,
                     bool is_text) {
  place->bytes = (TVMByteArray){text->data, text->size};
  const TVMValue bytes = {.v_handle = &place->bytes};
  if (!is_text) return give_value(value, code, bytes, kTVMBytes);
  if (!memchr(text->data ? text->data : "", 0, text->size))
    return give_value(value, code, (TVMValue){.v_str = text->data ? text->data : ""}, kTVMStr);
  TVMValue made = {.v_handle = NULL};
  int bytes_code = kTVMBytes, made_code = kTVMNullptr;
  int status = mb_call_global("runtime.String", &bytes, &bytes_code, 1, &made, &made_code);
  return status ? status : give_owned(value, code, place, made.v_handle, made_code);
}

static void release_foreign_value(void *object) { mb_ffi_object_release(MB_RELEASES_0_22, object); }
static void release_old_value(void *object) { mb_ffi_object_release(MB_RELEASES_0_21, object); }

static int give_tensor_view(enum mb_releases releases, TVMValue *value, int *code,
                            struct mb_place *place, const DLTensor *tensor) {
  DLDataType dtype = tensor ? mb_dtype_of_runtime(releases, tensor->dtype) : (DLDataType){0, 0, 0};
  if (!tensor || dtype.code == tensor->dtype.code)
    return give_value(value, code, (TVMValue){.v_handle = (void *)(uintptr_t)tensor},
                      kTVMDLTensorHandle);
  place->tensor = *tensor;
  place->tensor.dtype = dtype;
  return give_value(value, code, (TVMValue){.v_handle = &place->tensor}, kTVMDLTensorHandle);
}

static int give_tensor(enum mb_releases releases, TVMValue *value, int *code,
                       struct mb_place *place, void *object) {
  const mblob_host *host = mb_plugin_host();
  DLTensor *tensor = mb_object_cell(releases, object), *array = NULL;
  if (mb_object_is_own(releases, object) && mb_object_record(object)->code == kTVMNDArrayHandle)
    return give_value(value, code, mb_object_record(object)->value, kTVMNDArrayHandle);
  if (!mb_is_compact(tensor)) return give_tensor_view(releases, value, code, place, tensor);
  DLTensor like = *tensor;
  like.dtype = mb_dtype_of_runtime(releases, like.dtype);
  int status = host->array_view(
      &like, object, releases == MB_RELEASES_0_22 ? release_foreign_value : release_old_value,
      &array);
  if (status) return status;
  mb_ffi_object_retain(releases, object);
  return give_owned(value, code, place, array, kTVMNDArrayHandle);
}

static int give_shape(enum mb_releases releases, TVMValue *value, int *code, struct mb_place *place,
                      void *object) {
  if (mb_object_is_own(releases, object) && mb_object_record(object)->code == kTVMObjectHandle)
    return give_value(value, code, mb_object_record(object)->value, kTVMObjectHandle);
  const struct mb_shape_cell *shape = mb_object_cell(releases, object);
  const size_t room = (shape->count + 1) * (sizeof(TVMValue) + sizeof(int));
  TVMValue *extents = mb_block_take(room), made = {.v_handle = NULL};
  int *codes = (int *)(void *)(extents + shape->count), /* kTVMArgInt is 0 */
      made_code = kTVMNullptr, status = extents ? MBLOB_OK : mb_fail_memory(room);
  for (size_t i = 0; !status && i < shape->count; i++) extents[i].v_int64 = shape->extents[i];
  if (!status)
    status =
        mb_call_global("runtime.ShapeTuple", extents, codes, (int)shape->count, &made, &made_code);
  if (extents) mb_block_give(extents, room);
  return status ? status : give_owned(value, code, place, made.v_handle, made_code);
}

/* A function of others, or an object that has no form here: a function that stands for it, and
 * turns back into it. */
static int give_foreign(enum mb_releases releases, TVMValue *value, int *code,
                        struct mb_place *place, void *object) {
  mblob_function *function = NULL;
  int status = mb_foreign_function(releases, object, &function);
  return status ? status : give_owned(value, code, place, function, kTVMPackedFuncHandle);
}

/* An array of others is read once, as arrays do not change. What holds an item that an Array
 * cannot have, such as a tensor with gaps between its rows, goes on as it is. */
static int give_array(TVMValue *value, int *code, struct mb_place *place, void *object) {
  TVMValue made = {.v_handle = NULL};
  int made_code = kTVMNullptr;
  int status = mb_array_of_object(object, &made, &made_code);
  return status ? give_foreign(MB_RELEASES_0_22, value, code, place, object)
                : give_owned(value, code, place, made.v_handle, made_code);
}

static int give_map(TVMValue *value, int *code, struct mb_place *place, void *object) {
  TVMValue map = {.v_handle = NULL};
  int map_code = kTVMNullptr;
  int status = mb_map_of_object(object, &map, &map_code);
  return status ? give_foreign(MB_RELEASES_0_22, value, code, place, object)
                : give_owned(value, code, place, map.v_handle, map_code);
}

static int give_module(TVMValue *value, int *code, struct mb_place *place, void *object) {
  void *module = NULL;
  int status = mb_module_of_object(object, &module);
  if (status) return status;
  return module ? give_value(value, code, (TVMValue){.v_handle = module}, kTVMModuleHandle)
                : give_foreign(MB_RELEASES_0_22, value, code, place, object);
}

static int give_object(enum mb_releases releases, TVMValue *value, int *code,
                       struct mb_place *place, void *object) {
  if (!object) return give_value(value, code, (TVMValue){.v_handle = NULL}, kTVMNullptr);
  int32_t type = mb_ffi_object_type(releases, object);
  switch (type) {
    case MB_ANY_STRING:
    case MB_ANY_BYTES:
      return give_text(value, code, place, mb_object_cell(releases, object), type == MB_ANY_STRING);
    case MB_ANY_TENSOR: return give_tensor(releases, value, code, place, object);
    case MB_ANY_SHAPE: return give_shape(releases, value, code, place, object);
    default: break;
  }
  if (mb_object_is_own(releases, object) && mb_object_record(object)->code != kTVMNullptr)
    return give_value(value, code, mb_object_record(object)->value, mb_object_record(object)->code);
  if ((type == MB_ANY_ARRAY || type == MB_ANY_LIST) && releases == MB_RELEASES_0_22)
    return give_array(value, code, place, object);
  if ((type == MB_ANY_MAP || type == MB_ANY_DICT) && releases == MB_RELEASES_0_22)
    return give_map(value, code, place, object);
  if (type == MB_ANY_MODULE && releases == MB_RELEASES_0_22)
    return give_module(value, code, place, object);
  return give_foreign(releases, value, code, place, object);
}

int mb_value_of_any(enum mb_releases releases, const struct mb_any *any, TVMValue *value, int *code,
                    struct mb_place *place) {
  place->code = kTVMNullptr; /* the rest is written where it is used */
  switch (any->type) {
    case MB_ANY_NONE: return give_value(value, code, (TVMValue){.v_handle = NULL}, kTVMNullptr);
    case MB_ANY_INT: return give_value(value, code, (TVMValue){.v_int64 = any->u.i64}, kTVMArgInt);
    case MB_ANY_BOOL:
      return give_value(value, code, (TVMValue){.v_int64 = any->u.i64 != 0}, kTVMArgBool);
    case MB_ANY_FLOAT:
      return give_value(value, code, (TVMValue){.v_float64 = any->u.f64}, kTVMArgFloat);
    case MB_ANY_POINTER:
      return give_value(value, code, (TVMValue){.v_handle = any->u.pointer}, kTVMOpaqueHandle);
    case MB_ANY_DTYPE:
      return give_value(value, code,
                        (TVMValue){.v_type = mb_dtype_of_runtime(releases, any->u.dtype)},
                        kTVMDataType);
    case MB_ANY_DEVICE:
      return give_value(value, code, (TVMValue){.v_device = any->u.device}, kDLDevice);
    case MB_ANY_TENSOR_VIEW: return give_tensor_view(releases, value, code, place, any->u.pointer);
    case MB_ANY_C_STRING:
      return give_value(value, code, (TVMValue){.v_handle = any->u.pointer},
                        any->u.pointer ? kTVMStr : kTVMNullptr);
    case MB_ANY_BYTES_VIEW: return give_text(value, code, place, any->u.pointer, false);
    case MB_ANY_SMALL_STRING:
    case MB_ANY_SMALL_BYTES: {
      if (any->size > MB_SMALL_TEXT) break;
      /* Whoever made it need not have put a NUL behind it. */
      memcpy(&place->value, any->u.text, sizeof(place->value));
      ((char *)&place->value)[any->size] = 0;
      const struct mb_text text = {(char *)&place->value, any->size};
      return give_text(value, code, place, &text, any->type == MB_ANY_SMALL_STRING);
    }
    case MB_ANY_MOVED:
      return give_object(releases, value, code, place,
                         any->u.pointer ? *(void **)any->u.pointer : NULL);
    default:
      if (any->type >= MB_ANY_OBJECT)
        return give_object(releases, value, code, place, any->u.pointer);
  }
  return mb_fail(MBLOB_E_ARGUMENT, "a value of type %d of the ffi dialect has no meaning here",
                 any->type);
}

void mb_place_release(struct mb_place *place) {
  if (place->code != kTVMNullptr) mb_plugin_host()->value_release(place->value, place->code);
  place->code = kTVMNullptr;
}
