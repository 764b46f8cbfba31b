/* maps.h - the runtime's Maps as objects of the ffi, and back.
 *
 * How a Map lies in memory is known to libtvm_ffi alone. Where the process has it, its global
 * functions make and read Maps; where not, both sides pass Maps on as they are. */
#ifndef MB_FFI_MAPS_H
#define MB_FFI_MAPS_H

#include "values.h"

/* A Map of a Map of the runtime. `made` false, and nothing else: the process has no libtvm_ffi. */
int mb_any_of_map(TVMValue map, struct mb_any *out, bool *made);
/* A Map of the runtime of a Map of others, which is the caller's to give back. */
int mb_map_of_object(void *object, TVMValue *value, int *code, bool *made);

#endif
