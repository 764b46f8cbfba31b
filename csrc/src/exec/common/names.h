/* names.h - inputs, outputs and functions of executors by name or index, as callers give them,
 * and what they are as JSON text. */
#ifndef MB_EXECUTOR_NAMES_H
#define MB_EXECUTOR_NAMES_H

#include "core/call/call.h"
#include "core/library/library.h"

struct mb_names {
  const char *kind; /* "input" */
  const char *const *names;
  size_t count;
};

/* What a caller gave: a name, or an index. */
struct mb_name {
  const char *text; /* NULL: the index */
  int64_t index;
};

/* Argument `i` of a call. */
int mb_name_argument(const struct mb_call *call, int i, struct mb_name *out);
/* MBLOB_E_ARGUMENT: `no input 'y'; there are 3: x, w, b`. */
int mb_names_unknown(const struct mb_names *names, const struct mb_name *given);
/* Position of argument `i` of a call. A name is found as it is, else as TVM would spell it in C
 * (each character that is no letter or digit as '_'). */
int mb_names_argument(const struct mb_names *names, const struct mb_call *call, int i, size_t *out);

/* {"shape": {NAME: [..], ...}, "dtype": {NAME: "float32", ...}} of inputs that are no parameters, or
 * of outputs, as the call's result. TVM gives maps, which this runtime has not. */
int mb_names_return_info(mb_describer describe, void *object, bool outputs, struct mb_call *call);

#endif
