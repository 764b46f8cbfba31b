/* values.h - between the runtime's values with type codes (TVMValue) and those of the ffi. */
#ifndef MB_FFI_VALUES_H
#define MB_FFI_VALUES_H

#include "objects.h"

/* What belongs to a value of the runtime that was made of one of the ffi, for as long as it is
 * used. */
struct mb_place {
  TVMByteArray bytes; /* of a small text */
  DLTensor tensor;    /* of a tensor whose type has another name in the runtime */
  TVMValue value;     /* a reference that is to be given back */
  int code;           /* kTVMNullptr: none */
};

/* `borrowed`: for the length of a call, texts and tensors are pointed to; else the value owns
 * what it has. */
int mb_any_of_value(enum mb_releases releases, TVMValue value, int code, bool borrowed,
                    struct mb_any *out);
/* Give back what mb_any_of_value made. */
void mb_any_release(enum mb_releases releases, struct mb_any *any);

/* A value that owns what a view points to; an object that the view gives away is taken over. */
int mb_any_own(const struct mb_any *view, struct mb_any *out);

/* The other way; the result is valid while `any` and `place` are. */
int mb_value_of_any(enum mb_releases releases, const struct mb_any *any, TVMValue *value, int *code,
                    struct mb_place *place);
void mb_place_release(struct mb_place *place);

/* Parts of mb_any_of_value. `object` NULL: MBLOB_E_MEMORY. */
int mb_any_set_object(enum mb_releases releases, struct mb_any *out, int32_t type, void *object);
int mb_any_set_text(enum mb_releases releases, struct mb_any *out, bool is_text, const char *data,
                    size_t size);
int mb_any_set_wrapped(enum mb_releases releases, struct mb_any *out, TVMValue value, int code);

#endif
