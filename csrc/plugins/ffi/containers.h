/* containers.h - the runtime's containers (kTVMObjectHandle) as objects of the ffi.
 *
 * A String becomes a string, a ShapeTuple a shape, an Array an array, whose items are converted
 * as arguments are and owned by it; it turns back into the very Array. An array of others
 * or a List becomes an Array. A Map is a map (maps.h). Other objects are wrapped and pass through. */
#ifndef MB_FFI_CONTAINERS_H
#define MB_FFI_CONTAINERS_H

#include "values.h"

int mb_any_of_container(enum mb_releases releases, TVMValue container, struct mb_any *out);
/* A new Array of the items of an array of others (0.22 and later), which is the caller's to give
 * back. */
int mb_array_of_object(void *object, TVMValue *value, int *code);
/* What a function gave to compiled code, whose tensors that are less aligned than the code assumes are
 * replaced by copies, those in containers, too. */
int mb_any_align(enum mb_releases releases, struct mb_any *any);
/* Call the global function `name`; the result is the caller's to give back. */
int mb_call_global(const char *name, const TVMValue *args, const int *codes, int count,
                   TVMValue *ret, int *ret_code);
/* Ask a container for its size, or (`count` 2) for item `i`, by that global function. */
int mb_ask_container(const char *name, TVMValue container, int64_t i, int count, TVMValue *out,
                     int *code);

#endif
