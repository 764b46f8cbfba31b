/* return_value.h - results on their way from a function to its caller. */
#ifndef MB_RETURN_VALUE_H
#define MB_RETURN_VALUE_H

#include <mblob.h>

/* What a TVMRetValueHandle points to. Strings and bytes are in `text` until they are handed
 * over. */
struct mb_return {
  TVMValue value;
  int code;
  char *text; /* heap: the copy that `value` or `bytes` points into */
  TVMByteArray bytes;
};

#define MB_RETURN_NOTHING \
  {.value = {.v_int64 = 0}, .code = kTVMNullptr, .text = NULL, .bytes = {NULL, 0}}

/* A kernel of mblob's returned a TVMByteArray with its bytes behind it, which its caller frees. */
#define MB_OWNED_BYTES 0x1000c

/* Store a copy: texts are copied, counted handles get a reference. MBLOB_E_ARGUMENT for a code
 * that cannot be returned. */
int mb_return_set(struct mb_return *result, TVMValue value, int code);
/* MBLOB_E_ARGUMENT for a code that cannot be returned, and for a text that is NULL. */
int mb_return_check_value(TVMValue value, int code);
/* Check what a kernel stored itself, and copy texts, which may be on its stack. */
int mb_return_check(const char *function, struct mb_return *result);
void mb_return_drop(struct mb_return *result);
/* Give the result to the caller. Texts stay with this thread until its next call. */
void mb_return_hand_over(struct mb_return *result, TVMValue *ret, int *ret_code);

/* Add a reference to a counted handle (module, function, array, container), which mblob_value_release
 * takes back; others are left alone. */
void mb_value_retain(TVMValue value, int code);
/* How many there are of a counted handle; of a library's, to the library. 0 of others. */
size_t mb_value_references(TVMValue value, int code);

#endif
