/* types.h - the classes of objects that C++ code of the ffi names: their numbers and ancestors. */
#ifndef MB_FFI_TYPES_H
#define MB_FFI_TYPES_H

#include "abi.h"

/* A member of objects of a class that C++ code registered. */
struct mb_field_info {
  struct mb_text name, doc, metadata;
  int64_t flags, size, alignment, offset;
  int (*getter)(void *field, struct mb_any *result);
  void *setter;           /* a function like the getter; an object with MB_FIELD_SETTER_IS_OBJECT */
  struct mb_any standard; /* what it has if nothing is given, with MB_FIELD_HAS_STANDARD */
  int32_t static_type;
};

enum { MB_FIELD_HAS_STANDARD = 1 << 1, MB_FIELD_SETTER_IS_OBJECT = 1 << 11 };

struct mb_method_info {
  struct mb_text name, doc, metadata;
  int64_t flags;
  struct mb_any method; /* a function; its first argument is the object */
};

struct mb_type_metadata {
  struct mb_text doc;
  int (*creator)(void **result);
  int32_t total_size, equality;
};

/* What C++ reads of a class. */
struct mb_type_info {
  int32_t type, depth;
  struct mb_text key;
  const struct mb_type_info **ancestors; /* `depth` of them, the root first */
  uint64_t hash;
  int32_t field_count, method_count;
  const struct mb_field_info *fields;
  const struct mb_method_info *methods;
  const struct mb_type_metadata *metadata; /* NULL: none */
};

/* The number of the class `key`, which gets one if it has none: `fixed`, or one of those that its
 * parent keeps for children, or the next; -1 for no fixed one. A `parent` of -2 only asks: -2 is
 * the answer for an unknown class. */
int32_t mb_type_number(const struct mb_text *key, int32_t fixed, int32_t depth, int32_t slots,
                       int32_t may_overflow, int32_t parent);
/* The number of a class; -1 for an unknown one. */
int32_t mb_type_number_of(const struct mb_text *key);
/* Registered or of this file; NULL for an unknown number. The caller may change it with
 * reflection.c's lock. */
struct mb_type_info *mb_type_known(int32_t type);
/* That of the root for an unknown number. */
const struct mb_type_info *mb_type_get(int32_t type);
/* A text: none. */
const struct mb_text *mb_type_backtrace(const char *file, int line, const char *function,
                                        int crosses);

#endif
