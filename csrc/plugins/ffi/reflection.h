/* reflection.h - what C++ code registers about its classes: members, functions, attributes, and what
 * global functions say about themselves. All of it stays: C++ reads it without a lock.
 *
 * A library that is opened again registers again. What it registers replaces what has its name. */
#ifndef MB_FFI_REFLECTION_H
#define MB_FFI_REFLECTION_H

#include "types.h"

/* An attribute of all classes: items[type - begin] is that of the class `type`; MB_ANY_NONE: it has
 * none. */
struct mb_attribute_column {
  const struct mb_any *items;
  int32_t count, begin;
};

/* Each: 0, or -1 with the error left. What is given is copied. */
int mb_register_field(int32_t type, const struct mb_field_info *info);
int mb_register_method(int32_t type, const struct mb_method_info *info);
int mb_register_metadata(int32_t type, const struct mb_type_metadata *metadata);
/* For MB_ANY_NONE as the type: the column alone. */
int mb_register_attribute(int32_t type, const struct mb_text *name, const struct mb_any *value);
/* NULL: no class has it. */
const struct mb_attribute_column *mb_attribute_column(const struct mb_text *name);
/* The attribute of a class, in the registry that the C++ code of the process asks or, if no class
 * has it there, in that of the plug-in. NULL: the class does not have it. */
const struct mb_any *mb_class_attribute(const struct mb_text *name, int32_t type);
int mb_type_index_of(const struct mb_text *key, int32_t *out);
/* What the global function of that name says about itself: the result of the global function
 * "ffi.GetGlobalFuncMetadata"(name), which is there from the first of them on. */
int mb_global_describe(const struct mb_method_info *info);

#endif
