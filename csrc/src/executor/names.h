/* names.h - inputs and outputs by name or index, as callers of an executor give them. */
#ifndef MB_EXECUTOR_NAMES_H
#define MB_EXECUTOR_NAMES_H

#include "native.h"

struct mb_names {
  const char *kind; /* "input" */
  const char *const *names;
  size_t count;
};

/* Argument `i` of a call. A name is found as it is, else as TVM would spell it in C (each character that is
 * no letter or digit as '_'). MBLOB_E_ARGUMENT tells what there is. */
int mb_names_argument(const struct mb_names *names, const struct mb_call *call, int i, size_t *out);
/* {"shape": {NAME: [..], ...}, "dtype": {NAME: "float32", ...}} as the call's result. */
int mb_names_return_info(const struct mb_names *names, DLTensor *const *tensors, struct mb_call *call);

#endif
