/* TVM's C API for objects (tvm/runtime/c_runtime_api.h). What is an object in TVM and lives
 * behind a handle of its own here are modules, functions and containers; arrays are counted
 * through TVMArray* (their handle is the DLTensor). The numbers are those of TypeIndex in TVM's
 * object.h, unchanged in 0.8 - 0.19. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "core/call/call.h"
#include "core/loaded/loaded.h"

enum {
  ROOT_TYPE = 0, /* what every type is derived from */
  MODULE_TYPE = 1,
  FUNCTION_TYPE = 7,
  NO_TYPE = -1
};

static const struct {
  char key[20];
  uint32_t index;
} object_types[] = {{"runtime.Object", ROOT_TYPE},
                    {"runtime.Module", MODULE_TYPE},
                    {"runtime.NDArray", 2},
                    {"runtime.String", MB_STRING_TYPE},
                    {"Array", MB_ARRAY_TYPE},
                    {"Map", MB_MAP_TYPE},
                    {"runtime.ShapeTuple", MB_SHAPE_TYPE},
                    {"runtime.PackedFunc", FUNCTION_TYPE}};

static int fail_as(int status) { return status ? -1 : 0; }

/* Of what a handle points to; NO_TYPE (recorded) if it is no object. */
static int checked_type_of(const char *function, TVMObjectHandle obj) {
  const uint32_t tag = obj ? *(const uint32_t *)obj : 0;
  if (tag == MB_TAG_MODULE) return MODULE_TYPE;
  if (tag == MB_TAG_FUNCTION) return FUNCTION_TYPE;
  if (tag == MB_TAG_OBJECT) return (int)mb_object_type(obj);
  (void)mb_fail_argument(obj ? MB_ARGUMENT_TYPE : MB_ARGUMENT_VALUE,
                         "%s: obj is %s, expected a module, a function or a container", function,
                         obj ? "no object of this runtime" : "NULL");
  return NO_TYPE;
}

/* The code under which values of that type are counted. */
static int code_of_object_type(int type) {
  if (type == MODULE_TYPE) return kTVMModuleHandle;
  return type == FUNCTION_TYPE ? kTVMPackedFuncHandle : kTVMObjectHandle;
}

int TVMObjectTypeKey2Index(const char *type_key, unsigned *out_tindex) {
  if (MB_IS_NULL(type_key) || MB_IS_NULL(out_tindex)) return -1;
  for (size_t i = 0; i < sizeof(object_types) / sizeof(*object_types); i++)
    if (strcmp(object_types[i].key, type_key) == 0) {
      *out_tindex = object_types[i].index;
      return 0;
    }
  return fail_as(mb_fail(MBLOB_E_NOT_FOUND,
                         "TVMObjectTypeKey2Index: no object type '%s' is in this runtime",
                         type_key));
}

int TVMObjectTypeIndex2Key(unsigned tindex, char **out_type_key) {
  if (MB_IS_NULL(out_type_key)) return -1;
  *out_type_key = NULL;
  for (size_t i = 0; i < sizeof(object_types) / sizeof(*object_types); i++)
    if (object_types[i].index == tindex) {
      *out_type_key = strdup(object_types[i].key);
      return *out_type_key ? 0 : fail_as(mb_fail_memory(strlen(object_types[i].key)));
    }
  return fail_as(mb_fail(MBLOB_E_NOT_FOUND,
                         "TVMObjectTypeIndex2Key: no object type %u is in this runtime", tindex));
}

int TVMObjectGetTypeIndex(TVMObjectHandle obj, unsigned *out_tindex) {
  if (MB_IS_NULL(out_tindex)) return -1;
  const int type = checked_type_of(__func__, obj);
  if (type == NO_TYPE) return -1;
  *out_tindex = (unsigned)type;
  return 0;
}

int TVMObjectDerivedFrom(uint32_t child_type_index, uint32_t parent_type_index, int *is_derived) {
  if (MB_IS_NULL(is_derived)) return -1;
  *is_derived = child_type_index == parent_type_index || parent_type_index == ROOT_TYPE;
  return 0;
}

int TVMObjectRetain(TVMObjectHandle obj) {
  const int type = checked_type_of(__func__, obj);
  if (type == NO_TYPE) return -1;
  mb_value_retain((TVMValue){.v_handle = obj}, code_of_object_type(type));
  return 0;
}

int TVMObjectFree(TVMObjectHandle obj) {
  if (!obj) return 0;
  const int type = checked_type_of(__func__, obj);
  if (type == NO_TYPE) return -1;
  mblob_value_release((TVMValue){.v_handle = obj}, code_of_object_type(type));
  return 0;
}

int TVMByteArrayFree(TVMByteArray *arr) {
  (void)arr;
  return 0;
}
