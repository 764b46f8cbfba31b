/* values.h - what registers hold: values of the runtime with their type codes, of either dialect.
 * Arrays (a storage is an array of bytes, a tensor a view of one), Arrays, ShapeTuples and Strings,
 * functions (a closure is one that has its machine with it), numbers, data types, nothing. */
#ifndef MB_RELAX_VALUES_H
#define MB_RELAX_VALUES_H

#include "core/call/call.h"
#include "core/device/device.h"

struct relax_machine;

/* As TVM's TVMRetValue, which compiled functions of the classic dialect are given rows of. */
struct relax_value {
  _Alignas(8) TVMValue value; /* 16 bytes in a row, on i686, too */
  int code;
};

static inline bool relax_is_counted(int code) {
  return code >= kTVMObjectHandle && code <= kTVMNDArrayHandle && code != kTVMStr &&
         code != kTVMBytes;
}

static inline void relax_retain(struct relax_value value) {
  if (relax_is_counted(value.code)) mb_value_retain(value.value, value.code);
}

/* Put a value, whose reference is taken over, into a place. Field by field: what was written so
 * and is read as a whole has to wait for the memory. */
static inline void relax_put(struct relax_value *place, TVMValue value, int code) {
  const TVMValue old = place->value;
  const int old_code = place->code;
  place->value = value;
  place->code = code;
  if (old_code == kTVMNDArrayHandle && old.v_handle)
    mb_array_release(old.v_handle);
  else if (relax_is_counted(old_code))
    mblob_value_release(old, old_code);
}

static inline void relax_set(struct relax_value *place, struct relax_value value) {
  relax_put(place, value.value, value.code);
}

/* Drop what is in the place, and leave nothing. */
static inline void relax_clear(struct relax_value *place) {
  relax_put(place, (TVMValue){.v_handle = NULL}, kTVMNullptr);
}

/* A value of a caller as one that can be kept, with a reference: texts become Strings, a borrowed
 * tensor a counted view of the caller's memory, which *borrowed is set to, too. With
 * `borrowed` NULL it is copied, and so is what is less aligned than compiled code assumes. */
int relax_take(const struct relax_machine *m, TVMValue value, int code, struct relax_value *out,
               DLTensor **borrowed);
/* What a function gave, which is taken over: texts become Strings, all tensors are aligned. */
int relax_take_result(TVMValue value, int code, struct relax_value *out);
/* A value for a caller, taken over: Strings without a NUL become texts. A mblob_status. */
int relax_give(struct relax_value value, struct mb_return *out);
/* The object of that type, NULL if it is something else. */
struct mb_object *relax_object(TVMValue value, int code, enum mb_object_type type);
/* "ffi.Tensor", as TVM calls the type of a value. */
const char *relax_key(TVMValue value, int code);

/* ---- arguments of builtins (arguments.c): errors are those of TVM, with its kinds ----------------- */

int relax_expect(const struct mb_call *call, int count);
int relax_int(const struct mb_call *call, int i, int64_t *out);
/* A text without a NUL inside. */
int relax_name(const struct mb_call *call, int i, const char **out);
/* A data type, or its name. */
int relax_dtype(const struct mb_call *call, int i, DLDataType *out);
int relax_tensor(const struct mb_call *call, int i, DLTensor **out);
/* A Shape, or an Array of integers, as a caller's list is: their items are the same. NULL of others. */
struct mb_object *relax_extents(TVMValue value, int code);
int relax_shape(const struct mb_call *call, int i, struct mb_object **out);
int relax_array(const struct mb_call *call, int i, struct mb_object **out);
/* (tuple, index), where the tuple has an item. */
int relax_item_argument(const struct mb_call *call, struct mb_object **array, int64_t *i);
/* MBLOB_E_KERNEL "TypeError: Mismatched type on argument #i when calling: ..". */
int relax_mismatch(const struct mb_call *call, int i, const char *expected);
/* The machine that runs on this thread, which argument 0 has to be. */
int relax_context(const struct mb_call *call, struct relax_machine **out);
void relax_return(struct mb_call *call, TVMValue value, int code);
void relax_return_object(struct mb_call *call, struct mb_object *object);

#endif
