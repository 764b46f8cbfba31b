/* types.h - the classes of objects that C++ code of the ffi names: their numbers and ancestors. */
#ifndef MB_FFI_TYPES_H
#define MB_FFI_TYPES_H

#include "abi.h"

/* What C++ reads of a class; the fields for reflection are nothing here. */
struct mb_type_info {
  int32_t type, depth;
  struct mb_text key;
  const struct mb_type_info **ancestors; /* `depth` of them, the root first */
  uint64_t hash;
  int32_t field_count, method_count;
  const void *fields, *methods, *metadata;
};

/* The number of the class `key`, which gets one if it has none: `fixed`, or one of those that its
 * parent keeps for children, or the next; -1 for no fixed one. A `parent` of -2 only asks: -2 is
 * the answer for an unknown class. */
int32_t mb_type_number(const struct mb_text *key, int32_t fixed, int32_t depth, int32_t slots,
                       int32_t may_overflow, int32_t parent);
/* That of the root for an unknown number. */
const struct mb_type_info *mb_type_get(int32_t type);
/* A text: none. */
const struct mb_text *mb_type_backtrace(const char *file, int line, const char *function,
                                        int crosses);

#endif
