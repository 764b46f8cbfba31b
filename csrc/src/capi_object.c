/* TVM's C API for objects (tvm/runtime/c_runtime_api.h). What is an object in TVM and lives behind a handle
 * of its own here are modules and functions; arrays are counted through TVMArray* (their handle is the
 * DLTensor). The numbers are those of TypeIndex in TVM's object.h, unchanged in 0.8 - 0.19. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>

#include "argument.h"
#include "runtime.h"

#define ROOT_TYPE 0 /* what every type is derived from */

static const struct {
  const char *key;
  uint32_t index;
} types[] = {
    {"runtime.Object", ROOT_TYPE}, {"runtime.Module", 1}, {"runtime.NDArray", 2}, {"runtime.PackedFunc", 7}};

static int fail(int status) { return status ? -1 : 0; }

/* The key of what a handle points to; NULL (recorded) if it is no object. */
static const char *key_of(const char *function, TVMObjectHandle obj) {
  uint32_t tag = obj ? *(const uint32_t *)obj : 0;
  if (tag == MB_TAG_MODULE) return "runtime.Module";
  if (tag == MB_TAG_FUNCTION) return "runtime.PackedFunc";
  (void)mb_fail(MBLOB_E_ARGUMENT, "%s: obj is %s, expected a module or a function", function,
                obj ? "no object of this runtime" : "NULL");
  return NULL;
}

int TVMObjectTypeKey2Index(const char *type_key, unsigned *out_tindex) {
  if (MB_IS_NULL(type_key) || MB_IS_NULL(out_tindex)) return -1;
  for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
    if (strcmp(types[i].key, type_key) == 0) {
      *out_tindex = types[i].index;
      return 0;
    }
  return fail(
      mb_fail(MBLOB_E_NOT_FOUND, "TVMObjectTypeKey2Index: no object type '%s' is in this runtime", type_key));
}

int TVMObjectTypeIndex2Key(unsigned tindex, char **out_type_key) {
  if (MB_IS_NULL(out_type_key)) return -1;
  *out_type_key = NULL;
  for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
    if (types[i].index == tindex) {
      *out_type_key = strdup(types[i].key);
      return *out_type_key ? 0 : fail(mb_fail_memory(strlen(types[i].key)));
    }
  return fail(
      mb_fail(MBLOB_E_NOT_FOUND, "TVMObjectTypeIndex2Key: no object type %u is in this runtime", tindex));
}

int TVMObjectGetTypeIndex(TVMObjectHandle obj, unsigned *out_tindex) {
  if (MB_IS_NULL(out_tindex)) return -1;
  const char *key = key_of(__func__, obj);
  return key ? TVMObjectTypeKey2Index(key, out_tindex) : -1;
}

int TVMObjectDerivedFrom(uint32_t child_type_index, uint32_t parent_type_index, int *is_derived) {
  if (MB_IS_NULL(is_derived)) return -1;
  *is_derived = child_type_index == parent_type_index || parent_type_index == ROOT_TYPE;
  return 0;
}

int TVMObjectRetain(TVMObjectHandle obj) {
  if (!key_of(__func__, obj)) return -1;
  if (*(const uint32_t *)obj == MB_TAG_MODULE)
    (void)mblob_module_retain(obj);
  else
    (void)mblob_function_retain(obj);
  return 0;
}

int TVMObjectFree(TVMObjectHandle obj) {
  if (!obj) return 0;
  if (!key_of(__func__, obj)) return -1;
  if (*(const uint32_t *)obj == MB_TAG_MODULE)
    mblob_module_release(obj);
  else
    mblob_function_release(obj);
  return 0;
}

int TVMByteArrayFree(TVMByteArray *arr) {
  (void)arr;
  return 0;
}
