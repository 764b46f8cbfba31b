/* maps.h - the runtime's Maps as objects of the ffi (tvm::ffi::Map, tvm::ffi::Dict), and back.
 *
 * C++ code reads and changes a Map in place, by code of its own headers. The objects are laid out as
 * these have it since tvm_ffi 0.1.0: up to four entries in a row, or a table of hashed keys. */
#ifndef MB_FFI_MAPS_H
#define MB_FFI_MAPS_H

#include "values.h"

/* A Map of a Map of the runtime. */
int mb_any_of_map(TVMValue map, struct mb_any *out);
/* A Map of the runtime of a Map or Dict, which is the caller's to give back. */
int mb_map_of_object(void *object, TVMValue *value, int *code);

#endif
