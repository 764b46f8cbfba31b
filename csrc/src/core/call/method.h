/* method.h - functions that are written in C here: what they get, and what they return. */
#ifndef MB_METHOD_H
#define MB_METHOD_H

#include <mblob.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/call/function.h"
#include "core/call/return_value.h"
#include "core/loaded/loaded.h"

/* One call of a method. Arguments are the caller's and borrowed. */
struct mb_call {
  const char *method;
  const TVMValue *args;
  const int *codes;
  int count;
  struct mb_return *result; /* nothing, until a method sets it */
};

struct mb_method {
  char name[40]; /* in place: a pointer would need a relocation, which is larger */
  /* Returns a mblob_status; the error is recorded, the method's name is put in front. */
  int (*call)(void *object, struct mb_call *call);
};

/* A function that calls `method` with `object`, which must outlive it: for `function` of a
 * class. */
int mb_method_bind(const struct mb_method *method, void *object, mblob_function **out);
/* The method of such a function, NULL of any other. */
const struct mb_method *mb_method_of(const mblob_function *function);

/* ---- arguments: MBLOB_E_ARGUMENT with what was expected and found ---------------------------- */

int mb_call_expect(const struct mb_call *call, int at_least, int at_most);
int mb_call_int(const struct mb_call *call, int i, int64_t *out);
/* The same; an error says that `expected` ("a device") was expected. */
int mb_call_expected_int(const struct mb_call *call, int i, const char *expected, int64_t *out);
int mb_call_text(const struct mb_call *call, int i, const char **out);
/* True if it is a pointer of NULL, which stands for no name. */
static inline bool mb_call_is_null(const struct mb_call *call, int i) {
  return i < call->count && call->codes[i] == kTVMOpaqueHandle && !call->args[i].v_handle;
}
/* Text or bytes, not copied. */
int mb_call_bytes(const struct mb_call *call, int i, const void **data, size_t *size);
/* A DLTensor or an array. */
int mb_call_tensor(const struct mb_call *call, int i, DLTensor **out);
int mb_call_module(const struct mb_call *call, int i, mblob_module **out);
/* Devices from argument `i` to the last: each is one kTVMDevice, or two integers (type, id), as
 * TVM passes them. At most `limit` are stored. */
int mb_call_devices(const struct mb_call *call, int i, DLDevice *out, size_t limit, size_t *count);
bool mb_call_is_text(const struct mb_call *call, int i);

/* ---- results --------------------------------------------------------------------------------- */

void mb_call_return_int(struct mb_call *call, int64_t value);
int mb_call_return_text(struct mb_call *call, const char *text);
/* What was written to `out`, of open_memstream(text, size): closes it and frees the text, also
 * when that fails. */
int mb_call_return_stream(struct mb_call *call, FILE *out, char **text, const size_t *size);
/* Both take the reference over. */
void mb_call_return_module(struct mb_call *call, mblob_module *module);
void mb_call_return_array(struct mb_call *call, DLTensor *array);
void mb_call_return_function(struct mb_call *call, mblob_function *function);

#endif
