/* aligned_call.h - calls of functions of the ffi dialect with containers. */
#ifndef MB_ALIGNED_CALL_H
#define MB_ALIGNED_CALL_H

#include "core/call/function.h"
#include "core/call/return_value.h"

static inline int mb_call_as_they_are(const mblob_function *function, const TVMValue *args,
                                      const int *codes, int count, struct mb_return *result) {
  const struct mb_library *library = function->library;
  return library->convention->call(library->dialect != MB_FFI_OF_0_21, library->external,
                                   function->u.address, function->name, args, codes, count, result);
}

/* With containers whose tensors are copied. */
int mb_call_aligned(const mblob_function *function, const TVMValue *args, const int *codes,
                    int count, struct mb_return *result);

#endif
